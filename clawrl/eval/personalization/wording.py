"""Estimates, changes and limits as words, the same on the screen and in the report."""

from __future__ import annotations

from clawrl.eval.personalization.change import Row
from clawrl.eval.statistics.estimates import Estimate

NOTHING = "-"
_CALLED = {"assistant": "teaching assistant"}
"""Personas whose name alone would mislead."""


def number(value: float, digits: int, *, sign: bool = False) -> str:
    """A number with a true minus sign; `sign` shows a plus too."""
    text = f"{value:+.{digits}f}" if sign else f"{value:.{digits}f}"
    return text.replace("-", "\N{MINUS SIGN}")


def estimate(found: Estimate | None, digits: int) -> str:
    """`0.45 [0.41, 0.49]`."""
    if found is None:
        return NOTHING
    low, high = number(found.low, digits), number(found.high, digits)
    return f"{number(found.value, digits)} [{low}, {high}]"


def change(row: Row) -> str:
    """`+0.33 [+0.28, +0.38]` for a difference, `x 1.10 [1.02, 1.18]` for a ratio."""
    if row.change is None:
        return NOTHING
    if row.change_as == "ratio":
        return f"\N{MULTIPLICATION SIGN} {estimate(row.change, 2)}"
    low = number(row.change.low, row.digits, sign=True)
    high = number(row.change.high, row.digits, sign=True)
    return f"{number(row.change.value, row.digits, sign=True)} [{low}, {high}]"


def limit(row: Row) -> str:
    """How far the change may go, such as `>= -0.05` or `0.5 to 2`."""
    if row.limit is None:
        return NOTHING
    low, high = row.limit.low, row.limit.high
    if low is not None and high is not None:
        return f"{_short(low)} to {_short(high)}"
    if low is not None:
        return f"\N{GREATER-THAN OR EQUAL TO} {_short(low)}"
    return NOTHING if high is None else f"\N{LESS-THAN OR EQUAL TO} {_short(high)}"


def _short(bound: float) -> str:
    return f"{bound:g}".replace("-", "\N{MINUS SIGN}")


def holds(row: Row) -> str:
    """`yes`, `NO`, or nothing to say."""
    return NOTHING if row.holds is None else "yes" if row.holds else "NO"


def complaints(row: Row, persona: str) -> str:
    """`The student's complaints fell from 8 in 10 replies to 4 in 10.`, for who knows nothing else.

    A change whose interval does not exclude 0 is said to be possibly chance.
    """
    whose = f"The {_CALLED.get(persona, persona)}'s complaints"
    if row.after is None:
        return f"{whose}: {_in_ten(row.before)} in 10 replies."
    before, after = _in_ten(row.before), _in_ten(row.after)
    if before == after:
        return f"{whose} stayed at {before} in 10 replies."
    verb = "fell" if after < before else "rose"
    doubt = "" if row.change is not None and row.change.excludes_zero else ", which may be chance"
    return f"{whose} {verb} from {before} in 10 replies to {after} in 10{doubt}."


def _in_ten(share: Estimate) -> int:
    return round(10 * share.value)
