from __future__ import annotations

import asyncio

from clawrl.serving.policy import ServedPolicy


async def test_requests_wait_while_the_weights_change():
    served = ServedPolicy(0, "d0")
    async with served.closed():
        waiting = asyncio.create_task(served.wait_ready())
        await asyncio.sleep(0.01)
        assert not waiting.done()
        served.moved_to(1, "d1")
    await waiting
    assert (served.version, served.digest) == (1, "d1")


async def test_the_gate_opens_when_a_change_fails():
    served = ServedPolicy(0, "d0")
    try:
        async with served.closed():
            raise RuntimeError
    except RuntimeError:
        await asyncio.wait_for(served.wait_ready(), 1)
    assert served.version == 0


async def test_between_two_changes_that_follow_each_other_nobody_slips_through():
    served = ServedPolicy(0, "d0")
    order: list[str] = []

    async def change(name: str) -> None:
        async with served.closed():
            order.append(name)
            await asyncio.sleep(0.01)

    async def request() -> None:
        await served.wait_ready()
        order.append("request")

    async with asyncio.TaskGroup() as group:
        group.create_task(change("update"))
        group.create_task(change("restart"))
        await asyncio.sleep(0)
        group.create_task(request())
    assert order == ["update", "restart", "request"]
