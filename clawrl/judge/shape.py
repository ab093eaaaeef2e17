"""The form of a user's message: who is corrected, what is asked next, who speaks.

Phrases say what a clause means; these rules say whom it means. Pure.
"""

from __future__ import annotations

from clawrl.judge.clauses import plain
from clawrl.judge.phrasebook import pattern
from clawrl.records.nouns import Score

_MARK_CHARS = 4


def own_words(text: str) -> bool:
    """Whether the person takes back what they themselves said or gave."""
    return pattern("shape", "own_words").search(plain(text)) is not None


def meant_else(text: str) -> bool:
    """Whether the person excuses themselves for having said something else than they meant."""
    return pattern("shape", "meant_else").search(plain(text)) is not None


def own_fault(text: str) -> bool:
    """Whether the person takes the blame."""
    return pattern("shape", "own_fault").search(plain(text)) is not None


def blames(clause: str) -> bool:
    """Whether a clause speaks of the reply or of who wrote it."""
    return pattern("shape", "blames").search(plain(clause)) is not None


def next_work(clause: str) -> bool:
    """Whether a request is for another piece of work and not for a change of the last one."""
    text = plain(clause)
    if pattern("shape", "same_again").search(text):
        return True
    return pattern("shape", "next").match(text) is not None and not pattern(
        "shape", "changes_it"
    ).search(text)


def notice(text: str) -> bool:
    """Whether nobody speaks: a line of the chat's own on silence, presence or time-outs."""
    return bool(
        pattern("shape", "notice").search(text.strip())
        and pattern("shape", "presence").search(text)
    )


def mark(text: str) -> Score | None:
    """The score of a line of the chat's own that tells of a mark: "[user left a thumbs-down]"."""
    if not pattern("shape", "notice").search(text.strip()):
        return None
    if pattern("shape", "rejecting_mark").search(text):
        return -1
    return 1 if pattern("shape", "approving_mark").search(text) else None


def requests(text: str) -> bool:
    """Whether something is asked for."""
    return pattern("shape", "request").search(plain(text)) is not None


def says_right(clause: str) -> bool:
    """Whether a clause says that the reply had it right."""
    return pattern("shape", "says_right").search(plain(clause)) is not None


def not_yet(text: str) -> bool:
    """Whether the person has not looked at the reply."""
    return pattern("shape", "not_yet").search(plain(text)) is not None


def shrug(text: str) -> bool:
    """Whether a short message is nothing but dissatisfaction: "...really?", "I'll do it myself"."""
    words = plain(text.strip())
    if pattern("shape", "marks").match(words) and len(words) <= _MARK_CHARS:
        return True
    if pattern("shape", "asks_really").match(words):
        return True
    match = pattern("shape", "shrug").match(words)
    return bool(match) and not (
        pattern("shape", "delight").search(words) and not words.startswith(".")
    )
