"""The pool: bounded, closed whatever happens, and a failed start is one lost environment."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from clawrl.environments.pool import LocalPool
from clawrl.environments.terminal.task_set import TerminalTasks
from clawrl.errors import DataError, EnvironmentLost
from clawrl.protocols import Action, Environment, NextState, Observation, Outcome, TaskSet
from tests.sandboxes import all_gone, pids_of


class Toy(Environment):
    """A world that only counts."""

    def __init__(self, owner: Toys, task_id: str) -> None:
        self.owner, self.task_id = owner, task_id

    async def __aenter__(self) -> Toy:
        if self.task_id == "broken":
            raise OSError("no more processes")
        await asyncio.sleep(0)
        self.owner.running += 1
        self.owner.entered.set()
        self.owner.most = max(self.owner.most, self.owner.running)
        return self

    async def __aexit__(self, *_error: object) -> None:
        await asyncio.sleep(0.01)
        self.owner.running -= 1
        self.owner.closed += 1

    async def observe(self) -> Observation:
        return Observation(messages=[])

    async def step(self, action: Action) -> NextState:
        raise NotImplementedError

    async def grade(self) -> Outcome:
        return Outcome(reward=1.0)


class Toys(TaskSet):
    name = "toys"

    def __init__(self) -> None:
        self.running = self.most = self.closed = 0
        self.entered = asyncio.Event()

    def ids(self) -> Sequence[str]:
        return ["a", "broken"]

    def build(self, task_id: str, *, tools: bool) -> Environment:
        if task_id not in self.ids():
            raise DataError("no such task")
        return Toy(self, task_id)


async def test_no_more_than_its_places_run_at_one_time() -> None:
    toys = Toys()
    async with LocalPool(toys, parallel=3) as pool:

        async def attempt() -> None:
            async with pool.lease("a"):
                await asyncio.sleep(0.01)

        await asyncio.gather(*(attempt() for _ in range(20)))
        assert (toys.most, toys.running, toys.closed) == (3, 0, 20)
        assert (pool.stats.started, pool.stats.running, pool.stats.waiting) == (20, 0, 0)


async def test_what_cannot_be_made_is_lost_and_its_place_is_free() -> None:
    async with LocalPool(Toys(), parallel=1) as pool:
        for task_id, why in (("broken", "no more processes"), ("other", "no such task")):
            with pytest.raises(EnvironmentLost, match=why):
                async with pool.lease(task_id):
                    pass
        async with pool.lease("a") as world:
            assert (await world.grade()).reward == 1.0
        assert pool.stats.failed == 2


async def test_an_error_and_a_cancellation_close_the_environment() -> None:
    toys = Toys()
    async with LocalPool(toys, parallel=1) as pool:
        with pytest.raises(ZeroDivisionError):
            async with pool.lease("a"):
                raise ZeroDivisionError
        toys.entered.clear()

        async def stuck() -> None:
            async with pool.lease("a"):
                await asyncio.sleep(60)

        task = asyncio.create_task(stuck())
        await asyncio.wait_for(toys.entered.wait(), 5)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert (toys.closed, toys.running) == (2, 0)


async def test_leaving_the_pool_closes_what_is_out_and_nothing_new_starts() -> None:
    tasks = TerminalTasks()
    async with LocalPool(tasks, parallel=4) as pool:
        lease = pool.lease("make-folder")
        world = await lease.__aenter__()
        pids = pids_of(world._box)  # pyright: ignore[reportAttributeAccessIssue]
        assert pids
    assert await all_gone(pids)
    with pytest.raises(EnvironmentLost, match="closed"):
        async with pool.lease("make-folder"):
            pass
    with pytest.raises(EnvironmentLost):
        await world.step(Action(text="```bash\nls\n```"))
    await lease.__aexit__(None, None, None)
