"""What anyone would complain about, whatever their taste: a reply that is no answer."""

from __future__ import annotations

import re
from collections import Counter

BARE_WORDS = 11
NUMBER = re.compile(r"\d")
_WORD = re.compile(r"\w+")


def substance_problems(reply: str, finish_reason: str | None) -> list[str]:
    """Which of `empty`, `bare`, `cut_off`, `repetitive`, `no_number` hold for a reply.

    - empty: fewer than three words;
    - bare: fewer than 11 words, so that nothing is explained;
    - cut_off: it was ended by the length limit;
    - repetitive: a run of six words comes three times, or fewer than a third of its words differ;
    - no_number: there is no digit in its last two sentences, so no result is stated.
    """
    words = _WORD.findall(reply.lower())
    problems: list[str] = []
    if len(words) < 3:
        problems.append("empty")
    elif len(words) < BARE_WORDS:
        problems.append("bare")
    if finish_reason == "length":
        problems.append("cut_off")
    if _repeats(words):
        problems.append("repetitive")
    if not NUMBER.search(_ending(reply)):
        problems.append("no_number")
    return problems


def _repeats(words: list[str]) -> bool:
    runs = Counter(tuple(words[i : i + 6]) for i in range(len(words) - 5))
    if runs and max(runs.values()) >= 3:
        return True
    return len(words) >= 30 and len(set(words)) < len(words) / 3


def _ending(reply: str) -> str:
    sentences = [part for part in re.split(r"(?<=[.!?])\s+|\n+", reply.strip()) if part.strip()]
    return " ".join(sentences[-2:])
