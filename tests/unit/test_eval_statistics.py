from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawrl.eval.statistics.diversity import distinct_bigrams
from clawrl.eval.statistics.estimates import (
    DRAWS,
    Estimate,
    Observations,
    freedom,
    mean,
    paired_difference,
    paired_p,
    paired_ratio,
    tail,
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
    low, high = min(drawn), max(drawn)  # three problems: no 95% interval leaves anything out
    assert tail(3, 2) < 1e-6
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


def pairs_without_a_difference(generator, *, rate, checks, repeats, pairs=2000):
    """Two measurements of the same problems whose scores are the mean of so many checks."""
    for _ in range(pairs):
        hardness = generator.beta(rate * 7 / 3, (1 - rate) * 7 / 3, size=PROBLEMS)
        replies = generator.integers(repeats[0], repeats[1] + 1, size=PROBLEMS)
        clusters = np.repeat([f"p{problem}" for problem in range(PROBLEMS)], replies).tolist()
        chances = np.repeat(hardness, replies)
        sides = generator.binomial(checks, chances, size=(2, len(chances))) / checks
        yield tuple(Observations(side, clusters) for side in sides.tolist())


@pytest.mark.parametrize(
    ("rate", "checks", "repeats"), [(0.5, 1, (2, 2)), (0.3, 1, (4, 4)), (0.4, 6, (2, 4))]
)
def test_of_2000_pairs_without_a_difference_about_5_in_100_are_called_different(
    rate, checks, repeats
):
    pairs = pairs_without_a_difference(
        np.random.default_rng(9), rate=rate, checks=checks, repeats=repeats
    )
    different = sum(paired_difference(*pair).excludes_zero for pair in pairs)
    assert 0.04 <= different / 2000 <= 0.065


def test_p_is_at_most_a_twentieth_just_where_the_interval_leaves_out_0():
    generator = np.random.default_rng(10)
    for place, (before, after) in enumerate(
        pairs_without_a_difference(generator, rate=0.4, checks=6, repeats=(2, 4), pairs=60)
    ):
        shifted = Observations([value + place / 300 for value in after.values], after.clusters)
        p = paired_p(before, shifted)
        assert 0 <= p <= 1
        assert (p <= 0.05) == paired_difference(before, shifted).excludes_zero
        assert paired_p(shifted, before) == pytest.approx(p, abs=1e-9)


def test_identical_sides_have_p_1_and_a_shift_of_every_problem_a_tiny_one():
    before, _ = observed(np.random.default_rng(5))
    assert paired_p(before, before) == 1
    after = Observations([value + 1 for value in before.values], before.clusters)
    assert paired_p(before, after) < 0.002
    assert paired_p(Observations([0.0], ["a"]), Observations([1.0], ["a"])) == 1


def test_what_is_0_but_for_rounding_is_no_difference():
    before = Observations([0.1] * 6, ["a", "b", "c", "d", "e", "f"])
    after = Observations([0.1] * 18, ["a", "b", "c", "d", "e", "f"] * 3)
    assert paired_difference(before, after) == Estimate(0, 0, 0)
    assert paired_p(before, after) == 1


@pytest.mark.parametrize(
    ("clusters", "student"), [(2, 12.7062), (3, 4.30265), (10, 2.26216), (36, 2.03011)]
)
def test_the_tails_are_those_of_students_distribution(clusters, student):
    wider = student * math.sqrt(clusters / (clusters - 1))
    normal = 0.5 * math.erfc(wider / math.sqrt(2))
    assert tail(clusters, clusters - 1) == pytest.approx(normal, rel=1e-3, abs=1e-12)


def test_for_many_clusters_the_tails_are_the_plain_ones():
    assert tail(10_000, 9_999) == pytest.approx(0.025, abs=2e-5)
    assert tail(1, 1) == pytest.approx(0.025)


def test_few_problems_that_hold_all_the_spread_leave_few_degrees_of_freedom():
    generator = np.random.default_rng(11)
    assert freedom(generator.normal(size=2000)) > 1800
    assert freedom(np.array([1.0] + [0.0] * 35)) == 2
    assert freedom(np.array([1.0, -1.0] * 18)) == 35
    assert freedom(np.zeros(36)) == 35
    assert freedom(np.array([1.0, 2.0])) == 1


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
