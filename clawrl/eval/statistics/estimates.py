"""Means with intervals that respect how the replies were drawn.

Several replies to one problem are alike, so the bootstrap draws *problems*, not replies. Before and
after are measured on the same problems: a change is drawn in pairs, both sides with the same
problems, which takes out how hard they are. Everything is seeded: the same numbers, the same
interval.

The plain percentile interval is too narrow for a few dozen problems: of pairs without a difference
it calls up to 9 in 100 different, not 5. Two corrections, made for every interval in one place:

- the percentiles are those that Student's t asks for, `tail` below;
- scores are coarse, so many draws give the very same number; percentiles are taken in the middle of
  such a step, where half of it counts as below and half as above.

`benchmarks/interval_coverage.py` shows what they do. No spread in the numbers is no spread in the
interval: where every reply scores 1, so do both ends.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

DRAWS = 4000
LEVEL = 0.95
_SEED = 20_260_310
"""Of the bootstrap alone; any fixed number does."""
_SAME = 10
"""Decimals to which two draws are one number: sums in another order differ in the last bits."""

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Estimate:
    """A statistic and its bootstrap interval."""

    value: float
    low: float
    high: float

    @property
    def excludes_zero(self) -> bool:
        """Whether 0 lies outside the interval."""
        return self.low > 0 or self.high < 0


@dataclass(frozen=True, slots=True)
class Observations:
    """One number for each reply and the problem that each belongs to.

    Runs with several seeds are pooled by joining their lists: the problems stay the clusters.
    """

    values: Sequence[float]
    clusters: Sequence[str]
    units: Sequence[int] | None = None
    """How many units each value is the sum of (tokens, say): the mean is then per unit."""

    def __post_init__(self) -> None:
        lengths = [len(self.values), len(self.clusters)]
        lengths += [len(self.units)] if self.units is not None else []
        if len(set(lengths)) != 1 or not self.values:
            raise ValueError(f"values, clusters and units must be as many, not {lengths}, or none")


def mean(observed: Observations) -> Estimate:
    """The mean over all units, with its interval over problems."""
    side = _side(observed, sorted(set(observed.clusters)))
    return _estimate(side.mean, side.drawn, side.pulls)


def paired_difference(before: Observations, after: Observations) -> Estimate:
    """Mean after minus mean before, drawn in pairs. Raises ValueError for other problems."""
    first, second = _sides(before, after)
    return _estimate(
        second.mean - first.mean, second.drawn - first.drawn, second.pulls - first.pulls
    )


def paired_p(before: Observations, after: Observations) -> float:
    """How surprising the paired difference would be if there were none: two-sided, 0 to 1.

    One minus the highest level at which the interval of `paired_difference` still leaves out 0, so
    at most 0.05 where the 95% interval does. The draws resolve no less than about 1/1000.

    Raises:
        ValueError: the two are of other problems.
    """
    first, second = _sides(before, after)
    steps, below = _steps(second.drawn - first.drawn)
    pulls = second.pulls - first.pulls
    clusters = len(pulls)
    least = 0.5 / DRAWS
    share = float(np.interp(0.0, steps, below, left=least, right=1 - least))
    share = max(least, min(share, 1 - share))
    if clusters < 2 or share >= 0.5:
        return 1.0
    reach = -NormalDist().inv_cdf(share) / math.sqrt(clusters / (clusters - 1))
    free = freedom(pulls)
    return 1 - _student_within(math.atan(reach / math.sqrt(free)), free)


def paired_ratio(before: Observations, after: Observations) -> Estimate:
    """Mean after divided by mean before, drawn in pairs. Raises ValueError for other problems.

    Where the mean before is 0 the ratio is not a number, and so are the interval's ends.
    """
    first, second = _sides(before, after)
    if first.mean == 0 or not first.drawn.all():
        return Estimate(float("nan"), float("nan"), float("nan"))
    ratio = second.mean / first.mean
    pulls = (second.pulls - ratio * first.pulls) / first.mean
    return _estimate(ratio, second.drawn / first.drawn, pulls)


@dataclass(frozen=True, slots=True)
class _Side:
    """One side's mean, the means over the draws of problems, and what each problem adds."""

    mean: float
    drawn: Floats
    """[DRAWS]"""
    pulls: Floats
    """[K], how far each problem pulls the mean, to first order; they sum to 0."""


def _sides(before: Observations, after: Observations) -> tuple[_Side, _Side]:
    """Both sides over the same draws of problems."""
    names = sorted(set(before.clusters))
    if set(names) != set(after.clusters):
        other = sorted(set(names) ^ set(after.clusters))
        raise ValueError(f"a change needs the same problems before and after; unpaired: {other}")
    return _side(before, names), _side(after, names)


def _side(observed: Observations, names: list[str]) -> _Side:
    sums, counts = _by_cluster(observed, names)
    average = float(sums.sum() / counts.sum())
    draws = _draws(len(names))
    return _Side(
        mean=average,
        drawn=(draws @ sums) / (draws @ counts),
        pulls=(sums - average * counts) / counts.sum(),
    )


def _by_cluster(observed: Observations, names: list[str]) -> tuple[Floats, Floats]:
    """The values' sum and the number of units of each cluster: [K] and [K]."""
    index = {name: number for number, name in enumerate(names)}
    where = np.array([index[name] for name in observed.clusters])
    values = np.asarray(observed.values, dtype=np.float64)
    units = np.ones_like(values) if observed.units is None else np.asarray(observed.units)
    sums = np.zeros(len(names))
    counts = np.zeros(len(names))
    np.add.at(sums, where, values)
    np.add.at(counts, where, units)
    return sums, counts


@lru_cache(maxsize=4)
def _draws(clusters: int) -> Floats:
    """How often each cluster is drawn: [DRAWS, K], each row sums to K."""
    generator = np.random.default_rng(_SEED)
    share = np.full(clusters, 1 / clusters)
    draws = generator.multinomial(clusters, share, size=DRAWS).astype(np.float64)
    draws.flags.writeable = False  # every call shares it
    return draws


def _estimate(value: float, drawn: Floats, pulls: Floats) -> Estimate:
    steps, below = _steps(drawn)
    if len(steps) == 1:
        return Estimate(_zeroed(value), _zeroed(value), _zeroed(value))
    outside = tail(len(pulls), freedom(pulls))
    low, high = np.interp([outside, 1 - outside], below, steps)
    return Estimate(_zeroed(value), _zeroed(low), _zeroed(high))


def _steps(drawn: Floats) -> tuple[Floats, Floats]:
    """The different numbers drawn, rising, and the share of draws below the middle of each."""
    steps, times = np.unique(np.round(drawn, _SAME), return_counts=True)
    return steps, (np.cumsum(times) - times / 2) / len(drawn)


def _zeroed(number: float) -> float:
    """A plain 0 for what is 0 but for rounding, so that it never counts as a difference."""
    return float(number) if abs(number) > 10**-_SAME else 0.0


def freedom(pulls: Floats) -> int:
    """Degrees of freedom of the variance that these K numbers tell of, 1 to K - 1.

        2 / ((kurtosis - 3) / K + 2 / (K - 1))

    K - 1 for bell-shaped numbers. Fewer where a few problems hold most of the spread (nearly all
    replies right, say): then the spread itself is known badly.

    Source: Satterthwaite's approximation with the variance of a sample variance.
    """
    clusters = len(pulls)
    squares = (pulls - pulls.mean()) ** 2
    variance = squares.mean()
    if clusters < 3 or variance == 0:
        return max(1, clusters - 1)
    excess = float((squares**2).mean() / variance**2) - 3
    return round(min(clusters - 1, max(1, 2 / (max(0.0, excess) / clusters + 2 / (clusters - 1)))))


@lru_cache(maxsize=4096)
def tail(clusters: int, free: int, level: float = LEVEL) -> float:
    """The share of bootstrap draws to leave out on each side for a level of confidence.

        tail = Phi(-t * sqrt(K / (K - 1))),  t the Student quantile of `free` degrees of freedom

    The root makes up for a bootstrap's variance being (K - 1) / K of the unbiased one, and t for
    the variance being estimated: the expanded percentile interval. For many clusters it comes to
    (1 - level) / 2; a single cluster says nothing of the spread, and keeps that too.

    Source: Hesterberg, What Teachers Should Know About the Bootstrap, 2015, section 3.3.
    """
    if clusters < 2:
        return (1 - level) / 2
    wider = math.sqrt(clusters / (clusters - 1))
    return NormalDist().cdf(-wider * _student_quantile(level, free))


def _student_quantile(level: float, free: int) -> float:
    """The t within which Student's distribution lies to either side of 0 with chance `level`."""
    low, high = 0.0, math.pi / 2
    for _ in range(60):
        angle = (low + high) / 2
        low, high = (angle, high) if _student_within(angle, free) < level else (low, angle)
    return math.sqrt(free) * math.tan((low + high) / 2)


def _student_within(angle: float, free: int) -> float:
    """P(|T| < sqrt(free) * tan(angle)); Abramowitz and Stegun, 26.7.3 and 26.7.4."""
    odd = free % 2
    term = math.cos(angle) if odd else 1.0
    square = math.cos(angle) ** 2
    series = term if free > 1 else 0.0
    for power in range(2 + odd, free - 1, 2):
        term *= (power - 1) / power * square
        series += term
    if odd:
        return 2 / math.pi * (angle + math.sin(angle) * series)
    return math.sin(angle) * series
