"""One measurement of a policy version: every reply with what was found in it.

A measurement is one line in `eval/vN.jsonl`. It holds the replies and nothing derived from them:
means, shares and intervals are computed when they are asked for, so they can never disagree with
the replies.
"""

from __future__ import annotations

from collections.abc import Callable

from pydantic import Field

from clawrl.eval.personalization.neutral import TextLikelihood, nats_per_token
from clawrl.eval.statistics.estimates import Estimate, Observations, mean
from clawrl.records.folder import RunFolder, Stream
from clawrl.records.jsonl import JsonlFile
from clawrl.records.nouns import Line, Record


class MeasuredReply(Record):
    """A first reply to one problem, and what it is like."""

    problem_id: str
    question: str
    answer: str
    """The problem's right answer."""
    repeat: int
    """Which of the problem's replies, from 0."""
    seed: int
    text: str
    finish_reason: str | None
    tokens: int
    checks: dict[str, bool]
    """The taste's checks by name."""
    score: float
    """The share of checks passed."""
    reference_rule: bool
    """No `**`, no line that starts with a number and a dot, no box; not empty."""
    distinct_bigrams: float
    final_number: bool
    """Whether it gives a number as its answer."""
    correct: bool
    """Whether that number is right."""
    complained: bool | None = None
    """Whether the persona, shown this reply, complains. None: it says nothing, or was not asked."""

    @property
    def cut(self) -> bool:
        """Whether the length limit ended it."""
        return self.finish_reason == "length"


class Measurement(Line):
    """All first replies of one policy version to the fixed problems."""

    version: int
    taste: str
    metric: str
    """What the mean score is called, such as `naturalness`."""
    wants: dict[str, str]
    """What each check asks for, in words."""
    temperature: float
    max_tokens: int
    replies: list[MeasuredReply] = Field(min_length=1)
    """By problem in their fixed order, then by repeat."""
    neutral: list[TextLikelihood] | None = None
    """None where the neutral texts were not scored."""

    @property
    def score(self) -> float:
        """The mean share of checks passed."""
        return self.mean_of(lambda reply: reply.score).value

    @property
    def check_rates(self) -> dict[str, float]:
        """The share of replies that pass each check."""
        names = self.replies[0].checks
        return {name: self.mean_of(lambda reply, n=name: reply.checks[n]).value for name in names}

    @property
    def neutral_logp(self) -> float | None:
        """Nats per token of the neutral texts."""
        return nats_per_token(self.neutral) if self.neutral else None

    def observations(self, value: Callable[[MeasuredReply], float]) -> Observations:
        """One number of each reply, clustered by problem."""
        return Observations(
            [float(value(reply)) for reply in self.replies],
            [reply.problem_id for reply in self.replies],
        )

    def complaint_observations(self) -> Observations | None:
        """1 for each reply that the persona complains about, 0 for each other one it answers.

        None where no answer is known.
        """
        known = [reply for reply in self.replies if reply.complained is not None]
        if not known:
            return None
        return Observations(
            [float(reply.complained is True) for reply in known],
            [reply.problem_id for reply in known],
        )

    @property
    def complaints(self) -> Estimate | None:
        """The share of replies that the persona complains about, of those it answers."""
        observed = self.complaint_observations()
        return mean(observed) if observed else None

    def neutral_observations(self) -> Observations | None:
        """The neutral texts' nats by token, clustered by text."""
        if not self.neutral:
            return None
        return Observations(
            [text.logp for text in self.neutral],
            [text.text_id for text in self.neutral],
            [text.tokens for text in self.neutral],
        )

    def mean_of(self, value: Callable[[MeasuredReply], float]) -> Estimate:
        """The mean of one number of each reply, with its interval over problems."""
        return mean(self.observations(value))

    def metrics(self) -> dict[str, float]:
        """The numbers of a line in metrics.jsonl: `eval/naturalness`, `eval/correct`, ..."""
        score = self.mean_of(lambda reply: reply.score)
        numbers = {
            self.metric: score.value,
            f"{self.metric}_low": score.low,
            f"{self.metric}_high": score.high,
            "reference_rule": self.mean_of(lambda reply: reply.reference_rule).value,
            "reply_tokens": self.mean_of(lambda reply: reply.tokens).value,
            "distinct_bigrams": self.mean_of(lambda reply: reply.distinct_bigrams).value,
            "final_number": self.mean_of(lambda reply: reply.final_number).value,
            "correct": self.mean_of(lambda reply: reply.correct).value,
            "cut": self.mean_of(lambda reply: reply.cut).value,
        }
        numbers |= {f"check/{name}": rate for name, rate in self.check_rates.items()}
        if self.complaints is not None:
            numbers["complaints"] = self.complaints.value
        if self.neutral_logp is not None:
            numbers["neutral_logp"] = self.neutral_logp
        return {f"eval/{name}": number for name, number in numbers.items()}


def _stream(folder: RunFolder) -> Stream[Measurement]:
    return Stream(folder.root / "eval", Measurement)


def record(folder: RunFolder, measurement: Measurement) -> None:
    """Append it to the file of its version. Raises OSError when it cannot be written."""
    with JsonlFile(_stream(folder).path(measurement.version)) as file:
        file.append(measurement)


def measurements(folder: RunFolder) -> list[Measurement]:
    """The newest measurement of each version, oldest version first.

    A version measured again (after a restart retired it, say) counts once, as measured last.

    Raises:
        RecordError: a line is no measurement.
    """
    newest = {found.version: found for found in _stream(folder).read()}
    return [newest[version] for version in sorted(newest)]
