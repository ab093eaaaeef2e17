"""Many calls of the engine at a time, but not more than a bound, with results in order."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


async def each(
    work: Callable[[T], Awaitable[R]],
    items: Sequence[T],
    *,
    concurrent: int,
    finished: Callable[[], None],
) -> list[R]:
    """The results of `work` on every item, in the items' order.

    `finished` is called after each. The first failure cancels the rest and is raised as itself, not
    as a group: a measurement with holes is no measurement, and the caller prints one line.
    """
    slots = asyncio.Semaphore(concurrent)

    async def one(item: T) -> R:
        async with slots:
            result = await work(item)
        finished()
        return result

    failure: BaseException | None = None
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one(item)) for item in items]
        return [task.result() for task in tasks]
    except BaseExceptionGroup as failures:
        failure = failures.exceptions[0]
    raise failure
