"""Episodes through the real gateway: what is asked, what comes back, what is recorded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from clawrl.cli.main import app
from clawrl.collect.episodes import EpisodeCollector
from clawrl.config.compose import compose
from clawrl.config.schema import Config
from clawrl.engine.scripted import ScriptedEngine
from clawrl.environments.states import state_of
from clawrl.errors import EngineError
from clawrl.loop.environment_table import picture
from clawrl.loop.parts import open_episodes, record_engine, recorded_credits
from clawrl.protocols import Engine
from clawrl.records.folder import RunFolder
from clawrl.serving.policy import ServedPolicy

LIST = "I look first.\n```bash\nls\n```"
MAKE = "```bash\nmkdir reports\n```"
SUBMIT = "```bash\nsubmit\n```"


def configured(tmp_path: Path, *more: str) -> Config:
    return compose(
        ["recipe=terminal", f"runs_dir={tmp_path}", "environment.tasks.only=[make-folder]",
         "environment.attempts=2", "environment.parallel=2", *more]
    )  # fmt: skip


async def collected(
    tmp_path: Path, engine: Engine, *more: str, episodes: int = 2
) -> tuple[RunFolder, EpisodeCollector, list[str]]:
    config = configured(tmp_path, *more)
    folder = RunFolder(tmp_path / "run")
    given_up: list[str] = []
    async with (
        record_engine(
            config, folder, engine, ServedPolicy(3, "x"), lambda _i, _f: None,
            model_name="policy", then="again",
        ) as recording,
        open_episodes(
            config, folder, recording, give_up=given_up.append, trusted=True, episodes=episodes
        ) as collector,
    ):  # fmt: skip
        await collector.run()
        assert "2/2 episodes" in str(next(iter(picture(collector, 2, 1.0).renderables)))  # pyright: ignore
    return folder, collector, given_up


async def test_every_step_gets_its_next_state_in_order_the_last_one_too(tmp_path: Path) -> None:
    folder, collector, given_up = await collected(tmp_path, ScriptedEngine([LIST, MAKE, SUBMIT]))
    episodes = list(folder.episodes.read())
    assert [(e.task_id, e.attempt, e.group) for e in episodes] in (
        [("make-folder", 0, 0), ("make-folder", 1, 0)],
        [("make-folder", 1, 0), ("make-folder", 0, 0)],
    )
    feedback = {f.interaction_id: f for f in folder.feedback.read()}
    turns = {i.interaction_id: i for i in folder.interactions.read()}
    for episode in episodes:
        assert (episode.reward, episode.ended, len(episode.steps)) == (1.0, "submitted", 3)
        kinds = [step.state["kind"] for step in episode.steps]
        assert kinds == ["terminal", "terminal", "finished"]
        for number, step in enumerate(episode.steps):
            assert turns[step.interaction_id].turn == number
            assert turns[step.interaction_id].turn_type == "main"
            told = feedback[step.interaction_id]
            assert told.content == state_of(step.state).text()
            assert told.session_done == (number == 2)
            assert told.session_id == episode.session_id
    assert len(feedback) == 6
    assert given_up == []
    assert collector.live == {}
    assert (collector.stats.graded, collector.stats.solved, collector.stats.steps) == (2, 2.0, 6)


async def test_the_step_limit_ends_an_episode_and_it_is_graded_as_it_stands(tmp_path: Path) -> None:
    folder, _, _ = await collected(
        tmp_path, ScriptedEngine([MAKE, LIST]), "environment.max_steps=2"
    )
    for episode in folder.episodes.read():
        assert (episode.reward, episode.ended, len(episode.steps)) == (1.0, "step_limit", 2)
    assert len(list(folder.feedback.read())) == 4


async def test_what_is_no_action_is_a_step_like_any_other(tmp_path: Path) -> None:
    folder, _, _ = await collected(tmp_path, ScriptedEngine(["I made it.", SUBMIT]))
    for episode in folder.episodes.read():
        assert [s.state["kind"] for s in episode.steps] == ["malformed", "finished"]
        assert episode.reward == 0.0


class Calling(ScriptedEngine):
    """Calls the tool `bash`, then `submit`, then both at once."""

    async def chat(self, body: dict[str, Any]) -> dict[str, Any]:
        assert [t["function"]["name"] for t in body["tools"]] == ["bash", "submit"]
        done = await super().chat(body)
        names = json.loads(done["choices"][0]["message"]["content"])
        done["choices"][0]["message"] = {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {
                    "id": f"call_{len(body['messages'])}_{place}",
                    "type": "function",
                    "function": {"name": name, "arguments": json.dumps(arguments)},
                }
                for place, (name, arguments) in enumerate(names)
            ],
        }
        return done


async def test_tool_calls_get_their_answers_as_tool_messages(tmp_path: Path) -> None:
    both = [["bash", {"command": "ls"}], ["submit", {}]]
    script = [both, [["bash", {"command": "mkdir reports"}]], [["submit", {}]]]
    engine = Calling([json.dumps(line) for line in script])
    folder, _, _ = await collected(tmp_path, engine, "environment.tools=true")
    for episode in folder.episodes.read():
        kinds = [step.state["kind"] for step in episode.steps]
        assert (kinds, episode.reward) == (["malformed", "terminal", "finished"], 1.0)
    assert {f.role for f in folder.feedback.read()} == {"tool"}
    assert len(list(folder.feedback.read())) == 6


async def test_an_environment_that_is_lost_costs_its_episode_alone(tmp_path: Path) -> None:
    tasks = tmp_path / "tasks"
    for name, run in (("bad", "exit 1"), ("good", "true")):
        for folder in ("environment", "tests"):
            (tasks / name / folder).mkdir(parents=True)
        (tasks / name / "instruction.md").write_text("Do it.")
        (tasks / name / "task.toml").write_text("")
        (tasks / name / "environment" / "Dockerfile").write_text(f"WORKDIR /w\nRUN {run}\n")
        (tasks / name / "tests" / "test.sh").write_text("echo 1 > /logs/verifier/reward.txt\n")
    run, _, _ = await collected(
        tmp_path, ScriptedEngine([SUBMIT]), f"environment.tasks.folder={tasks}",
        "environment.tasks.only=null", "environment.attempts=1",
    )  # fmt: skip
    ends = {e.task_id: (e.ended, e.reward) for e in run.episodes.read()}
    assert ends == {"bad": ("lost", None), "good": ("submitted", 1.0)}


class Failing(ScriptedEngine):
    async def chat(self, body: dict[str, Any]) -> dict[str, Any]:
        if len(body["messages"]) > 2:
            raise EngineError("it crashed")
        return await super().chat(body)


async def test_a_request_that_fails_for_good_ends_its_episode(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("clawrl.collect.episodes._RETRIES", 0)
    folder, _, given_up = await collected(tmp_path, Failing([MAKE]))
    for episode in folder.episodes.read():
        assert (episode.ended, episode.reward) == ("failed", None)
    assert len(given_up) == 2


def test_the_command_collects_lists_and_shows(tmp_path: Path) -> None:
    def ran(*words: str, code: int = 0) -> str:
        result = CliRunner().invoke(app, list(words))
        assert result.exit_code == code, result.output
        return result.output

    ran(
        "collect", "recipe=terminal", "--scripted", "--episodes", "3", "run=one",
        f"runs_dir={tmp_path}", "environment.tasks.only=[write-hello]",
    )  # fmt: skip
    run = str(tmp_path / "one")
    listed = ran("episodes", run)
    assert "write-hello" in listed
    assert "100% solved" in listed
    episode = next(RunFolder(tmp_path / "one").episodes.read())
    shown = ran("episodes", run, "--show", episode.session_id[:6])
    for part in ("echo hello > greeting.txt", "[exit code 0]", "not judged", "outcome 1"):
        assert part in shown
    assert json.loads(ran("episodes", run, "--json").splitlines()[0])["task_id"] == "write-hello"


async def test_judging_a_run_waits_for_all_attempts_and_credits_each_step(tmp_path: Path) -> None:
    config = configured(tmp_path, "judge=cues")
    folder, _, _ = await collected(tmp_path, ByTurns())
    episodes = list(folder.episodes.read())
    assert sorted(e.reward for e in episodes if e.reward is not None) == [0.0, 1.0]
    earned = recorded_credits(config, folder, [])
    assert {credit.reason for credit in earned.values()} == {"no_feedback_score"}
    plain = compose(["recipe=terminal", "environment.process=none"])
    earned = recorded_credits(plain, folder, [])
    better = {s.interaction_id for e in episodes if e.reward for s in e.steps}
    for name, credit in earned.items():
        assert credit.reason is None
        assert (credit.advantage > 0) == (name in better)


class ByTurns(ScriptedEngine):
    """Every other episode solves the task."""

    def __init__(self) -> None:
        super().__init__([MAKE, SUBMIT])
        self._begun = 0

    async def chat(self, body: dict[str, Any]) -> dict[str, Any]:
        first = len(body["messages"]) == 2
        self._begun += first
        self._script[0] = LIST if first and self._begun % 2 else MAKE
        return await super().chat(body)
