"""Each own task: untouched it fails, its reference passes, three plausible answers fail."""

from __future__ import annotations

import asyncio
import tomllib

from clawrl.environments.terminal.task_set import OWN_TASKS, TerminalTasks
from clawrl.protocols import Action

AT_ONE_TIME = 8


def _answers(task_id: str) -> dict[str, tuple[str | None, float]]:
    """By name: the script, and the reward that it should get."""
    folder = OWN_TASKS / task_id / "solution"
    wrong = tomllib.loads((folder / "wrong.toml").read_text())["wrong"]
    assert len(wrong) == 3
    return {
        "untouched": (None, 0.0),
        "reference": ((folder / "solve.sh").read_text(), 1.0),
        **{f"wrong: {one['why']}": (one["script"], 0.0) for one in wrong},
    }


async def test_every_own_task_takes_its_reference_and_nothing_that_only_looks_right() -> None:
    tasks = TerminalTasks()
    room = asyncio.Semaphore(AT_ONE_TIME)
    faults: list[str] = []

    async def attempt(task_id: str, name: str, script: str | None, wanted: float) -> None:
        async with room, tasks.build(task_id, tools=False) as world:
            said = ""
            if script is not None:
                state = await world.step(Action(text=f"```bash\n{script}\n```"))
                said = state.text()
            outcome = await world.grade()
            if outcome.reward != wanted:
                faults.append(f"{task_id}, {name}: {outcome} after {said}")

    async with asyncio.TaskGroup() as group:
        for task_id in tasks.ids():
            for name, (script, wanted) in _answers(task_id).items():
                group.create_task(attempt(task_id, name, script, wanted))
    assert not faults, "\n".join(faults)


def test_there_are_at_least_forty_of_every_sort() -> None:
    tasks = TerminalTasks()
    read = [tasks.task(task_id) for task_id in tasks.ids()]
    assert len(read) >= 40
    assert {task.category for task in read} >= {
        "files", "text", "processes", "archives", "git", "permissions", "data", "scripts",
    }  # fmt: skip
    assert {task.difficulty for task in read} == {"trivial", "easy", "medium"}
    assert len({task.instruction for task in read}) == len(read)
