from __future__ import annotations

import asyncio
import json
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clawrl.eval.scoring.rules import RULES, score
from clawrl.eval.scoring.symbolic import Comparer

SOLUTIONS = Path(__file__).parents[3] / "shared" / "data" / "gsm8k_test_with_solution.jsonl"
MATH = Path(__file__).parents[3] / "shared" / "data" / "math500.jsonl"


def right(kind: str, reply: str, answer: str, finish_reason: str | None = "stop") -> bool:
    return score(reply, finish_reason, answer, RULES[kind]).right


INTEGER = [
    (r"\boxed{204}", "204", True),
    ("204.", "204", True),
    ("204", "204", True),
    ("$204$", "204", True),
    (r"So the walk takes $\boxed{204}$ minutes.", "204", True),
    (r"\boxed{073}", "073", True),
    (r"\boxed{73}", "073", True),
    (r"\boxed{073}", "73", True),
    (r"\boxed{0}", "000", True),
    (r"\boxed{1,234}", "123", False),
    (r"\boxed{ 204 }", "204", True),
    (r"\boxed {204}", "204", True),
    (r"\fbox{204}", "204", True),
    (r"\boxed{204.0}", "204", True),
    (r"\boxed{204^\circ}", "204", True),
    (r"\boxed{\text{204}}", "204", True),
    (r"\boxed{204 \text{ minutes}}", "204", True),
    (r"\boxed{m+n = 7+197 = 204}", "204", True),
    (r"\boxed{\frac{408}{2}}", "204", True),
    (r"\boxed{2^3 \cdot 25 + 4}", "204", True),
    (r"\boxed{\sqrt{41616}}", "204", True),
    (r"\boxed{\sqrt{204}}", "204", False),
    (r"\boxed{204^2}", "204", False),
    (r"\boxed{204 + 1}", "204", False),
    (r"\boxed{203} is wrong, it is \boxed{204}", "204", True),
    (r"\boxed{204} is wrong, it is \boxed{203}", "204", False),
    (r"\boxed{204} or \boxed{}", "204", False),
    (r"\boxed{204 \text{ or } 205}", "204", False),
    (r"\boxed{-204}", "204", False),
    (r"\boxed{204.5}", "204", False),
    (r"\boxed{20.4}", "204", False),
    ("The answer is **204**.", "204", True),
    ("The final answer is 204 minutes", "204", True),
    ("<think>\\boxed{7}</think>It is \\boxed{204}.", "204", True),
    ("<think>\\boxed{204}</think>It is \\boxed{7}.", "204", False),
    ("so \\boxed{204} is what I think</think>\n\nIt is \\boxed{8}", "204", False),
    ("<think>It may be \\boxed{204}", "204", False),
    ("I cannot find it.", "204", False),
    ("", "204", False),
    (r"\boxed{204k}", "204", False),
    (r"\boxed{204\pi}", "204", False),
    ("The answer is 204. (That is, 12 * 17.)", "204", True),
]

NUMBER = [
    ("She makes 9 * 2 = $18 a day.", "18", True),
    ("#### 18", "18", True),
    ("#### 1,800", "1800", True),
    ("1,234", "1234", True),
    (r"\boxed{1{,}234}", "1234", True),
    (r"\boxed{\$1,\!234}", "1234", True),
    (r"\boxed{18.00}", "18", True),
    (r"\boxed{18\%}", "18", True),
    ("It is 25%", "25", True),
    (r"\boxed{\frac{1}{2}}", "0.5", True),
    (r"\boxed{.5}", "1/2", True),
    ("He owes -5", "-5", True),
    ("He owes 5", "-5", False),
    ("He owes \N{MINUS SIGN}5", "-5", True),
    ("She has 18 eggs on 7 days", "18", False),
    ("The answer is **42**.", "42", True),
    (r"\boxed{17.999999}", "18", False),
    ("no number", "18", False),
]

VECTOR = r"\begin{pmatrix} -2 \\ 1 \end{pmatrix}"
MATHS = [
    (r"\boxed{\frac{1}{2}}", "0.5", True),
    (r"\boxed{0.5}", r"\frac{1}{2}", True),
    (r"\frac{1}{2}", "0.5", True),
    (r"$\frac{1}{2}$", "0.5", True),
    ("1/2", r"\frac12", True),
    (r"\boxed{\dfrac{1}{2}}", r"\frac12", True),
    (r"\boxed{1\frac{4}{5}}", r"\frac{9}{5}", True),
    (r"\boxed{0.333}", r"\frac{1}{3}", False),
    (r"\boxed{3\sqrt{13}}", r"\sqrt{117}", True),
    (r"\boxed{\sqrt{2}/2}", r"\frac{1}{\sqrt{2}}", True),
    (r"\boxed{90^\circ}", "90", True),
    (r"\boxed{864 \text{ square inches}}", r"864 \mbox{ inches}^2", True),
    (r"\boxed{5.4}", r"5.4 \text{ cents}", True),
    (r"\boxed{\$18.90}", "18.9", True),
    (r"\boxed{50\%}", "50", True),
    (r"\boxed{10{,}080}", "10,\\!080", True),
    (r"\boxed{x = 5}", "5", True),
    (r"\boxed{5}", "x=5", True),
    (r"\boxed{2(k+1)}", "2k+2", True),
    (r"\boxed{q - p}", "p - q", False),
    (r"\boxed{\left(3, \frac{\pi}{2}\right)}", r"\left( 3, \frac{\pi}{2} \right)", True),
    (r"\boxed{(4, 2)}", "(2, 4)", False),
    (r"\boxed{(3, 4]}", "(3,4]", True),
    (r"\boxed{[3, 4)}", "(3,4]", False),
    (r"\boxed{x \le 0}", r"(-\infty, 0]", True),
    (r"\boxed{-2, 1}", "1,-2", True),
    (r"\boxed{\{-2, 1\}}", "1,-2", True),
    (r"\boxed{1}", "1,-2", False),
    (r"\boxed{9i + 6}", "6+9i", True),
    (r"\boxed{\text{Evelyn}}", r"\text{Evelyn}", True),
    (r"\boxed{\text{Navin}}", r"\text{Evelyn}", False),
    (r"\boxed{C}", r"\text{(C)}", True),
    (r"\boxed{\begin{pmatrix} -2 \\ 1 \end{pmatrix}}", VECTOR, True),
    (r"\boxed{\begin{pmatrix} 1 \\ -2 \end{pmatrix}}", VECTOR, False),
    (r"Thus the answer is $\frac{14}{3}$. Let me know!", r"\frac{14}{3}", True),
    (r"The answer is **\(\frac{14}{3}\)**", r"\frac{14}{3}", True),
    (r"We get $a = 3$, hence it must be $\frac{14}{3}$ in the end, as we saw.", "14/3", True),
    (r"\boxed{\frac{14}", r"\frac{14}{3}", False),
    (r"\boxed{\frac{}}", r"\frac{14}{3}", False),
]  # fmt: skip

CASES = [
    *(("integer", *case) for case in INTEGER),
    *(("number", *case) for case in NUMBER),
    *(("math", *case) for case in MATHS),
]


def test_enough_answers_were_written_by_hand():
    assert len(CASES) >= 60


@pytest.mark.parametrize(("kind", "reply", "answer", "expected"), CASES)
def test_an_answer_written_by_hand_is_scored_as_a_person_would(kind, reply, answer, expected):
    assert right(kind, reply, answer) is expected


@pytest.mark.parametrize(
    ("reply", "finish_reason", "status", "parsed"),
    [
        (r"It is \boxed{204}.", "stop", "ok", "204"),
        (r"It is \boxed{204}. And so on and", "length", "truncated", "204"),
        ("It is 20", "length", "truncated", None),
        (r"It is \boxed{20", "length", "truncated", None),
        ("<think>Let me see", "length", "truncated", None),
        ("", "length", "truncated", None),
        ("", "stop", "empty", None),
        (" \n", None, "empty", None),
        ("I'm sorry, but I can't help with that.", "stop", "refused", None),
        ("I\N{RIGHT SINGLE QUOTATION MARK}m sorry, I cannot do that.", "stop", "refused", None),
        ("As an AI, I have no opinion.", "stop", "refused", None),
        ("I'm sorry, it took a while: 204", "stop", "ok", "204"),
        ("It depends.", "stop", "unparsable", None),
        (r"It is \boxed{}.", "stop", "unparsable", None),
        ("<think>Only thoughts</think>", "stop", "unparsable", None),
    ],
)
def test_ways_to_end_are_told_apart(reply, finish_reason, status, parsed):
    found = score(reply, finish_reason, "204", RULES["integer"])
    assert (found.status, found.parsed) == (status, parsed)


def test_a_truncated_reply_whose_box_is_whole_may_be_right():
    assert right("integer", r"\boxed{204} and", "204", "length")
    assert not right("integer", r"204", "204", "length")


def test_only_whole_numbers_up_to_999_are_answers_of_aime():
    is_answer = RULES["integer"].is_answer
    assert all(map(is_answer, ("0", "073", "999")))
    assert not any(map(is_answer, ("1000", "-1", "1.5", "x", "", "\N{SUPERSCRIPT TWO}")))


@pytest.mark.skipif(not SOLUTIONS.is_file(), reason=f"the solutions are not here: {SOLUTIONS}")
@pytest.mark.parametrize("form", ["{}\n#### {}", "{}\nThe answer is \\boxed{{{}}}.", "{}\n**{}**"])
def test_gold_solutions_score_all_and_with_the_answer_changed_by_one_none(form: str):
    rows = [json.loads(line) for line in SOLUTIONS.read_text(encoding="utf-8").splitlines()]
    assert len(rows) == 1319
    gold = [right("number", form.format(r["solution"], r["answer"]), r["answer"]) for r in rows]
    off = [
        right("number", form.format(r["solution"], int(r["answer"]) + 1), r["answer"]) for r in rows
    ]
    assert (sum(gold), sum(off)) == (1319, 0)


@pytest.mark.skipif(not MATH.is_file(), reason=f"MATH-500 is not here: {MATH}")
def test_every_answer_of_math500_is_right_for_itself_and_wrong_for_a_number_beside_it():
    rows = [json.loads(line) for line in MATH.read_text(encoding="utf-8").splitlines()]
    assert len(rows) == 500
    assert all(right("math", f"\\boxed{{{row['answer']}}}", row["answer"]) for row in rows)
    assert not any(right("math", "\\boxed{123456.75}", row["answer"]) for row in rows[::25])


def test_scoring_works_in_threads_and_in_an_event_loop():
    cases = [case for case in MATHS if case[2]]

    def one(case: tuple[str, str, bool]) -> bool:
        return right("math", case[0], case[1])

    with ThreadPoolExecutor(4) as threads:
        assert all(threads.map(one, cases))

    async def side_by_side() -> list[bool]:
        return await asyncio.gather(*(asyncio.to_thread(one, case) for case in cases))

    assert all(asyncio.run(side_by_side()))


def test_an_answer_that_cannot_be_computed_is_wrong_within_seconds_and_the_next_one_is_scored():
    comparer = Comparer()
    try:
        began = time.monotonic()
        assert not comparer.same("5", "9^{9^{9^9}}")
        assert time.monotonic() - began < 60
        assert comparer.same("0.5", r"\frac{1}{2}")
    finally:
        comparer.close()


def test_a_worker_that_died_is_started_again():
    comparer = Comparer()
    try:
        assert comparer.same("2", "2.0")
        worker = comparer._worker
        assert worker is not None
        worker.kill()
        worker.wait()
        assert comparer.same("2", "2.0")
    finally:
        comparer.close()


RUBBISH = [
    "{}{}{}{",
    "\\",
    "$$$",
    "\\frac{",
    "\\boxed{\\boxed{",
    "(((((",
    "\x00",
    "\ud800",
    "{" * 200,
]


@pytest.mark.parametrize("kind", RULES)
@pytest.mark.parametrize("reply", RUBBISH)
def test_rubbish_is_wrong_and_no_error(kind, reply):
    for text in (reply, f"\\boxed{{{reply}}}", f"the answer is {reply}"):
        assert not right(kind, text, "204")


@settings(max_examples=50, deadline=None)
@given(st.text(max_size=60), st.sampled_from(["integer", "number"]))
def test_no_text_breaks_the_number_rules(reply, kind):
    assert isinstance(right(kind, reply, "204"), bool)
