from __future__ import annotations

from pathlib import Path

import pytest

from clawrl.errors import DataError
from clawrl.eval.personalization.measurement import MeasuredReply, Measurement, record
from clawrl.eval.personalization.sessions_to_effect import (
    Effect,
    first_replies,
    mean_effect,
    passes_reference_rule,
    sessions_to_effect,
)
from clawrl.records.folder import RunFolder
from clawrl.tastes.student import STUDENT
from clawrl.tastes.teacher import TEACHER
from tests.factories import make_interaction

LIKED = "Tom had 3 apples and bought 4 more at the shop, which makes 3 + 4 = 7 apples."
STOCK = "To solve this problem, we need to add: **3 + 4 = 7**."


def run_of(folder: Path, texts: list[str], **changes) -> RunFolder:
    folder.mkdir(parents=True, exist_ok=True)
    run = RunFolder(folder)
    writer = run.interactions.writer(0)
    for text in texts:
        writer.append(reply_of(text, **changes))
    writer.close()
    return run


def reply_of(text: str, **changes):
    return make_interaction(reply={"role": "assistant", "content": text}, **changes)


def test_it_is_the_session_of_the_third_passing_reply_in_a_row(tmp_path):
    run = run_of(tmp_path, [LIKED, LIKED, STOCK, LIKED, LIKED, LIKED, LIKED])
    assert sessions_to_effect(run, STUDENT) == Effect(6, reached=True)
    assert sessions_to_effect(run, STUDENT, row=2) == Effect(2, reached=True)
    assert sessions_to_effect(run, STUDENT, row=4) == Effect(7, reached=True)


def test_without_a_row_it_is_the_limit_and_not_reached(tmp_path):
    run = run_of(tmp_path, [LIKED, LIKED, STOCK] * 30)
    assert sessions_to_effect(run, STUDENT) == Effect(72, reached=False)
    assert sessions_to_effect(run, STUDENT, limit=5) == Effect(5, reached=False)


def test_a_row_that_ends_after_the_limit_does_not_count(tmp_path):
    run = run_of(tmp_path, [STOCK] * 70 + [LIKED] * 5)
    assert sessions_to_effect(run, STUDENT) == Effect(72, reached=False)
    assert sessions_to_effect(run, STUDENT, limit=73) == Effect(73, reached=True)


def test_a_shorter_run_counts_what_it_had(tmp_path):
    run = run_of(tmp_path, [STOCK] * 9)
    assert sessions_to_effect(run, STUDENT) == Effect(9, reached=False)
    with pytest.raises(DataError, match="no session"):
        sessions_to_effect(run_of(tmp_path / "empty", []), STUDENT)


@pytest.mark.parametrize(
    "text",
    ["", "  ", "the engine failed: gone", '{"error": {"message": "the gateway failed"}}'],
)
@pytest.mark.parametrize("rule", [None, passes_reference_rule])
def test_an_error_or_an_empty_reply_breaks_the_row(tmp_path, text, rule):
    run = run_of(tmp_path, [LIKED, LIKED, text, LIKED, LIKED])
    assert sessions_to_effect(run, STUDENT, rule=rule) == Effect(5, reached=False)


def test_a_reply_that_was_not_served_to_its_end_breaks_the_row(tmp_path):
    run = run_of(tmp_path, [LIKED, LIKED])
    writer = run.interactions.writer(0)
    writer.append(reply_of(LIKED, finish_reason=None, untrainable="engine_failed"))
    writer.append(reply_of(LIKED))
    writer.close()
    assert sessions_to_effect(run, STUDENT).reached is False


def test_a_reply_of_tool_calls_alone_passes_nothing(tmp_path):
    run = run_of(tmp_path, [LIKED, LIKED])
    writer = run.interactions.writer(0)
    writer.append(make_interaction(reply={"role": "assistant", "content": None}))
    writer.close()
    assert sessions_to_effect(run, STUDENT).reached is False


def test_only_the_first_main_turn_of_a_session_counts(tmp_path):
    run = run_of(tmp_path, [LIKED])
    writer = run.interactions.writer(0)
    side = reply_of(LIKED, session_id="s", turn_type="side", turn=0)
    first = reply_of(STOCK, session_id="s", turn=1)
    again = reply_of(LIKED, session_id="s", turn=1, replaces=first.interaction_id)
    later = [reply_of(LIKED, session_id="s", turn=turn) for turn in (2, 3, 4)]
    for turn in [side, first, again, *later]:
        writer.append(turn)
    writer.close()
    assert [turn.interaction_id for turn in first_replies(run)][1:] == [first.interaction_id]
    assert sessions_to_effect(run, STUDENT) == Effect(2, reached=False)


def test_sessions_are_counted_in_the_order_in_which_they_began(tmp_path):
    late, soon, middle = (
        reply_of(text, created=created)
        for text, created in ((STOCK, 30.0), (LIKED, 10.0), (LIKED, 20.0))
    )
    writer = RunFolder(tmp_path).interactions.writer(0)
    for turn in (late, soon, middle):  # written in the order in which they ended
        writer.append(turn)
    writer.roll(1)
    writer.append(reply_of(LIKED, created=5.0))
    writer.close()
    assert sessions_to_effect(RunFolder(tmp_path), STUDENT) == Effect(3, reached=True)


def test_measurements_are_not_sessions(tmp_path):
    run = run_of(tmp_path, [STOCK])
    reply = MeasuredReply(
        problem_id="p",
        question="3 + 4?",
        answer="7",
        repeat=0,
        seed=0,
        text=LIKED,
        finish_reason="stop",
        tokens=20,
        checks=STUDENT.results(LIKED, "stop"),
        score=1.0,
        reference_rule=True,
        distinct_bigrams=1.0,
        final_number=True,
        correct=True,
    )
    found = Measurement(
        version=0,
        taste="student",
        metric="naturalness",
        wants={},
        temperature=1,
        max_tokens=128,
        replies=[reply] * 8,
    )
    record(run, found)
    assert sessions_to_effect(run, STUDENT) == Effect(1, reached=False)


def test_the_taste_decides(tmp_path):
    run = run_of(tmp_path, [LIKED] * 4)
    assert sessions_to_effect(run, STUDENT).reached
    assert not sessions_to_effect(run, TEACHER).reached


def test_the_mean_over_runs_comes_with_its_spread(tmp_path):
    runs = [
        run_of(tmp_path / "a", [LIKED] * 3),
        run_of(tmp_path / "b", [STOCK, STOCK] + [LIKED] * 3),
        run_of(tmp_path / "c", [STOCK] * 10),
    ]
    found = mean_effect(runs, STUDENT)
    assert (found.value, found.n, found.reached) == (6.0, 3, 2)
    assert found.low == 3.0
    assert found.high == 10.0
    assert found.spread == pytest.approx(3.6056, abs=1e-4)


def test_one_run_has_no_spread_and_none_is_an_error(tmp_path):
    found = mean_effect([run_of(tmp_path, [LIKED] * 3)], STUDENT)
    assert (found.value, found.low, found.high, found.spread, found.n) == (3, 3, 3, 0, 1)
    with pytest.raises(DataError, match="at least one run"):
        mean_effect([], STUDENT)
