"""Judges without a model that are named like ones with: for runs that are judged again."""

from __future__ import annotations

from clawrl.judge.votes import choose_hint, majority
from clawrl.protocols import Judge
from clawrl.records.nouns import Feedback, HintVote, Interaction, Score, Verdict, Vote


class ScoringJudge(Judge):
    """Gives every turn the same score, or, with `every`, only every so many-th; else abstains."""

    def __init__(self, *, model: str = "a", score: Score = 1, every: int = 1, at: int = 0) -> None:
        self.name = f"prm/{model}@v{at}"
        self.asked = 0
        self._score: Score = score
        self._every = every

    async def judge(self, interaction: Interaction, feedback: Feedback) -> Verdict:
        self.asked += 1
        silent = self.asked % self._every != 0
        return verdict_of(interaction, self.name, None if silent else self._score)


def verdict_of(
    interaction: Interaction, judge: str, *scores: Score | None, hint: str | None = None
) -> Verdict:
    """A verdict of these votes; a score of None is a call that failed."""
    votes = [Vote(score=score, problem=None if score else "TimeoutError") for score in scores]
    hints = [HintVote(hint=hint)] if hint else []
    return Verdict(
        interaction_id=interaction.interaction_id,
        session_id=interaction.session_id,
        judge=judge,
        votes=votes,
        score=majority(votes),
        hints=hints,
        hint=choose_hint(hints),
    )
