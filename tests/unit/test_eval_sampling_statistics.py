from __future__ import annotations

import itertools
import math
import random

import numpy as np
import pytest

from clawrl.eval.statistics.estimates import Observations, freedom, paired_p, tail
from clawrl.eval.statistics.sampling import avg_at, majority, majority_at, pass_at

SCORES = {"a": [1.0, 0.0, 1.0], "b": [0.0, 0.0, 1.0], "c": [1.0, 1.0, 1.0]}
NAMES = ["a", "b", "c", "d"]


def by_enumeration(correct: list[bool], k: int) -> float:
    """The share of all subsets of k samples that hold a right one."""
    subsets = list(itertools.combinations(correct, k))
    return sum(any(subset) for subset in subsets) / len(subsets)


def test_avg_at_n_is_the_mean_of_the_first_n_samples_of_each_item():
    assert avg_at(1, SCORES).value == pytest.approx(2 / 3)
    assert avg_at(2, SCORES).value == pytest.approx((0.5 + 0 + 1) / 3)
    assert avg_at(3, SCORES).value == pytest.approx((2 / 3 + 1 / 3 + 1) / 3)


@pytest.mark.parametrize("seed", range(5))
def test_pass_at_k_agrees_with_enumerating_every_subset(seed):
    generator = random.Random(seed)
    for k in range(1, 6):
        correct = {
            f"i{item}": [generator.random() < 0.4 for _ in range(generator.randint(k, 8))]
            for item in range(4)
        }
        expected = [by_enumeration(samples, k) for samples in correct.values()]
        assert pass_at(k, correct).value == pytest.approx(sum(expected) / 4, abs=1e-12)


def test_pass_at_1_is_the_mean_and_pass_at_n_whether_any_is_right():
    correct = {name: [score == 1 for score in scores] for name, scores in SCORES.items()}
    assert pass_at(1, correct).value == pytest.approx(avg_at(3, SCORES).value)
    assert pass_at(3, correct).value == 1
    assert pass_at(2, {"a": [False, False], "b": [True, False]}).value == pytest.approx(0.5)


def test_many_samples_make_no_large_numbers():
    assert pass_at(100, {"a": [True] + [False] * 9999}).value == pytest.approx(0.01)


@pytest.mark.parametrize("values", [[-1.0, 0.0, 2.0], [-1.0, 0.0, 1.0, 3.0]])
def test_few_items_agree_with_enumerating_every_resample(values):
    """p says how often a resample of items lies below 0: counted here over all of them."""
    items = len(values)
    means = [sum(drawn) / items for drawn in itertools.product(values, repeat=items)]
    below = sum((drawn < 0) + (drawn == 0) / 2 for drawn in means) / len(means)
    zero = Observations([0.0] * items, NAMES[:items])
    found = Observations(values, NAMES[:items])
    free = freedom(np.array(values) - np.mean(values))
    assert tail(items, free, 1 - paired_p(zero, found)) == pytest.approx(below, abs=0.015)


def test_the_interval_agrees_with_enumerating_every_resample():
    items = 8
    values = np.array([0.0, 0.0, 0.25, 0.25, 0.5, 0.75, 1.0, 1.0])
    chances: dict[float, float] = {}
    for drawn in itertools.combinations_with_replacement(range(items), items):
        ways = math.factorial(items) / math.prod(math.factorial(drawn.count(i)) for i in set(drawn))
        average = float(values[list(drawn)].mean())
        chances[average] = chances.get(average, 0) + ways / items**items
    steps = np.array(sorted(chances))
    weights = np.array([chances[step] for step in steps])
    assert weights.sum() == pytest.approx(1)
    middle = np.cumsum(weights) - weights / 2
    outside = tail(items, freedom(values - values.mean()))
    low, high = np.interp([outside, 1 - outside], middle, steps)
    found = avg_at(4, {f"i{n}": [value] * 4 for n, value in enumerate(values)})
    assert found.value == pytest.approx(weights @ steps, abs=1e-12)
    assert (found.low, found.high) == pytest.approx((low, high), abs=0.02)


def test_the_majority_is_right_where_its_answer_is():
    answers = {
        "a": ["4", "5", "4", None],
        "b": [None, None, None, "7"],
        "c": ["1", "2", "2", "1"],
        "d": [None, None, None, None],
    }
    truth = {"a": "4", "b": "7", "c": "1", "d": "0"}
    found = majority_at(4, answers, lambda item, answer: truth[item] == answer)
    assert found.value == pytest.approx(0.5)  # c: "2" reached two first; d: nothing to vote for
    assert majority_at(1, answers, lambda item, answer: truth[item] == answer).value == 0.5


def test_a_tie_goes_to_the_first_to_reach_the_count():
    assert majority(["1", "2", "2", "1"]) == "2"
    assert majority(["1", "2"]) == "1"
    assert majority([None, "3", None]) == "3"
    assert majority([]) is None


def test_the_answer_that_is_asked_about_comes_with_its_item():
    asked = []
    majority_at(1, {"a": ["1"], "b": [None]}, lambda *pair: asked.append(pair) or True)
    assert asked == [("a", "1")]


def test_samples_of_one_item_do_not_count_as_independent():
    few = avg_at(2, {f"i{n}": [n % 2] * 2 for n in range(30)})
    many = avg_at(20, {f"i{n}": [n % 2] * 20 for n in range(30)})
    assert (few.low, few.high) == (many.low, many.high)


@pytest.mark.parametrize(
    ("measure", "message"),
    [
        (lambda: avg_at(0, SCORES), "at least 1 sample"),
        (lambda: pass_at(1, {}), "there is no item"),
        (lambda: pass_at(4, {"a": [True] * 4, "b": [True] * 3}), "needs 4 samples.*'b' has 3"),
        (lambda: majority_at(2, {"a": ["1"]}, lambda *_: True), "needs 2 samples.*'a' has 1"),
    ],
)
def test_too_few_samples_are_an_error(measure, message):
    with pytest.raises(ValueError, match=message):
        measure()
