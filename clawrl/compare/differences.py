"""Sources side by side: their scores, the differences to the first one, and how sure those are.

The replies of a group are pooled. A difference is drawn in pairs, the same problems on both sides,
so all must be measured on the same problems.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from clawrl.compare.groups import Group, grouped, told_apart
from clawrl.compare.sources import NOT_KEPT, Reply, Source
from clawrl.errors import DataError, UserError
from clawrl.eval.personalization.change import Row, control_rows
from clawrl.eval.personalization.sessions_to_effect import mean_effect
from clawrl.eval.statistics.estimates import (
    LEVEL,
    Estimate,
    Observations,
    mean,
    paired_difference,
    paired_p,
    paired_ratio,
)
from clawrl.records.folder import RunFolder
from clawrl.tastes.known import TASTES

Verdict = Literal["better", "worse", "no difference", "too few problems", "not tested"]
FEWEST_PROBLEMS = 6
"""With fewer, all of them change in one direction by chance in more than 5 of 100 pairs."""
SHOWN_PROBLEMS = 3


@dataclass(frozen=True, slots=True)
class Difference:
    """One group against the first."""

    value: float
    change: Estimate | None
    """With its paired interval; None where there are no replies to pair."""
    p: float | None
    p_holm: float | None
    """`p` after Holm's correction for all comparisons that were made."""
    verdict: Verdict
    controls: list[Row]


@dataclass(frozen=True, slots=True)
class Comparison:
    """All that `clawrl compare` says."""

    metric: str
    groups: list[Group]
    differences: list[Difference]
    """Of each group but the first."""
    config: dict[str, list[str]]
    """The keys that differ, with the value of each group."""
    notes: list[str]

    @property
    def problems(self) -> int:
        """How many problems all were measured on; 0 where no replies are kept."""
        return max(len(source.items) for group in self.groups for source in group.sources)


def compare(sources: Sequence[Source]) -> Comparison:
    """Compare two or more sources with the first.

    Raises:
        UserError: fewer than two, one of them twice, or measured by other scores or on other
            problems.
    """
    _require_comparable(sources)
    groups = grouped(told_apart(sources))
    differences = _differences(groups)
    keys = dict.fromkeys(key for group in groups for one in group.sources for key in one.config)
    rows = {key: [group.values(key) for group in groups] for key in keys}
    config = {key: values for key, values in rows.items() if len(set(values)) > 1}
    return Comparison(
        sources[0].metric, groups, differences, config, _notes(groups, differences, len(sources))
    )


def shown_replies(comparison: Comparison) -> list[list[Reply | None]]:
    """The first reply of each group's first source to each of the first three problems.

    One list for each problem, in the order of the groups; None where no replies are kept.
    """
    known = [{(one.item_id, one.sample): one for one in group.sources[0].replies}
             for group in comparison.groups]  # fmt: skip
    order = dict.fromkeys(key for replies in known for key in replies if key[1] == 0)
    return [[replies.get(key) for replies in known] for key in list(order)[:SHOWN_PROBLEMS]]


def holm(p_values: Sequence[float]) -> list[float]:
    """Each p-value corrected for all of them being looked at (Holm's step-down method)."""
    order = sorted(range(len(p_values)), key=lambda place: p_values[place])
    corrected = [0.0] * len(p_values)
    largest = 0.0
    for rank, place in enumerate(order):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[place]))
        corrected[place] = largest
    return corrected


def _require_comparable(sources: Sequence[Source]) -> None:
    if len(sources) < 2:
        raise UserError("compare needs two or more; a run alone as RUN@0 RUN@8: before and after")
    seen: set[tuple[str, int | None]] = set()
    for source in sources:
        if (source.place, source.version) in seen:
            at = "" if source.version is None else f" at version {source.version}"
            raise UserError(f"{source.typed}{at} is given twice; name another run or @VERSION")
        seen.add((source.place, source.version))
    first = sources[0]
    for source in sources[1:]:
        if source.metric != first.metric:
            raise UserError(
                f"{first.typed} is measured by {first.metric} and {source.typed} by "
                f"{source.metric}: they cannot be compared"
            )
    first = next((source for source in sources if source.items), first)
    for source in sources:
        if source.items and source.items != first.items:
            common = len(source.items & first.items)
            raise UserError(
                f"{first.typed} and {source.typed} are measured on other problems "
                f"({len(first.items)} and {len(source.items)}, {common} in common); measure both "
                "on the same"
            )


def _differences(groups: Sequence[Group]) -> list[Difference]:
    first = groups[0]
    tested = [_test(first, group) for group in groups[1:]]
    corrected = iter(holm([p for _, p in tested if p is not None]))
    found: list[Difference] = []
    for group, (change, p) in zip(groups[1:], tested, strict=True):
        p_holm = None if p is None else next(corrected)
        found.append(
            Difference(
                value=group.score.value - first.score.value,
                change=change,
                p=p,
                p_holm=p_holm,
                verdict=_verdict(change, p_holm, _problems(first)),
                controls=_controls(first, group),
            )
        )
    return found


def _test(first: Group, second: Group) -> tuple[Estimate | None, float | None]:
    if first.scores is None or second.scores is None:
        return None, None
    change = paired_difference(first.scores, second.scores)
    if _problems(first) < FEWEST_PROBLEMS:
        return change, None
    return change, paired_p(first.scores, second.scores)


def _problems(group: Group) -> int:
    return len(set(group.scores.clusters)) if group.scores else 0


def _verdict(change: Estimate | None, p: float | None, problems: int) -> Verdict:
    if change is None:
        return "not tested"
    if p is None or problems < FEWEST_PROBLEMS:
        return "too few problems"
    if p > 1 - LEVEL + 1e-9:
        return "no difference"
    return "better" if change.value > 0 else "worse"


def _controls(first: Group, second: Group) -> list[Row]:
    """What else changed: a taste's controls, or how an evaluation's replies ended."""
    if first.measurement and second.measurement:
        return control_rows(first.measurement, second.measurement)
    if not first.generations or not second.generations:
        return []
    clusters = [[one.item_id for one in group.generations] for group in (first, second)]
    tokens = [[float(one.tokens) for one in group.generations] for group in (first, second)]
    before, after = (Observations(*side) for side in zip(tokens, clusters, strict=True))
    rows = [Row("reply length, tokens", mean(before), mean(after), paired_ratio(before, after),
                "ratio", 1)]  # fmt: skip
    seen = {one.status for group in (first, second) for one in group.generations}
    for status in sorted(seen - {"ok"}):
        before, after = (
            Observations([float(one.status == status) for one in group.generations], where)
            for group, where in zip((first, second), clusters, strict=True)
        )
        change = paired_difference(before, after)
        rows.append(Row(f"replies: {status}", mean(before), mean(after), change))
    return rows


def _notes(groups: Sequence[Group], differences: Sequence[Difference], sources: int) -> list[str]:
    problems = max(_problems(group) for group in groups)
    notes: list[str] = []
    if problems:
        notes.append(
            f"In brackets: {LEVEL:.0%} bootstrap intervals over {problems} problems; differences "
            "are drawn in pairs, the same problems on both sides."
        )
    tested = [one for one in differences if one.p is not None]
    if len(tested) == 1:
        notes.append("1 comparison: different where the interval of the difference excludes 0.")
    elif tested:
        notes.append(
            f"{len(tested)} comparisons with {groups[0].name}: verdicts use Holm's correction, so "
            "one whose own interval just excludes 0 may still read \u201cno difference\u201d."
        )
    pooled = {group.sources[0].kind for group in groups if len(group.sources) > 1}
    if pooled:
        notes.append("What differs in its seed alone is pooled: the replies are joined.")
    elif sources == len(groups) and len({_setup(group) for group in groups}) == 1:
        notes.append("All have one configuration, so each stands on its own.")
    if len({place for group in groups if _trained(group) for place in group.places}) > 1:
        notes.append(
            "The intervals hold what the problems add, and not what another training with another "
            "seed would add" + (": see the values by seed." if "run" in pooled else ".")
        )
    if any(one.verdict == "not tested" for one in differences):
        notes.append(f"{NOT_KEPT[0].upper()}{NOT_KEPT[1:]}, so nothing can be drawn in pairs.")
    if any(one.verdict == "too few problems" for one in differences):
        notes.append(
            f"Fewer than {FEWEST_PROBLEMS} problems say nothing about a difference: all would "
            "change in one direction by chance too often."
        )
    notes += [line for group in groups if (line := _effect(group))]
    return notes + [remark for group in groups for one in group.sources for remark in one.remarks]


def _effect(group: Group) -> str | None:
    """After how many sessions a group's personas were pleased; None: it is no training."""
    taste = TASTES.get(group.sources[0].config.get("taste", ""))
    if taste is None or not _trained(group):
        return None
    try:
        found = mean_effect([RunFolder(Path(place)) for place in group.places], taste)
    except DataError:  # nobody has talked in it
        return None
    runs = "" if found.n == 1 else f" [{found.low:.0f}, {found.high:.0f}] over {found.n} runs"
    sessions = f"{round(found.value, 1):g}{runs}"
    if found.reached == found.n:
        return f"Sessions to effect, {group.name}: {sessions}."
    least = f"at least {sessions}"
    return f"Sessions to effect, {group.name}: {least}; {found.reached} of {found.n} got there."


def _trained(group: Group) -> bool:
    return group.sources[0].kind == "run" and group.sources[0].version != 0


def _setup(group: Group) -> tuple[object, ...]:
    """Version and configuration but for the seed."""
    source = group.sources[0]
    return source.version, *sorted(item for item in source.config.items() if item[0] != "seed")
