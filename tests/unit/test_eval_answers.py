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
        ("It takes 1 1/2 hours", "3/2"),
        ("It takes 1 1/2 hours.", "3/2"),
        (r"\boxed{1\frac{1}{2}}", "3/2"),
        (r"\boxed{2 \dfrac{3}{4}}", "11/4"),
        ("add 3 4/0", None),
        ("5e3", "5000"),
        ("2.5E-1 of it", "1/4"),
        (r"\boxed{5 \times 10^3}", "5000"),
        (r"\boxed{5 \cdot 10^{-2}}", "1/20"),
        ("5 \N{MULTIPLICATION SIGN} 10^3 cells", "5000"),
        ("5 x 10^3 cells", "5000"),
        ("1 000 000", "1000000"),
        ("1\N{THIN SPACE}000\N{THIN SPACE}000 people", "1000000"),
        ("12\N{NO-BREAK SPACE}500 people", "12500"),
        ("the net is $118 000.", "118000"),
        ("pack 3 100 gram bars", "100"),
        ("1e99999", "1"),
        ("9" * 2000, None),
    ],
)
def test_one_number_may_be_written_in_many_ways(reply, number):
    found = final_number(reply)
    assert found == (None if number is None else Fraction(number))


@pytest.mark.parametrize(
    "box", ["3k", "3\\pi", "\\sqrt{3}", "2^n", "k", "x = 3k", "7n", "\\frac{\\pi}{2}"]
)
def test_a_box_with_an_unknown_left_in_it_is_no_number(box):
    assert final_number(f"\\boxed{{{box}}}") is None


@pytest.mark.parametrize(
    "box", [r"x = 3", r"3 \text{ km}", "3 dollars", r"3^\circ", r"3\%", r"3\ \mathrm{m}", "3 m"]
)
def test_a_unit_in_a_box_is_no_unknown(box):
    assert final_number(f"\\boxed{{{box}}}") == 3


@pytest.mark.parametrize(
    ("reply", "number"),
    [
        ("The answer is 42. (That is, 6 \N{MULTIPLICATION SIGN} 7.)", "42"),
        ("The answer is 42 (6 times 7).", "42"),
        ("**Answer:** 42\n\nI used 3 steps.", "42"),
        ("The final answer is $42$. Check: 42 / 6 = 7.", "42"),
        ("The answer is about 42, give or take 1.", "42"),
        ("The answer is 6 * 7 = 42 apples for 3 people.", "42"),
        ("The answer is that 5 apples cost 10", "10"),
        ("The answer is 5. Wait, she gave one away. So 4.", "4"),
        ("The answer is 5. Actually, it is 4.", "4"),
        ("The answer is unknown. It may be 7.", "7"),
        ("So the result is 12 in 3 years", "12"),
    ],
)
def test_the_number_that_is_called_the_answer_goes_before_an_afterthought(reply, number):
    assert final_number(reply) == Fraction(number)


@pytest.mark.parametrize(
    ("reply", "number"),
    [
        ("Thus there are 9 + 6 = 15 liters of water out of the 24 liters.", "15"),
        ("So they spend 2.75*4=$11 in the 4 hours", "11"),
        ("4 x 400 = 1600\nHe can make 1600 sticks because 1600 > 1200", "1600"),
        ("2 + 3 = 5 so the other box is 7", "7"),
        ("2 + 3 = 5. The other box holds 7.", "7"),
        ("It is 2 + 3 = 5, which leaves 4.", "4"),
        ("8000 * 0.012 = 96\nSince 125 > 96, he makes a profit of 125", "125"),
    ],
)
def test_what_an_equations_result_is_about_is_not_the_result(reply, number):
    assert final_number(reply) == Fraction(number)


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
    assert plain / len(rows) >= 0.99
    assert not any(is_correct(row["solution"], str(int(row["answer"]) + 1)) for row in rows)
