"""A person's own rating goes before any judge's."""

from __future__ import annotations

import pytest

from clawrl.judge.cues import CuesJudge
from clawrl.judge.rated import RatedJudge
from clawrl.judge.votes import replay
from clawrl.records.nouns import Feedback, Interaction, Sampling, Score, Weights

TURN = Interaction(
    interaction_id="i",
    session_id="s",
    turn=0,
    turn_type="main",
    created=0.0,
    messages=[{"role": "user", "content": "hi"}],
    sampling=Sampling(),
    reply={"role": "assistant", "content": "Hello!"},
    weights=Weights(version_first=0, version_last=0, digest=""),
)


def said(content: str, score: Score | None) -> Feedback:
    source = "explicit" if score is not None else "conversation"
    return Feedback(
        interaction_id="i",
        session_id="s",
        created=0.0,
        role="user",
        content=content,
        source=source,
        score=score,
    )


@pytest.mark.parametrize("score", [-1, 0, 1])
async def test_a_thumb_is_the_verdict_whatever_the_words_say(score: Score) -> None:
    verdict = await RatedJudge(CuesJudge()).judge(TURN, said("Please use no bullets.", score))
    assert (verdict.score, verdict.judge) == (score, "user")
    assert (
        verdict.hint == (await CuesJudge().judge(TURN, said("Please use no bullets.", None))).hint
    )
    assert replay(verdict) == verdict


async def test_a_thumb_without_words_asks_nobody() -> None:
    verdict = await RatedJudge(CuesJudge()).judge(TURN, said("", 1))
    assert (verdict.score, verdict.hint, verdict.hints) == (1, None, [])


async def test_without_a_rating_the_judge_is_asked() -> None:
    judge = RatedJudge(CuesJudge())
    verdict = await judge.judge(TURN, said("thanks, perfect", None))
    assert verdict.judge == judge.name
    assert verdict.score == 1
