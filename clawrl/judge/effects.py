"""Tool output that tells that nothing was done, nothing changed, or only that something is alive.

The rule is the form of the sentence: a count of zero before or behind a verb of doing, and no count
above zero beside it; a thing that is looked at and called unchanged. Pure.
"""

from __future__ import annotations

import re

from clawrl.judge.phrasebook import pattern

SHORT_LINES = 8
"""A longer output shows something; a line of it that says "unchanged" is its contents."""
PULSE_LINES = 2


def pulse(output: str) -> bool:
    """Whether it only tells that something is alive or waiting: a heartbeat, a queue, a poll."""
    return (
        output.count("\n") < PULSE_LINES and pattern("effects", "pulse").search(output) is not None
    )


def nothing_done(output: str) -> str | None:
    """The words that tell that the call had no effect; None: it had one, or none was wanted."""
    if output.count("\n") >= SHORT_LINES or pattern("effects", "meant").search(output):
        return None
    if match := pattern("effects", "no_tests").search(output):
        return match.group()
    counts = [
        *pattern("effects", "before").finditer(output),
        *pattern("effects", "behind").finditer(output),
    ]
    if any(_above_zero(match["a"]) for match in counts):
        return None
    if (match := _same_twice(output) or _all_zero(output)) is not None:
        return match.group()
    found = (
        pattern("effects", "unchanged").search(output)
        or pattern("effects", "nothing_done_zh").search(output)
        or next(iter(counts), None)
    )
    return found.group() if found else None


def _same_twice(output: str) -> re.Match[str] | None:
    """A value before and after that is one and the same: "light -> light", "0 (was 0)"."""
    return pattern("effects", "same_twice").search(output)


def _all_zero(output: str) -> re.Match[str] | None:
    """The first count of what was done, where every count is 0 and none of them counts faults."""
    if output.count("\n") > PULSE_LINES or pattern("effects", "doing").search(output) is None:
        return None
    counts = [*pattern("effects", "count").finditer(pattern("effects", "measure").sub(" ", output))]
    if not counts or pattern("effects", "fault").search(output):
        return None
    return None if any(_above_zero(match["a"]) for match in counts) else counts[0]


def _above_zero(count: str) -> bool:
    return count.replace(",", "").isdigit() and int(count.replace(",", "")) > 0
