"""A person's own rating is the verdict; a judge is asked for the hint in his words at most."""

from __future__ import annotations

from clawrl.protocols import Judge
from clawrl.records.nouns import Feedback, Interaction, Verdict, Vote


class RatedJudge(Judge):
    """Asks another judge where nobody rated the reply."""

    def __init__(self, judge: Judge) -> None:
        self._judge = judge
        self.name = judge.name

    async def judge(self, interaction: Interaction, feedback: Feedback) -> Verdict:
        """The rating as the only vote; else the other judge's verdict."""
        if feedback.score is None:
            return await self._judge.judge(interaction, feedback)
        rated = Verdict(
            interaction_id=interaction.interaction_id,
            session_id=interaction.session_id,
            judge="user",
            votes=[Vote(score=feedback.score)],
            score=feedback.score,
        )
        if not feedback.content.strip():
            return rated
        read = await self._judge.judge(interaction, feedback)
        return rated.model_copy(update={"hints": read.hints, "hint": read.hint, "cost": read.cost})

    async def aclose(self) -> None:
        """Close the other judge."""
        await self._judge.aclose()
