"""Reads a tool's output: did the call that it belongs to work, and what to learn if not. Pure.

A tool's output exists because of the call, so output without an error is evidence for +1.
"""

from __future__ import annotations

import re

from clawrl.judge.effects import nothing_done, pulse
from clawrl.judge.phrasebook import nothing_rules, tool_rules
from clawrl.judge.wording import joined
from clawrl.records.nouns import Score

HEAD_LINES, TAIL_LINES = 100, 200
"""Of a long output the middle is not read: errors stand at its ends."""
SHORT_LINES = 6
"""An output of at most so many lines is the tool speaking, not what it was asked to show."""
LINE_CHARS = 300
SAID_CHARS = 160
"""Of the tool's own words at most this much goes into a hint."""

_CODE = re.compile(
    r"^[ \t]*(?:[\w./-]+:\d+:[ \t]*)?(?:"
    r"(?:def|class|except|raise|elif|return|import|async|await|throw|catch|public|private|func|fn|"
    r"const|let|var)\b(?!:)|from \S+ import|console\.|log(?:ger|ging)?\.|[@#*]|//|/\*|\"\"\"|- |"
    r"[-dl][rwx-]{9} |[\w./-]+\.(?:log|md|txt|csv):\d+:)[^\n]*",
    re.MULTILINE,
)
"""Lines of source, of lists and of directories: what stands there did not happen."""
MESSAGE_WORDS = 4
"""With a non-zero exit code a line of this many words says why."""

_EXIT = re.compile(
    r"(?:\bexit(?:ed)?[ _-]?(?:with )?(?:code|status)|\bexited with|\brc=|\breturn[ _-]?code|"
    r"\[exit)"
    r"[\"']?\s*[:=]?\s*(-?\d+)",
    re.IGNORECASE,
)


def read_output(text: str) -> tuple[Score | None, str | None]:
    """Score and hint for the call that printed `text`.

    Returns:
        -1 for a non-zero exit code, an error where no exit code is told, or words that nothing
        was done or changed; +1 for exit code 0 or output without an error; 0 for a heartbeat,
        where an error stands beside an exit code of 0, where there is no output, and where a
        search found nothing: the call may have been right or wrong. The hint goes with -1
        and quotes the line that tells most.
    """
    lines = [line[:LINE_CHARS] for line in text.strip().splitlines()]
    if not lines:
        return 0, None
    if len(lines) > HEAD_LINES + TAIL_LINES:
        lines = lines[:HEAD_LINES] + lines[-TAIL_LINES:]
    output = "\n".join(lines)
    code = exit_code(output)
    if code is None and _found_nothing(output):
        return 0, None
    failed, hint = _fault(output)
    if code is not None and code != 0:
        return -1, hint if failed else _last_message(lines)
    if not failed:
        return _without_fault(output, code)
    return (0, None) if code == 0 else (-1, hint)


def _without_fault(output: str, code: int | None) -> tuple[Score, str | None]:
    if said := nothing_done(output):
        return -1, joined([_shortened(f"Check that the call has an effect. The tool said: {said}")])
    return (0, None) if code is None and pulse(output) else (1, None)


def exit_code(text: str) -> int | None:
    """The last exit code that the output tells, or None."""
    codes = _EXIT.findall(text)
    return int(codes[-1]) if codes else None


def _found_nothing(output: str) -> bool:
    return len(output) <= LINE_CHARS and any(rule.found(output) for rule in nothing_rules())


def _last_message(lines: list[str]) -> str | None:
    """The last line that is a sentence, where no rule knows the failure."""
    said = [
        line.strip()
        for line in lines
        if len(line.split()) >= MESSAGE_WORDS and _EXIT.search(line) is None
    ]
    return joined([_shortened(f"Avoid this error: {said[-1]}")]) if said else None


def _fault(output: str) -> tuple[bool, str | None]:
    """Whether there is an error, and the advice of the first rule that fits, on its last match."""
    failed = False
    if output.startswith("[{"):  # records that were asked for
        return False, None
    output = _CODE.sub("", output)
    for rule in tool_rules(short=output.count("\n") < SHORT_LINES):
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
