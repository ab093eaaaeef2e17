"""What a judge's answers mean: parsing, majority, the choice of the hint. Pure.

Invariant: an answer that cannot be read is an abstention, never a score of 0.
Source: arXiv:2603.10165, process reward by majority vote and hindsight hints.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from fractions import Fraction

from clawrl.errors import JudgeError
from clawrl.judge.members import Member, members_of
from clawrl.llm.quoting import last_boxed, without_thought
from clawrl.records.nouns import HintVote, Score, Verdict, Vote

MIN_HINT_CHARS = 10
"""A hint must be longer than this to say anything."""

_HINT = re.compile(r"\[HINT_START\](.*?)\[HINT_END\]", re.DOTALL)
_SCORES: dict[str, Score] = {"-1": -1, "0": 0, "1": 1, "+1": 1}


def parse_vote(text: str) -> Vote:
    r"""Read the last `\boxed{}` of a judge's answer, outside its thinking.

    Returns:
        A vote of -1, 0 or +1, or one without score that names the problem.
    """
    score = _SCORES.get(last_boxed(text) or "")
    if score is None:
        return Vote(score=None, problem="no_boxed_score")
    return Vote(score=score)


def parse_hint(text: str) -> HintVote:
    r"""Read a hint call's answer: `\boxed{1}` and the text between the markers, or `\boxed{-1}`.

    Returns:
        The hint with its white space normalised; no hint and no problem where the judge said that
        there is none; no hint and the problem where the answer is neither.
    """
    boxed = _SCORES.get(last_boxed(text) or "")
    if boxed == -1:
        return HintVote(hint=None)
    if boxed != 1:
        return HintVote(hint=None, problem="no_boxed_score")
    marked = _HINT.findall(without_thought(text))
    hint = " ".join(marked[-1].split()) if marked else ""
    return HintVote(hint=hint) if hint else HintVote(hint=None, problem="no_marked_hint")


def majority(votes: Sequence[Vote]) -> Score | None:
    """The most frequent score of the votes that have one; a tie is 0; None: nobody voted."""
    return _heaviest([(vote, Fraction(1)) for vote in votes])


def choose_hint(hints: Sequence[HintVote]) -> str | None:
    """The longest hint of more than `MIN_HINT_CHARS` characters, the first of equals; or None."""
    usable = [vote.hint for vote in hints if vote.hint and len(vote.hint) > MIN_HINT_CHARS]
    return max(usable, key=len, default=None)


def deliberate(
    members: Sequence[Member], votes: Sequence[Vote], hints: Sequence[HintVote]
) -> tuple[Score | None, str | None]:
    """Score and hint of a committee.

    Every parsed vote counts its member's weight. The hint is chosen among those of the members
    whose own majority is the committee's score.

    Args:
        members: the members in order; how many of the votes and hints each of them gave.
        votes: of all members, in the members' order.
        hints: likewise.

    Returns:
        The heaviest score (a tie is 0; None: nobody voted) and the hint, if any.

    Raises:
        JudgeError: there are more or fewer votes or hints than the members say.
    """
    weighted: list[tuple[Vote, Fraction]] = []
    own: list[tuple[Score | None, Sequence[HintVote]]] = []
    if (sum(s.votes for s in members), sum(s.hints for s in members)) != (len(votes), len(hints)):
        raise JudgeError(
            f"a committee's verdict holds {len(votes)} votes and {len(hints)} hints; "
            "its judge's name tells of others"
        )
    first_vote = first_hint = 0
    for member in members:
        given = votes[first_vote : first_vote + member.votes]
        own.append((majority(given), hints[first_hint : first_hint + member.hints]))
        # As written, not as stored: 0.1 + 0.2 against 0.3 is a tie.
        weighted += [(vote, Fraction(str(member.weight))) for vote in given]
        first_vote, first_hint = first_vote + member.votes, first_hint + member.hints
    score = _heaviest(weighted)
    agreeing = [hint for member, given in own if member == score for hint in given]
    return score, choose_hint(agreeing)


def replay(verdict: Verdict) -> Verdict:
    """The verdict again from its recorded votes and hints, without asking anyone.

    Raises:
        JudgeError: it is a committee's, and its votes do not fit the members that it names.
    """
    members = members_of(verdict.judge)
    if members is None:
        score, hint = majority(verdict.votes), choose_hint(verdict.hints)
    else:
        score, hint = deliberate(members, verdict.votes, verdict.hints)
    return verdict.model_copy(update={"score": score, "hint": hint})


def _heaviest(votes: Sequence[tuple[Vote, Fraction]]) -> Score | None:
    weights: dict[Score, Fraction] = {}
    for vote, weight in votes:
        if vote.score is not None:
            weights[vote.score] = weights.get(vote.score, Fraction(0)) + weight
    if not weights:
        return None
    most = max(weights.values())
    winners: list[Score] = [score for score, weight in weights.items() if weight == most]
    return winners[0] if len(winners) == 1 else 0
