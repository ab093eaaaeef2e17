"""Means with intervals that respect how the replies were drawn.

Several replies to one problem are alike, so the bootstrap draws *problems*, not replies. Before and
after are measured on the same problems: a change is drawn in pairs, both sides with the same
problems, which takes out how hard they are. Everything is seeded: the same numbers, the same
interval.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

DRAWS = 4000
LEVEL = 0.95
_SEED = 20_260_310
"""Of the bootstrap alone; any fixed number does."""

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
    sums, counts = _by_cluster(observed, sorted(set(observed.clusters)))
    draws = _draws(len(sums))
    return _estimate(sums.sum() / counts.sum(), (draws @ sums) / (draws @ counts))


def paired_difference(before: Observations, after: Observations) -> Estimate:
    """Mean after minus mean before, drawn in pairs. Raises ValueError for other problems."""
    first, second, drawn_first, drawn_second = _paired_means(before, after)
    return _estimate(second - first, drawn_second - drawn_first)


def paired_ratio(before: Observations, after: Observations) -> Estimate:
    """Mean after divided by mean before, drawn in pairs. Raises ValueError for other problems.

    Where the mean before is 0 the ratio is not a number, and so are the interval's ends.
    """
    first, second, drawn_first, drawn_second = _paired_means(before, after)
    if first == 0 or not drawn_first.all():
        return Estimate(float("nan"), float("nan"), float("nan"))
    return _estimate(second / first, drawn_second / drawn_first)


def _paired_means(before: Observations, after: Observations) -> tuple[float, float, Floats, Floats]:
    """Both means, and both over the same draws of problems: two numbers, two arrays [DRAWS]."""
    names = sorted(set(before.clusters))
    if set(names) != set(after.clusters):
        other = sorted(set(names) ^ set(after.clusters))
        raise ValueError(f"a change needs the same problems before and after; unpaired: {other}")
    first_sums, first_counts = _by_cluster(before, names)
    second_sums, second_counts = _by_cluster(after, names)
    draws = _draws(len(names))
    return (
        float(first_sums.sum() / first_counts.sum()),
        float(second_sums.sum() / second_counts.sum()),
        (draws @ first_sums) / (draws @ first_counts),
        (draws @ second_sums) / (draws @ second_counts),
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


def _draws(clusters: int) -> Floats:
    """How often each cluster is drawn: [DRAWS, K], each row sums to K."""
    generator = np.random.default_rng(_SEED)
    share = np.full(clusters, 1 / clusters)
    return generator.multinomial(clusters, share, size=DRAWS).astype(np.float64)


def _estimate(value: float, drawn: Floats) -> Estimate:
    tail = (1 - LEVEL) / 2
    low, high = np.quantile(drawn, [tail, 1 - tail])
    return Estimate(float(value), float(low), float(high))
