"""What the steps of episodes earn, from the paper's formula against a plain loop, to the sample."""

from __future__ import annotations

import statistics
from pathlib import Path

import pytest

from clawrl.config.compose import compose
from clawrl.config.schema import Objective
from clawrl.records.nouns import Episode, Sample, Step, Verdict, Vote
from clawrl.samples.assemble import assemble
from clawrl.samples.credit import Credit, step_credits
from clawrl.samples.render import PromptRenderer
from tests.factories import make_interaction


def episode(name: str, reward: float | None, steps: int, *, group: int = 0) -> Episode:
    return Episode(
        session_id=name,
        task_id="t",
        attempt=0,
        group=group,
        steps=[Step(interaction_id=f"{name}{i}", state={}) for i in range(steps)],
        reward=reward,
        ended="submitted",
        created=0.0,
        seconds=1.0,
    )


def verdicts(**votes: list[int | None]) -> dict[str, Verdict]:
    return {
        name: Verdict(
            interaction_id=name,
            session_id=name[:-1],
            judge="x",
            votes=[Vote(score=one) for one in given],  # pyright: ignore[reportArgumentType]
            score=None,
        )
        for name, given in votes.items()
    }


THREE = [episode("a", 1.0, 2), episode("b", 0.0, 2), episode("c", 0.0, 1)]
VOTES = verdicts(a0=[1, 1, 0], a1=[1], b0=[-1], b1=[1, None], c0=[0])


def standardised(values: list[float]) -> list[float]:
    spread = statistics.stdev(values)
    return [(v - statistics.mean(values)) / (spread + 1e-6) for v in values]


def test_a_step_is_compared_with_the_same_step_of_the_other_attempts() -> None:
    earned = step_credits(THREE, VOTES, process="step", outcome="zero_one")
    first = [1 + 2 / 3, 0 - 1.0, 0 + 0.0]
    second = [1 + 1.0, 0 + 1.0]
    assert [earned[n].reward for n in ("a0", "b0", "c0")] == pytest.approx(first)
    assert [earned[n].advantage for n in ("a0", "b0", "c0")] == pytest.approx(standardised(first))
    assert [earned[n].advantage for n in ("a1", "b1")] == pytest.approx(standardised(second))
    assert {credit.reason for credit in earned.values()} == {None}


def test_the_mean_over_the_trajectory_and_no_process_at_all() -> None:
    mean = step_credits(THREE, VOTES, process="trajectory_mean", outcome="zero_one")
    assert mean["a0"].reward == mean["a1"].reward == pytest.approx(1 + (2 / 3 + 1) / 2)
    none = step_credits(THREE, {}, process="none", outcome="pm1")
    assert [none[n].reward for n in ("a0", "b0", "c0")] == [1.0, -1.0, -1.0]


def test_what_says_nothing_is_dropped_with_its_reason() -> None:
    episodes = [
        episode("a", 1.0, 2), episode("b", 1.0, 1), episode("c", None, 1), episode("d", 0.0, 1),
        episode("e", 1.0, 1, group=1),
    ]  # fmt: skip
    votes = verdicts(a0=[1], a1=[1], b0=[1], c0=[1], d0=[None], e0=[-1])
    earned = step_credits(episodes, votes, process="step", outcome="zero_one")
    assert {name: credit.reason for name, credit in earned.items()} == {
        "a0": "no_spread", "b0": "no_spread", "a1": "group_of_one", "c0": "no_outcome",
        "d0": "no_feedback_score", "e0": "group_of_one",
    }  # fmt: skip
    assert {credit.advantage for credit in earned.values()} == {0.0}
    without = step_credits(episodes, {}, process="none", outcome="zero_one")
    assert without["d0"].reason is None
    assert step_credits([], {}, process="step", outcome="zero_one") == {}


def sample(tiny_model: Path, credit: Credit | None, score: int) -> Sample:
    turn = make_interaction()
    verdict = Verdict(
        interaction_id=turn.interaction_id, session_id=turn.session_id, judge="x", votes=[],
        score=score,  # pyright: ignore[reportArgumentType]
    )  # fmt: skip
    return assemble(
        turn, verdict, objective=Objective(w_opd=0), renderer=PromptRenderer(tiny_model),
        context_tokens=512, credit=credit,
    )  # fmt: skip


def test_the_advantage_stands_in_place_of_the_score(tiny_model: Path) -> None:
    kept = sample(tiny_model, Credit(0.5, 1.25), 0)
    assert (kept.accepted, kept.reward, kept.advantage, kept.signal) == (True, 0.5, 1.25, 1.25)
    dropped = sample(tiny_model, Credit(1.0, 0.0, "no_spread"), 1)
    assert (dropped.accepted, dropped.reason, dropped.signal) == (False, "no_spread", 0.0)
    plain = sample(tiny_model, None, -1)
    assert (plain.accepted, plain.advantage, plain.signal) == (True, None, -1.0)


def test_the_settings_are_named_in_the_recipe() -> None:
    config = compose(["recipe=terminal", "environment.process=none", "environment.outcome=pm1"])
    assert config.environment is not None
    assert (config.environment.process, config.environment.outcome) == ("none", "pm1")


def test_learner_and_loop_know_no_kind_of_environment() -> None:
    root = Path(__file__).parents[2] / "clawrl"
    kinds = ("terminal", "swe", "gui", "browser", "desktop")
    for room in ("learner", "objective", "loop"):
        for path in (root / room).rglob("*.py"):
            lines = [
                line.strip() for line in path.read_text().splitlines()
                if line.strip().startswith(("if ", "elif ", "match ", "case "))
            ]  # fmt: skip
            named = [one for one in lines if any(f'"{kind}"' in one for kind in kinds)]
            assert not named, f"{path}: {named}"
