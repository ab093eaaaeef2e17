from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawrl.eval.diversity import distinct_bigrams
from clawrl.eval.statistics import (
    DRAWS,
    Estimate,
    Observations,
    mean,
    paired_difference,
    paired_ratio,
)

PROBLEMS, REPEATS = 36, 4
NAMES = [f"p{problem}" for problem in range(PROBLEMS) for _ in range(REPEATS)]
numbers = st.lists(st.floats(0, 1), min_size=1, max_size=30)


def observed(generator, *, shift=0.0, hardness=None):
    """Replies whose problems differ in hardness."""
    if hardness is None:
        hardness = generator.normal(size=PROBLEMS)
    noise = generator.normal(size=(PROBLEMS, REPEATS))
    values = (hardness[:, None] + 0.3 * noise + shift).ravel()
    return Observations(values.tolist(), NAMES), hardness


def width(estimate: Estimate) -> float:
    return estimate.high - estimate.low


@given(numbers)
def test_the_mean_is_the_plain_mean_and_lies_within_the_values(values):
    clusters = [f"p{place % 5}" for place in range(len(values))]
    found = mean(Observations(values, clusters))
    assert found.value == pytest.approx(sum(values) / len(values), abs=1e-12)
    assert min(values) - 1e-9 <= found.low <= found.high <= max(values) + 1e-9


def test_the_same_numbers_give_the_same_interval():
    first, _ = observed(np.random.default_rng(0))
    assert mean(first) == mean(first)


def test_the_interval_agrees_with_a_plain_loop():
    values, names = [0.0, 1.0, 1.0, 4.0, 5.0], ["a", "a", "b", "c", "c"]
    groups = {"a": [0.0, 1.0], "b": [1.0], "c": [4.0, 5.0]}
    generator = np.random.default_rng(1)
    drawn = []
    for _ in range(DRAWS):
        picked = [value for name in generator.choice(list(groups), 3) for value in groups[name]]
        drawn.append(sum(picked) / len(picked))
    found = mean(Observations(values, names))
    low, high = np.quantile(drawn, [0.025, 0.975])
    assert found.value == pytest.approx(11 / 5)
    assert (found.low, found.high) == pytest.approx((low, high), abs=0.15)


def test_replies_to_one_problem_do_not_count_as_independent():
    clustered, _ = observed(np.random.default_rng(2))
    alone = Observations(clustered.values, [str(place) for place in range(len(NAMES))])
    assert width(mean(clustered)) > 1.5 * width(mean(alone))


def test_the_interval_covers_the_truth_about_as_often_as_it_says():
    generator = np.random.default_rng(3)
    covered = 0
    for _ in range(200):
        found = mean(observed(generator)[0])
        covered += found.low <= 0 <= found.high
    assert 0.88 <= covered / 200 <= 0.99


def test_pairing_takes_out_how_hard_the_problems_are():
    generator = np.random.default_rng(4)
    before, hardness = observed(generator)
    after, _ = observed(generator, hardness=hardness, shift=0.2)
    found = paired_difference(before, after)
    assert found.value == pytest.approx(0.2, abs=0.1)
    assert found.excludes_zero
    assert width(found) < 0.5 * width(mean(before))


def test_no_change_is_no_change():
    before, _ = observed(np.random.default_rng(5))
    assert paired_difference(before, before) == Estimate(0, 0, 0)
    assert not paired_difference(before, before).excludes_zero
    ratio = paired_ratio(before, before)
    assert (ratio.value, ratio.low, ratio.high) == pytest.approx((1, 1, 1))


def test_swapping_the_sides_turns_the_change_round():
    generator = np.random.default_rng(6)
    before, hardness = observed(generator)
    after, _ = observed(generator, hardness=hardness, shift=0.5)
    there, back = paired_difference(before, after), paired_difference(after, before)
    assert (there.value, there.low, there.high) == pytest.approx(
        (-back.value, -back.high, -back.low)
    )


def test_the_order_of_the_replies_does_not_matter():
    generator = np.random.default_rng(7)
    before, hardness = observed(generator)
    after, _ = observed(generator, hardness=hardness)
    turned = Observations(after.values[::-1], after.clusters[::-1])
    first, second = paired_difference(before, after), paired_difference(before, turned)
    assert (first.value, first.low) == pytest.approx((second.value, second.low))


def test_seeds_are_pooled_by_joining_their_replies():
    generator = np.random.default_rng(8)
    one, hardness = observed(generator)
    two, _ = observed(generator, hardness=hardness)
    pooled = mean(Observations([*one.values, *two.values], [*NAMES, *NAMES]))
    assert pooled.value == pytest.approx((mean(one).value + mean(two).value) / 2)
    assert width(pooled) > 0.8 * width(mean(one))  # the problems are no more than before


def test_a_mean_can_be_per_unit():
    found = mean(Observations([-10.0, -2.0], ["a", "b"], [5, 1]))
    assert found.value == pytest.approx(-2)


def test_a_change_needs_the_same_problems():
    with pytest.raises(ValueError, match=r"unpaired: \['b', 'c'\]"):
        paired_difference(Observations([1, 2], ["a", "b"]), Observations([1, 2], ["a", "c"]))


def test_a_ratio_to_nothing_is_no_number():
    found = paired_ratio(Observations([0, 0], ["a", "b"]), Observations([1, 2], ["a", "b"]))
    assert math.isnan(found.value)


@pytest.mark.parametrize("wrong", [([], [], None), ([1], ["a", "b"], None), ([1], ["a"], [1, 2])])
def test_lengths_that_disagree_are_an_error(wrong):
    with pytest.raises(ValueError, match="must be as many"):
        Observations(*wrong)


def test_distinct_bigrams_fall_when_a_reply_repeats_itself():
    assert distinct_bigrams("one two three four") == 1
    assert distinct_bigrams("ha ha ha ha ha") == 1 / 4
    assert distinct_bigrams("So it is, so it is!") == 3 / 5
    assert distinct_bigrams("18") == distinct_bigrams("") == 0
