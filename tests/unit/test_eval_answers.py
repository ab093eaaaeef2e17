from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawrl.eval.scoring.answers import final_number, is_correct

DATA = Path(__file__).parents[3] / "shared" / "data" / "gsm8k_test_with_solution.jsonl"


@pytest.mark.parametrize(
    ("reply", "number"),
    [
        ("She makes $18.", "18"),
        ("16 - 3 - 4 = 9, and 9 * 2 = 18 dollars", "18"),
        ("10-3", "3"),
        ("(10)-3", "3"),
        ("the change is -5", "-5"),
        ("the change is \N{MINUS SIGN}5 degrees", "-5"),
        ("he owes -$5", "-5"),
        ("he owes $-5", "-5"),
        ("- 5 apples", "5"),
        ("It is 1,234,567.", "1234567"),
        ("Take 1, 2 and then 3,45", "45"),
        ("It is 2.50 in all.", "2.5"),
        ("It is .5 of it", "1/2"),
        ("3/4 of the cake", "3/4"),
        ("nonsense: 3/0", None),
        ("It is 25% of it", "25"),
        ("x2 is a name", None),
        ("no number at all", None),
        ("", None),
    ],
)
def test_the_last_number_of_plain_text_is_the_answer(reply, number):
    assert final_number(reply) == (None if number is None else Fraction(number))


@pytest.mark.parametrize(
    ("reply", "number"),
    [
        (r"\boxed{18} dollars for 7 days", "18"),
        (r"\boxed{5}, no: \boxed{6}", "6"),
        (r"$\boxed{\$1{,}200}$", "1200"),
        (r"\boxed{1,200}", "1200"),
        (r"\boxed{\text{about } 12}", "12"),
        (r"\boxed{\frac{1}{2}}", "1/2"),
        (r"\boxed{-7}", "-7"),
        (r"#### 5 and then \boxed{6}", "6"),
        (r"\boxed{3 or 4}", None),
        (r"\boxed{}, so 9", None),
        (r"cut in the middle: \boxed{4", "4"),
    ],
)
def test_the_last_box_comes_first_and_must_hold_one_number(reply, number):
    assert final_number(reply) == (None if number is None else Fraction(number))


@pytest.mark.parametrize(
    ("reply", "number"),
    [
        ("so it is 9\n#### 18", "18"),
        ("#### $1,800\nHope this helps in 5 minutes", "1800"),
        ("#### -3 of 4", "-3"),
        ("#### 1\n#### 2\n", "2"),
        ("#### Step 1\nadd up\n#### Step 2\nit makes 30", "30"),
    ],
)
def test_the_number_after_the_mark_counts_but_a_heading_is_no_mark(reply, number):
    assert final_number(reply) == Fraction(number)


def test_numbers_are_compared_exactly():
    assert is_correct("It is 18.00", "18")
    assert is_correct("It is 1800", "1,800")
    assert not is_correct("It is 18.0000001", "18")
    assert not is_correct("It is 17.9999999999999999999", "18")
    assert not is_correct("It is 3.5", "5")


def test_where_there_is_no_number_nothing_is_right():
    assert not is_correct("I do not know", "18")
    assert not is_correct("It is 18", "unknown")
    assert not is_correct("", "")


@given(st.integers(min_value=-(10**12), max_value=10**12), st.sampled_from([",", ""]))
def test_every_integer_is_read_back_in_every_form(value, separator):
    written = f"{value:{separator}}"
    for form in (f"so {written}.", f"\\boxed{{{written}}}", f"7 \n#### {written}", f"= {written}"):
        assert is_correct(form, str(value)), form


@given(st.text())
def test_no_text_breaks_the_rule(reply):
    assert final_number(reply) is None or isinstance(final_number(reply), Fraction)


@pytest.mark.skipif(not DATA.is_file(), reason=f"the GSM8K solutions are not here: {DATA}")
def test_every_gsm8k_answer_is_found_in_its_own_solution():
    rows = [json.loads(line) for line in DATA.read_text(encoding="utf-8").splitlines()]
    assert len(rows) == 1319
    for row in rows:
        assert is_correct(f"{row['solution']}\n#### {row['answer']}", row["answer"]), row["id"]
        assert is_correct(f"{row['solution']} \\boxed{{{row['answer']}}}", row["answer"])
    plain = sum(is_correct(row["solution"], row["answer"]) for row in rows)
    assert plain / len(rows) > 0.9  # most solutions say their result last
