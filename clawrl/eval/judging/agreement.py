"""How well a judge agrees with people, and with itself. Pure.

An abstention is a judgement of its own: never right, counted in accuracy and kappa, in no class's
precision. Intervals are bootstrap over next states (`clawrl.eval.statistics.estimates`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations

import numpy as np
import numpy.typing as npt

from clawrl.eval.statistics.estimates import DRAWS, LEVEL, Estimate, Observations, mean
from clawrl.records.nouns import Score, Vote

SCORES: tuple[Score, ...] = (-1, 0, 1)
Judgement = tuple[Score, Score | None]
"""A person's label and the judge's score; None: it abstained."""

_SEED = 20_260_311
_JUDGED: tuple[Score | None, ...] = (*SCORES, None)


def share(flags: Sequence[bool]) -> Estimate | None:
    """The share that is true, with its interval; None of nothing."""
    if not flags:
        return None
    return mean(Observations([float(flag) for flag in flags], [str(i) for i in range(len(flags))]))


def accuracy(judged: Sequence[Judgement]) -> Estimate | None:
    """The share of labels that the judge gave too."""
    return share([label == score for label, score in judged])


def recall(judged: Sequence[Judgement], of: Score) -> Estimate | None:
    """Of the states labelled `of`, the share that the judge scored so."""
    return share([score == of for label, score in judged if label == of])


def precision(judged: Sequence[Judgement], of: Score) -> Estimate | None:
    """Of the states that the judge scored `of`, the share labelled so."""
    return share([label == of for label, score in judged if score == of])


def kappa(judged: Sequence[Judgement]) -> Estimate | None:
    """Cohen's kappa: agreement beyond what both would reach by chance, over its maximum.

        kappa = (p_o - p_e) / (1 - p_e),  p_e = sum over scores of p(label) * p(judge)

    None where it is not defined: nothing was judged, or chance alone agrees always.

    Source: Cohen, A Coefficient of Agreement for Nominal Scales, 1960.
    """
    if not judged:
        return None
    table = np.zeros((len(SCORES), len(_JUDGED)))  # [labels 3, judged 4]
    for label, score in judged:
        table[SCORES.index(label), _JUDGED.index(score)] += 1
    count = len(judged)
    value = float(_kappas(table[None])[0])
    if np.isnan(value):
        return None
    generator = np.random.default_rng(_SEED)
    # States drawn with replacement fall into the table's cells as a multinomial.
    drawn = generator.multinomial(count, table.ravel() / count, size=DRAWS)
    kappas = _kappas(drawn.reshape(DRAWS, *table.shape).astype(np.float64))
    outside = (1 - LEVEL) / 2
    low, high = np.nanquantile(kappas, [outside, 1 - outside])
    return Estimate(value, float(low), float(high))


def vote_agreement(ballots: Sequence[Sequence[Vote]]) -> Estimate | None:
    """Of all pairs of parsed votes on the same state, the share that agree; None: no pairs."""
    agreeing: list[float] = []
    pairs: list[int] = []
    for votes in ballots:
        scores = [vote.score for vote in votes if vote.score is not None]
        same = [first == second for first, second in combinations(scores, 2)]
        if same:
            agreeing.append(float(sum(same)))
            pairs.append(len(same))
    if not pairs:
        return None
    return mean(Observations(agreeing, [str(i) for i in range(len(pairs))], pairs))


def by_group(
    judged: Sequence[tuple[str | None, Judgement]],
    measure: Callable[[Sequence[Judgement]], Estimate | None] = accuracy,
) -> dict[str, Estimate | None]:
    """A measure of each named group, in the names' order; what has no name is left out."""
    groups: dict[str, list[Judgement]] = {}
    for name, judgement in judged:
        if name is not None:
            groups.setdefault(name, []).append(judgement)
    return {name: measure(groups[name]) for name in sorted(groups)}


def _kappas(tables: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Cohen's kappa of each table [N, 3, 4]: [N], not-a-number where chance always agrees."""
    total = tables.sum(axis=(1, 2))
    observed = np.einsum("nii->n", tables[:, :, : len(SCORES)]) / total
    labels, judge = tables.sum(axis=2) / total[:, None], tables.sum(axis=1) / total[:, None]
    chance = (labels * judge[:, : len(SCORES)]).sum(axis=1)
    beyond = np.where(chance < 1, 1 - chance, np.nan)
    return (observed - chance) / beyond
