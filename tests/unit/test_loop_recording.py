"""Collecting and serving from a policy without a model, on a disk that fails."""

import asyncio
import json
from pathlib import Path

import httpx
import pytest
from rich.console import Console

from clawrl.config.compose import compose
from clawrl.config.schema import Config
from clawrl.errors import EngineError, MachineError
from clawrl.loop.display import Display, StatusLine
from clawrl.loop.parts import run_until
from clawrl.loop.policy import Policy
from clawrl.loop.serving import Serving
from clawrl.loop.state import RunState
from clawrl.offline.stages import collect_from
from clawrl.records.folder import RunFolder
from clawrl.serving.policy import ServedPolicy
from tests.stub_engine import StubEngine


class Keeper:
    """An engine that never crashes, or does at once."""

    def __init__(self, error: Exception | None = None) -> None:
        self._error = error

    async def run(self) -> None:
        if self._error is not None:
            raise self._error
        await asyncio.Event().wait()


@pytest.fixture
def config(tmp_path: Path) -> Config:
    rows = [
        {"id": f"p{i}", "question": f"What is {i} + 1?", "answer": str(i + 1)} for i in range(3)
    ]
    path = tmp_path / "problems.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    held_out = tmp_path / "held_out.jsonl"
    held_out.write_text(json.dumps({"id": "e", "question": "What is 7 + 1?", "answer": "8"}) + "\n")
    files = ["data=file", f"data.path={path}", f"data.eval_path={held_out}"]
    return compose([*files, "data.eval_problems=1", "loop.concurrent_sessions=2"])


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    root = tmp_path / "run"
    root.mkdir()
    return RunFolder(root)


@pytest.fixture
def full(folder: RunFolder) -> RunFolder:
    """A folder in which interactions cannot be written."""
    (folder.root / "interactions").touch()
    return folder


def policy(config: Config, folder: RunFolder, error: Exception | None = None) -> Policy:
    engine, keeper = StubEngine("1. **Four** is the answer."), Keeper(error)
    return Policy(folder.root, "policy", "", engine, ServedPolicy(0, "d0"), keeper)  # pyright: ignore


def status() -> StatusLine:
    return StatusLine(Console(quiet=True))


async def test_collecting_ends_when_enough_next_states_are_on_the_disk(
    config: Config, folder: RunFolder
):
    async with asyncio.timeout(30):
        await collect_from(policy(config, folder), config, folder, status(), turns=3)
    assert len(list(folder.feedback.read())) >= 3
    assert len(list(folder.interactions.read())) >= 3


async def test_a_disk_that_fails_ends_collecting_with_one_line(config: Config, full: RunFolder):
    async with asyncio.timeout(30):
        with pytest.raises(MachineError, match="collect again") as caught:
            await collect_from(policy(config, full), config, full, status(), turns=10_000)
    assert "\n" not in str(caught.value)


async def test_collecting_enough_that_was_not_written_is_no_success(
    config: Config, full: RunFolder
):
    async with asyncio.timeout(30):
        with pytest.raises(MachineError, match="collect again"):
            await collect_from(policy(config, full), config, full, status(), turns=1)


async def test_an_engine_that_fails_for_good_ends_collecting(config: Config, folder: RunFolder):
    broken = policy(config, folder, EngineError("gone"))
    async with asyncio.timeout(30):
        with pytest.raises(EngineError, match="gone"):
            await collect_from(broken, config, folder, status(), turns=3)


async def ask(url: str) -> int:
    body = {"model": "policy", "messages": [{"role": "user", "content": "2 + 2?"}]}
    async with httpx.AsyncClient() as client:
        return (await client.post(f"{url}/v1/chat/completions", json=body)).status_code


def said_url(lines: list[str]) -> str:
    return next(line for line in lines if "OPENAI_BASE_URL" in line).partition("=")[2][:-3]


def said(base_url: str, model: str) -> list[str]:
    return [f"OPENAI_BASE_URL={base_url}/v1"]


class Heard(StatusLine):
    """Keeps what it was told."""

    def __init__(self) -> None:
        super().__init__(Console(quiet=True))
        self.lines: list[str] = []
        self.begun = asyncio.Event()

    def say(self, line: str) -> None:
        self.lines.append(line)

    def phase(self, name: str) -> None:
        self.begun.set()


async def test_a_disk_that_fails_ends_serving_with_one_line(config: Config, full: RunFolder):
    heard = Heard()
    serving = Serving(config, full, heard, said)
    async with asyncio.timeout(30):
        running = asyncio.create_task(serving.serve(policy(config, full)))
        await heard.begun.wait()
        assert await ask(said_url(heard.lines)) == 200  # served all the same
        with pytest.raises(MachineError, match="serve again"):
            await running


async def test_serving_ends_when_it_is_asked_to(config: Config, folder: RunFolder):
    heard = Heard()
    serving = Serving(config, folder, heard, said)
    async with asyncio.timeout(30):
        running = asyncio.create_task(serving.serve(policy(config, folder)))
        await heard.begun.wait()
        assert await ask(said_url(heard.lines)) == 200
        serving.request_stop()
        await running
    assert len(list(folder.interactions.read())) == 1


async def test_loops_end_with_the_event_or_with_their_first_error():
    event = asyncio.Event()
    event.set()
    await run_until(event, Keeper().run(), Keeper().run())
    with pytest.raises(EngineError, match="gone"):
        await run_until(asyncio.Event(), Keeper().run(), Keeper(EngineError("gone")).run())


@pytest.mark.parametrize("terminal", [True, False])
def test_what_is_drawn_is_drawn_inside_the_context_alone(terminal: bool):
    console = Console(force_terminal=terminal, record=True, width=80, quiet=not terminal)
    state = RunState(name="n", folder="f", target=1, batch_samples=4)
    for shown in (Display(state, console), StatusLine(console)):
        with shown as same:
            assert same is shown
            shown.phase("judging")
    assert state.phase == "judging"
