"""What a judge's answers mean: parsing, majority, the choice of the hint. Pure.

Invariant: an answer that cannot be read is an abstention, never a score of 0.
Source: arXiv:2603.10165, process reward by majority vote and hindsight hints.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from clawrl.records.nouns import HintVote, Score, Verdict, Vote

MIN_HINT_CHARS = 10
"""A hint must be longer than this to say anything."""

_BOXED = re.compile(r"\\boxed\s*\{\s*([^{}]*?)\s*\}")
_HINT = re.compile(r"\[HINT_START\](.*?)\[HINT_END\]", re.DOTALL)
_THOUGHT = re.compile(r"<think>.*?(?:</think>|\Z)", re.DOTALL)
_SCORES: dict[str, Score] = {"-1": -1, "0": 0, "1": 1, "+1": 1}


def parse_vote(text: str) -> Vote:
    r"""Read the last `\boxed{}` of a judge's answer, outside its thinking.

    Returns:
        A vote of -1, 0 or +1, or one without score that names the problem.
    """
    score = _SCORES.get(_last_boxed(text) or "")
    if score is None:
        return Vote(score=None, problem="no_boxed_score")
    return Vote(score=score)


def parse_hint(text: str) -> HintVote:
    r"""Read a hint call's answer: `\boxed{1}` and the text between the markers, or `\boxed{-1}`.

    Returns:
        The hint with its white space normalised; no hint and no problem where the judge said that
        there is none; no hint and the problem where the answer is neither.
    """
    boxed = _SCORES.get(_last_boxed(text) or "")
    if boxed == -1:
        return HintVote(hint=None)
    if boxed != 1:
        return HintVote(hint=None, problem="no_boxed_score")
    marked = _HINT.findall(_without_thought(text))
    hint = " ".join(marked[-1].split()) if marked else ""
    return HintVote(hint=hint) if hint else HintVote(hint=None, problem="no_marked_hint")


def majority(votes: Sequence[Vote]) -> Score | None:
    """The most frequent score of the votes that have one; a tie is 0; None: nobody voted."""
    counts: Counter[Score] = Counter(vote.score for vote in votes if vote.score is not None)
    if not counts:
        return None
    most = max(counts.values())
    winners: list[Score] = [score for score, count in counts.items() if count == most]
    return winners[0] if len(winners) == 1 else 0


def choose_hint(hints: Sequence[HintVote]) -> str | None:
    """The longest hint of more than `MIN_HINT_CHARS` characters, the first of equals; or None."""
    usable = [vote.hint for vote in hints if vote.hint and len(vote.hint) > MIN_HINT_CHARS]
    return max(usable, key=len, default=None)


def replay(verdict: Verdict) -> Verdict:
    """The verdict again from its recorded votes and hints, without asking anyone."""
    return verdict.model_copy(
        update={"score": majority(verdict.votes), "hint": choose_hint(verdict.hints)}
    )


def _last_boxed(text: str) -> str | None:
    boxed = _BOXED.findall(_without_thought(text))
    return boxed[-1].replace("\u2212", "-").replace(" ", "") if boxed else None


def _without_thought(text: str) -> str:
    """Drop the reasoning, also one that was cut before its end or whose start was in the prompt."""
    return _THOUGHT.sub("", text).rpartition("</think>")[2]
