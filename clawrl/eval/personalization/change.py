"""Before against after: what changed, by how much, and whether the rest stayed whole.

The taste's score should rise; the controls say what it may cost. A control is judged by its
estimate; the interval beside it says how sure that is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from clawrl.errors import UserError
from clawrl.eval.personalization.measurement import MeasuredReply, Measurement
from clawrl.eval.statistics.estimates import (
    Estimate,
    Observations,
    mean,
    paired_difference,
    paired_ratio,
)

Change = Literal["difference", "ratio"]
_ROUNDING = 1e-9
"""0.70 - 0.75 is a little less than -0.05 in binary."""


@dataclass(frozen=True, slots=True)
class Limit:
    """How far a control's change may go; None: no bound on that side."""

    low: float | None = None
    high: float | None = None

    def holds(self, change: float) -> bool:
        """Whether the change keeps within the bounds. A change that is no number does not."""
        low = -math.inf if self.low is None else self.low - _ROUNDING
        high = math.inf if self.high is None else self.high + _ROUNDING
        return low <= change <= high


@dataclass(frozen=True, slots=True)
class Row:
    """One quantity, before and after."""

    name: str
    before: Estimate
    after: Estimate | None = None
    change: Estimate | None = None
    """Paired by problem; None where there is no second measurement."""
    change_as: Change = "difference"
    digits: int = 2
    limit: Limit | None = None

    @property
    def holds(self) -> bool | None:
        """Whether a control keeps its limit; None for what is no control, or has no change."""
        if self.limit is None or self.change is None:
            return None
        return self.limit.holds(self.change.value)


Observe = Callable[[Measurement], Observations | None]


@dataclass(frozen=True, slots=True)
class _Quantity:
    """How one row's numbers come out of a measurement; None: this one does not hold them."""

    name: str
    observe: Observe
    change_as: Change = "difference"
    digits: int = 2
    limit: Limit | None = None


def _reply(value: Callable[[MeasuredReply], float]) -> Observe:
    return lambda measurement: measurement.observations(value)


_COMPLAINTS = _Quantity("complained about", Measurement.complaint_observations)
_REFERENCE = _Quantity("reference rule", _reply(lambda reply: reply.reference_rule))
_CONTROLS = (
    _Quantity(
        "reply length, tokens", _reply(lambda reply: reply.tokens), "ratio", 1, Limit(0.5, 2.0)
    ),
    _Quantity(
        "distinct bigrams", _reply(lambda reply: reply.distinct_bigrams), "ratio", 3, Limit(low=0.9)
    ),
    _Quantity(
        "states a final number", _reply(lambda reply: reply.final_number), limit=Limit(low=-0.05)
    ),
    _Quantity("final number is right", _reply(lambda reply: reply.correct), limit=Limit(low=-0.05)),
    _Quantity(
        "neutral text, nats/token",
        Measurement.neutral_observations,
        digits=3,
        limit=Limit(low=-0.1),
    ),
    _Quantity("cut off by length", _reply(lambda reply: reply.cut)),
)


def first_and_last(found: list[Measurement]) -> tuple[Measurement, Measurement | None]:
    """The oldest and the newest version's measurement; no second one where there is only one.

    Raises:
        UserError: nothing was measured, or the two cannot be compared.
    """
    if not found:
        raise UserError("eval/: nothing was measured yet; run `clawrl eval` on the run first")
    before, after = found[0], found[-1] if len(found) > 1 else None
    if after is not None and _measured_on(before) != _measured_on(after):
        raise UserError(
            f"eval/: versions {before.version} and {after.version} were measured on other problems "
            "or with other checks; measure both with the same data and persona"
        )
    return before, after


def _measured_on(found: Measurement) -> tuple[str, list[str], set[str]]:
    return found.taste, sorted(found.wants), {reply.problem_id for reply in found.replies}


def score_row(before: Measurement, after: Measurement | None) -> Row:
    """The taste's mean score."""
    score = _Quantity(before.metric, _reply(lambda reply: reply.score))
    return _rows([score], before, after)[0]


def complaint_row(before: Measurement, after: Measurement | None) -> Row | None:
    """The share of replies that the persona complains about; None where that is not known."""
    if after is not None and after.complaints is None:
        after = None
    return next(iter(_rows([_COMPLAINTS], before, after)), None)


def check_rows(before: Measurement, after: Measurement | None) -> list[Row]:
    """The share of replies that pass each check, and the reference rule."""

    def passes(name: str) -> _Quantity:
        return _Quantity(name, _reply(lambda reply: reply.checks[name]))

    return _rows([*(passes(name) for name in before.wants), _REFERENCE], before, after)


def control_rows(before: Measurement, after: Measurement | None) -> list[Row]:
    """What should not change much: length, variety, substance, and ordinary English."""
    return _rows(_CONTROLS, before, after)


def _rows(
    quantities: Sequence[_Quantity], before: Measurement, after: Measurement | None
) -> list[Row]:
    rows: list[Row] = []
    for quantity in quantities:
        first = quantity.observe(before)
        second = quantity.observe(after) if after else None
        if first is not None:
            rows.append(_row(quantity, first, second))
    return rows


def _row(quantity: _Quantity, first: Observations, second: Observations | None) -> Row:
    change = None
    if second is not None and set(first.clusters) == set(second.clusters):
        compare = paired_ratio if quantity.change_as == "ratio" else paired_difference
        change = compare(first, second)
    return Row(
        name=quantity.name,
        before=mean(first),
        after=mean(second) if second is not None else None,
        change=change,
        change_as=quantity.change_as,
        digits=quantity.digits,
        limit=quantity.limit,
    )
