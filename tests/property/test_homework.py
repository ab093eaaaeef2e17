import re
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from clawrl.collect.homework import find_working, work_on
from clawrl.protocols import Problem

OPERATIONS = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "x": lambda a, b: a * b,
    "/": lambda a, b: a / b,
}
small = st.integers(min_value=1, max_value=500)


@given(numbers=st.lists(small, min_size=2, max_size=5), answer=st.integers(1, 5000))
def test_a_working_is_true_goes_on_from_line_to_line_and_ends_in_the_answer(numbers, answer):
    chain = find_working(" and ".join(map(str, numbers)), answer)
    for line in chain:
        assert OPERATIONS[line.operation](line.left, line.right) == line.result
        assert line.right in numbers
    assert all(after.left == before.result for before, after in pairwise(chain))
    assert not chain or (chain[0].left in numbers and chain[-1].result == answer)


@given(a=small, b=small, c=small)
def test_a_working_of_two_calculations_is_always_found(a, b, c):
    assert 1 <= len(find_working(f"{a}, {b} and {c}", (a + b) * c)) <= 2


@given(answer=st.integers(1, 10**6), seed=st.integers(0, 10**6))
def test_work_says_a_positive_answer_that_is_right_exactly_when_it_is_marked_so(answer, seed):
    work = work_on(Problem("p", "He has 12 pens and 5 boxes.", str(answer)), seed)
    said = int(re.findall(r"\d+", work.text)[-1])
    assert said > 0
    assert work.correct == (said == answer)


def test_about_half_of_the_work_is_right():
    problem = Problem("p", "Tom has 3 apples and buys 4 more.", "7")
    assert 60 < sum(work_on(problem, seed).correct for seed in range(200)) < 140


def test_an_answer_that_is_no_whole_number_is_given_as_it_is():
    assert work_on(Problem("p", "What is 1/2 + 1/4?", "3/4"), 0).text == "The answer is 3/4."


def test_a_number_in_words_counts_and_so_does_one_with_a_comma():
    assert str(find_working("He sold 1,200 pens and half of that.", 600)[0]) == "1200 / 2 = 600"
