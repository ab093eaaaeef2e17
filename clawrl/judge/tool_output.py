"""Reads a tool's output: did the call that it belongs to work, and what to learn if not. Pure.

A tool's output exists because of the call, so output without an error is evidence for +1.
"""

from __future__ import annotations

import re

from clawrl.judge.phrasebook import tool_rules
from clawrl.judge.wording import joined
from clawrl.records.nouns import Score

HEAD_LINES, TAIL_LINES = 100, 200
"""Of a long output the middle is not read: errors stand at its ends."""
LINE_CHARS = 300
SAID_CHARS = 160
"""Of the tool's own words at most this much goes into a hint."""

_EXIT = re.compile(
    r"(?:\bexit(?:ed)?[ _-]?(?:with )?(?:code|status)|\bexited with|\brc=|\breturn[ _-]?code|"
    r"\[exit)"
    r"[\"']?\s*[:=]?\s*(-?\d+)",
    re.IGNORECASE,
)


def read_output(text: str) -> tuple[Score | None, str | None]:
    """Score and hint for the call that printed `text`.

    Returns:
        -1 for a non-zero exit code, or an error where no exit code is told; +1 for exit code 0 or
        output without an error; 0 where an error stands beside an exit code of 0; None where
        there is no output. The hint goes with -1 and quotes the line that tells most.
    """
    lines = [line[:LINE_CHARS] for line in text.strip().splitlines()]
    if not lines:
        return None, None
    if len(lines) > HEAD_LINES + TAIL_LINES:
        lines = lines[:HEAD_LINES] + lines[-TAIL_LINES:]
    output = "\n".join(lines)
    failed, hint = _fault(output)
    code = exit_code(output)
    if code is not None and code != 0:
        return -1, hint
    if not failed:
        return 1, None
    return (0, None) if code == 0 else (-1, hint)


def exit_code(text: str) -> int | None:
    """The last exit code that the output tells, or None."""
    codes = _EXIT.findall(text)
    return int(codes[-1]) if codes else None


def _fault(output: str) -> tuple[bool, str | None]:
    """Whether there is an error, and the advice of the first rule that fits, on its last match."""
    failed = False
    for rule in tool_rules():
        matches = [match for phrase in rule.says for match in phrase.finditer(output)]
        if not matches:
            continue
        failed = True
        advice = rule.instruction(matches[-1])
        if advice:
            return True, joined([_shortened(" ".join(advice.split()))])
    return failed, None


def _shortened(advice: str) -> str:
    return advice if len(advice) <= SAID_CHARS + 80 else advice[: SAID_CHARS + 79].rstrip() + "…"
