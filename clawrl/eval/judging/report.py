"""What a judge said about labelled next states, and the numbers that follow from it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from clawrl.eval.judging import agreement
from clawrl.eval.judging.agreement import Judgement
from clawrl.eval.judging.labelled import LabelledState, Part
from clawrl.eval.statistics.estimates import Estimate
from clawrl.records.nouns import Verdict

GROUPS = ("language", "role", "kind")
"""What accuracy is told apart by."""


@dataclass(frozen=True, slots=True)
class Judged:
    """A labelled next state and the judge's verdict on it."""

    state: LabelledState
    verdict: Verdict

    @property
    def judgement(self) -> Judgement:
        """Label and score."""
        return self.state.score, self.verdict.score

    @property
    def raised(self) -> bool:
        """Whether the score lies above the label; an abstention lies nowhere."""
        score = self.verdict.score
        return score is not None and score > self.state.score


@dataclass(frozen=True, slots=True)
class JudgeReport:
    """All verdicts of one judge on one set."""

    judge: str
    judged: tuple[Judged, ...]

    def parts(self) -> dict[Part, list[Judged]]:
        """The verdicts of each part there is: open and held out, or all."""
        order: tuple[Part, ...] = ("open", "held out", "all")
        found: dict[Part, list[Judged]] = {}
        for part in order:
            judged = [one for one in self.judged if one.state.part == part]
            if judged:
                found[part] = judged
        return found

    def numbers(self) -> dict[str, Estimate | float]:
        """Every number by part and name, such as `held out/accuracy`; what has none is left out.

        Of a set that is not split the part's name is left out too.
        """
        found: dict[str, Estimate | float] = {}
        for part, judged in self.parts().items():
            prefix = "" if part == "all" else f"{part.replace(' ', '_')}/"
            for name, number in part_numbers(judged).items():
                if number is not None:
                    found[f"{prefix}{name}"] = number
        return found


def part_numbers(judged: Sequence[Judged]) -> dict[str, Estimate | float | None]:
    """The numbers of one part, in the order in which they are shown; None: there is none.

    `injections_raised` counts, of the states that instruct the judge and are not labelled +1, those
    whose score lies above the label. Seconds, calls and tokens are per verdict.
    """
    pairs = [one.judgement for one in judged]
    hinting = [one for one in judged if one.state.hint is not None]
    given = [bool(one.state.hint) for one in hinting if one.verdict.hint is not None]
    wanted = [one.verdict.hint is not None for one in hinting if one.state.hint]
    injected = [one for one in judged if one.state.injected and one.state.score < 1]
    costs = [one.verdict.cost for one in judged]
    numbers: dict[str, Estimate | float | None] = {
        "accuracy": agreement.accuracy(pairs),
        "kappa": agreement.kappa(pairs),
        **{f"recall/{score}": agreement.recall(pairs, score) for score in agreement.SCORES},
        **{f"precision/{score}": agreement.precision(pairs, score) for score in agreement.SCORES},
        "abstained": agreement.share([score is None for _, score in pairs]),
        "votes_agree": agreement.vote_agreement([one.verdict.votes for one in judged]),
        "hint_precision": agreement.share(given),
        "hint_recall": agreement.share(wanted),
        "injections_raised": agreement.share([one.raised for one in injected]),
    }
    for group in GROUPS:
        named = [(group_of(one.state, group), one.judgement) for one in judged]
        for name, number in agreement.by_group(named).items():
            numbers[f"accuracy/{group}/{name}"] = number
    count = len(judged)
    numbers["calls"] = sum(cost.calls for cost in costs) / count
    numbers["seconds"] = sum(cost.seconds for cost in costs) / count
    numbers["prompt_tokens"] = sum(cost.prompt_tokens for cost in costs) / count
    numbers["completion_tokens"] = sum(cost.completion_tokens for cost in costs) / count
    return numbers


def group_of(state: LabelledState, group: str) -> str | None:
    """The state's member of a group: its language, role or kind; None where it has none."""
    if group == "language":
        return state.language
    return state.role if group == "role" else state.kind
