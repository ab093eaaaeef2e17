"""Which requests belong together, and for how long that is remembered."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawrl.gateway.errors import ApiError
from clawrl.gateway.sessions import SessionKey, Sessions, identify


@pytest.mark.parametrize(
    ("headers", "body", "key"),
    [
        ({}, {}, SessionKey(None, "main", False)),
        ({"x-session-id": "a"}, {"session_id": "b"}, SessionKey("a", "main", False)),
        ({}, {"session_id": "b", "turn_type": "side"}, SessionKey("b", "side", False)),
        ({"x-session-done": "1"}, {}, SessionKey(None, "main", True)),
        ({"x-session-done": "False"}, {"session_done": True}, SessionKey(None, "main", False)),
        ({}, {"session_done": True}, SessionKey(None, "main", True)),
        ({"x-session-id": ""}, {}, SessionKey(None, "main", False)),
        ({}, {"session_id": None, "turn_type": None}, SessionKey(None, "main", False)),
    ],
)
def test_headers_go_before_the_body(
    headers: dict[str, str], body: dict[str, Any], key: SessionKey
) -> None:
    assert identify(headers, body) == key


def test_an_endless_session_id_is_refused() -> None:
    with pytest.raises(ApiError, match="longer than 256"):
        identify({"x-session-id": "x" * 257}, {})


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_session_is_kept_while_it_is_used_and_forgotten_when_it_is_not() -> None:
    clock = Clock()
    sessions = Sessions(10.0, clock)
    used, _ = sessions.enter("used")
    sessions.enter("idle")
    for clock.now in (6.0, 12.0):
        assert sessions.enter("used")[0] is used
    assert len(sessions) == 1
    assert sessions.enter("idle")[0].turns == 0


def test_a_session_that_ended_starts_anew_and_an_old_hold_on_it_ends_nothing() -> None:
    sessions = Sessions(10.0, Clock())
    old, _ = sessions.enter("s")
    sessions.leave(old, done=True)
    new, _ = sessions.enter("s")
    assert new is not old
    sessions.leave(old, done=True)
    assert sessions.enter("s")[0] is new


@given(st.lists(st.tuples(st.sampled_from("abc"), st.floats(0, 5), st.booleans()), max_size=40))
def test_no_session_outlives_its_idle_time(steps: list[tuple[str, float, bool]]) -> None:
    clock = Clock()
    sessions = Sessions(10.0, clock)
    last_used: dict[str, float] = {}
    for name, wait, done in steps:
        clock.now += wait
        session, _ = sessions.enter(name)
        sessions.leave(session, done=done)
        last_used[name] = clock.now
        if done:
            del last_used[name]
        alive = [time for time in last_used.values() if time > clock.now - 10.0]
        assert len(sessions) == len(alive)
