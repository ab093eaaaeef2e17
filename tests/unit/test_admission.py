import asyncio

import pytest

from clawrl.serving.admission import Admission, AdmissionClosed


async def soon() -> None:
    """Let every task that can run take its turn."""
    for _ in range(5):
        await asyncio.sleep(0)


def asking(admission: Admission, turns: str) -> list[asyncio.Task[None]]:
    return [asyncio.create_task(admission.admit(turn)) for turn in turns]


async def test_no_more_than_the_limit_are_outstanding():
    admission = Admission(2)
    tasks = asking(admission, "abcde")
    await soon()
    assert [task.done() for task in tasks] == [True, True, False, False, False]
    assert (admission.outstanding, admission.waiting) == (2, 3)
    admission.settle(["a"])
    await soon()
    assert admission.outstanding == 2
    assert [task.done() for task in tasks] == [True, True, True, False, False]
    admission.close()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_a_higher_limit_lets_the_waiting_in_at_once():
    admission = Admission(0)
    tasks = asking(admission, "abc")
    await soon()
    assert admission.outstanding == 0
    admission.set_limit(3)
    await asyncio.gather(*tasks)
    assert admission.outstanding == 3


async def test_a_lower_limit_keeps_whoever_is_in():
    admission = Admission(3)
    await asyncio.gather(*asking(admission, "abc"))
    admission.set_limit(1)
    admission.settle("ab")
    (waiting,) = asking(admission, "d")
    await soon()
    assert not waiting.done()
    admission.settle("c")
    await waiting
    assert admission.outstanding == 1


async def test_turns_of_an_earlier_process_hold_places_whatever_the_limit():
    admission = Admission(1)
    admission.hold(["x", "y"])
    (waiting,) = asking(admission, "a")
    await soon()
    admission.settle("x")
    await soon()
    assert not waiting.done()
    admission.settle("y")
    await waiting


async def test_settling_a_turn_twice_frees_one_place():
    admission = Admission(2)
    await asyncio.gather(*asking(admission, "ab"))
    admission.settle(["a"])
    admission.settle(["a", "unknown"])
    assert admission.outstanding == 1


async def test_closing_ends_every_waiting_and_later_admit():
    admission = Admission(1)
    await admission.admit("a")
    (waiting,) = asking(admission, "b")
    await soon()
    admission.close()
    with pytest.raises(AdmissionClosed):
        await waiting
    with pytest.raises(AdmissionClosed):
        await admission.admit("c")
    admission.settle("a")
    assert admission.outstanding == 0


async def test_a_cancelled_waiter_takes_no_place():
    admission = Admission(1)
    await admission.admit("a")
    first, second = asking(admission, "bc")
    await soon()
    first.cancel()
    await soon()
    admission.settle("a")
    await second
    assert admission.outstanding == 1


async def test_a_waiter_cancelled_as_it_is_let_in_hands_its_place_on():
    admission = Admission(1)
    await admission.admit("a")
    first, second = asking(admission, "bc")
    await soon()
    admission.settle("a")
    first.cancel()
    await second
    assert first.cancelled()
    assert admission.outstanding == 1


def test_a_negative_limit_is_an_error():
    with pytest.raises(ValueError, match="limit -1"):
        Admission(-1)
