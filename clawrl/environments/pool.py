"""Environments in this process: at most so many at one time, each leased to one attempt.

What a lease hands out is single-use. However a lease ends, its environment is closed before another
takes its place; leaving the pool closes those that are still out.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from types import TracebackType

from clawrl.errors import EnvironmentLost
from clawrl.protocols import Environment, Pool, TaskSet

log = logging.getLogger(__name__)


@dataclass(slots=True)
class PoolStats:
    """What has happened so far."""

    running: int = 0
    waiting: int = 0
    started: int = 0
    """Environments made, those of the past included."""
    failed: int = 0
    """Environments that could not be made."""
    start_s: float = 0.0
    """All starts together; divided by `started`, the mean."""


class LocalPool(Pool):
    """`async with LocalPool(...) as pool: async with pool.lease(task_id) as world: ...`."""

    def __init__(self, tasks: TaskSet, *, parallel: int, tools: bool = False) -> None:
        """Nothing is made before it is leased.

        Args:
            tasks: what a lease's environment is built from.
            parallel: environments at one time; more leases wait.
            tools: the model's template has tool calls.
        """
        self.stats = PoolStats()
        self._tasks = tasks
        self._tools = tools
        self._room = asyncio.Semaphore(parallel)
        self._out: set[Environment] = set()
        self._closed = False

    async def __aenter__(self) -> LocalPool:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close what is still out; its steps from now on raise EnvironmentLost."""
        self._closed = True
        await asyncio.gather(*(self._close(world) for world in list(self._out)))

    @asynccontextmanager
    async def lease(self, task_id: str) -> AsyncGenerator[Environment]:
        """Wait for room, then an environment. Raises EnvironmentLost when none can be made."""
        self.stats.waiting += 1
        try:
            await self._room.acquire()
        finally:
            self.stats.waiting -= 1
        try:
            world = await self._make(task_id)
            try:
                yield world
            finally:
                await self._close(world)
        finally:
            self._room.release()

    async def _make(self, task_id: str) -> Environment:
        if self._closed:
            raise EnvironmentLost(f"{task_id}: the pool is closed")
        began = time.monotonic()
        try:
            world = self._tasks.build(task_id, tools=self._tools)
            await world.__aenter__()
        except Exception as error:
            self.stats.failed += 1
            log.warning("task=%s no environment: %s", task_id, error)
            if isinstance(error, EnvironmentLost):
                raise
            raise EnvironmentLost(f"{task_id}: {error or type(error).__name__}") from error
        self.stats.started += 1
        self.stats.start_s += time.monotonic() - began
        self.stats.running += 1
        self._out.add(world)
        if self._closed:  # it was closed while this one started
            await self._close(world)
            raise EnvironmentLost(f"{task_id}: the pool is closed")
        return world

    async def _close(self, world: Environment) -> None:
        """Once only, to the end even when the caller is cancelled."""
        if world not in self._out:
            return
        self._out.discard(world)
        self.stats.running -= 1
        await asyncio.shield(asyncio.ensure_future(world.__aexit__(None, None, None)))
