"""The traffic of seven stock clients, replayed in time order with the clients interleaved."""

from __future__ import annotations

import pytest

from tests.captures import CAPTURES, Placed, replay, rows, session_errors

pytestmark = pytest.mark.skipif(not CAPTURES.is_dir(), reason=f"no captures in {CAPTURES}")


def turn_errors(placed: list[Placed]) -> list[str]:
    return [
        f"{number} {one.row.name}: {one.placement.kind}"
        for number, one in enumerate(placed)
        if one.placement.turn_type != one.row.turn
    ]


def test_every_row_finds_its_session_and_its_kind_of_turn() -> None:
    placed = list(replay(rows()))
    assert len(placed) == 74
    assert session_errors(placed) == []
    assert turn_errors(placed) == []


def test_without_ids_and_headers_few_rows_are_misplaced() -> None:
    placed = list(replay([row.without_ids() for row in rows()]))
    assert len(session_errors(placed)) <= 4  # two titles, two parts of a compaction
    (subagent,) = turn_errors(placed)
    assert "opencode_task" in subagent  # its request looks like any first one


@pytest.mark.parametrize("stripped", [False, True])
def test_no_next_state_crosses_sessions_or_comes_from_an_errand(stripped: bool) -> None:
    placed = list(replay([row.without_ids() if stripped else row for row in rows()]))
    answered = [(one, int(one.answers[4:])) for one in placed if one.answers and one.state]
    assert len(answered) >= 28
    for one, number in answered:
        assert placed[number].row.session == one.row.session
        assert one.row.turn == "main"
        assert "heartbeat" not in (one.state.content if one.state else "")
        assert "INTERNAL_CONTEXT" not in (one.state.content if one.state else "")


def test_no_turn_gets_two_next_states() -> None:
    answers = [one.answers for one in replay(rows()) if one.state]
    assert len(answers) == len(set(answers))
