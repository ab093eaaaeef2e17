"""How often the intervals are right: simulated measurements whose truth is known.

    python benchmarks/interval_coverage.py [--pairs 2000]

Two measurements of the same problems without any difference between them: at the 95% level, 5 in
100 pairs should be called different. And one measurement alone: its interval should hold the true
mean in 95 of 100. Problems differ in how hard they are (replies to one correlate by 0.3), and the
two sides of a pair share that. A score is right or wrong, or the mean of six checks.

`plain` is the percentile interval without the corrections of `eval.statistics.estimates`. A row's
numbers have a standard error of about 0.5.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import numpy.typing as npt

from clawrl.eval.statistics.estimates import DRAWS, LEVEL, Observations, mean, paired_difference

Floats = npt.NDArray[np.float64]
ALL_REPEATS = ((2, 2), (2, 4), (4, 4))
"""Fewest and most replies to a problem."""
CLUSTERS = {30: ALL_REPEATS[1:2], 36: ALL_REPEATS, 60: ALL_REPEATS[1:2], 300: ALL_REPEATS[1:2]}
SCORES = (
    ("right/wrong", 0.05, 1),
    ("right/wrong", 0.5, 1),
    ("right/wrong", 0.95, 1),
    ("six checks", 0.4, 6),
    ("six checks", 0.9, 6),
)
"""Name, true mean, and how many checks the score is the mean of."""
CORRELATION = 0.3


def simulated(
    generator: np.random.Generator,
    clusters: int,
    repeats: tuple[int, int],
    rate: float,
    checks: int,
) -> tuple[Observations, Observations]:
    """A pair of measurements whose true means are both `rate`."""
    spread = (1 - CORRELATION) / CORRELATION
    hardness = generator.beta(rate * spread, (1 - rate) * spread, size=clusters)
    replies = generator.integers(repeats[0], repeats[1] + 1, size=clusters)
    names = [f"p{number}" for number, times in enumerate(replies) for _ in range(times)]
    chances = np.repeat(hardness, replies)
    sides = (generator.binomial(checks, chances) / checks for _ in range(2))
    first, second = (Observations(side.tolist(), names) for side in sides)
    return first, second


def plain_differs(pairs: list[tuple[Observations, Observations]], clusters: int) -> float:
    """The share of pairs that the plain percentile interval calls different."""
    gaps, replies = np.zeros((2, clusters, len(pairs)))  # [K, pairs] each
    for place, (before, after) in enumerate(pairs):
        _, where = np.unique(np.array(before.clusters), return_inverse=True)
        gaps[:, place] = np.bincount(where, np.subtract(after.values, before.values))
        replies[:, place] = np.bincount(where)
    generator = np.random.default_rng(0)
    draws = generator.multinomial(clusters, np.full(clusters, 1 / clusters), size=DRAWS)
    drawn = (draws @ gaps) / (draws @ replies)  # [DRAWS, pairs]
    low, high = np.quantile(drawn, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0)
    return float(((low > 0) | (high < 0)).mean())


def row(
    clusters: int, repeats: tuple[int, int], rate: float, checks: int, count: int
) -> tuple[float, float, float]:
    """Per cent: pairs called different, by the plain interval too; means that hold the truth."""
    generator = np.random.default_rng(clusters)
    pairs = [simulated(generator, clusters, repeats, rate, checks) for _ in range(count)]
    different = sum(paired_difference(*pair).excludes_zero for pair in pairs)
    alone = (mean(before) for before, _ in pairs)
    covered = sum(found.low <= rate <= found.high for found in alone)
    return 100 * different / count, 100 * plain_differs(pairs, clusters), 100 * covered / count


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=2000)
    pairs = parser.parse_args().pairs
    start = time.perf_counter()
    print(f"{pairs} pairs each; per cent\n")
    print("problems  replies  score        mean   called different (plain)   mean's interval holds")
    for clusters, all_repeats in CLUSTERS.items():
        for name, rate, checks in SCORES:
            for repeats in all_repeats:
                different, plain, covered = row(clusters, repeats, rate, checks, pairs)
                often = "-".join(str(times) for times in sorted(set(repeats)))
                print(
                    f"{clusters:8}  {often:>7}  {name:11}  {rate:.2f}"
                    f"   {different:16.2f} ({plain:5.2f})   {covered:21.2f}",
                    flush=True,
                )
    print(f"\n{time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
