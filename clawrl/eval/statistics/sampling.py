"""What several samples of each item say: avg@n, pass@k and majority@n.

Each is the mean over items of one number per item, with an interval that draws items: the samples
of one item are alike, so they never count as independent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from clawrl.eval.statistics.estimates import Estimate, Observations, mean

T = TypeVar("T")


def avg_at(n: int, scores_by_item: Mapping[str, Sequence[float]]) -> Estimate:
    """The mean score of the first n samples of each item, each item weighing the same.

    Args:
        n: samples for each item, at least 1.
        scores_by_item: each item's scores in the order of its samples.

    Raises:
        ValueError: there is no item, n is below 1, or an item has fewer than n samples.
    """
    firsts = _firsts(n, scores_by_item)
    return _over_items({item: sum(scores) / n for item, scores in firsts.items()})


def pass_at(k: int, correct_by_item: Mapping[str, Sequence[bool]]) -> Estimate:
    """The chance that at least one of k samples is right, without bias from all n samples drawn.

        pass@k = mean over items of 1 - C(n - c, k) / C(n, k),  c of an item's n samples right

    Items may have different n.

    Raises:
        ValueError: there is no item, k is below 1, or an item has fewer than k samples.

    Source: arXiv:2107.03374, section 2.1.
    """
    _require(k, correct_by_item)
    return _over_items(
        {
            item: _one_of(k, len(correct), sum(bool(right) for right in correct))
            for item, correct in correct_by_item.items()
        }
    )


def majority_at(
    n: int,
    answers_by_item: Mapping[str, Sequence[str | None]],
    right: Callable[[str, str], bool],
) -> Estimate:
    """The share of items whose most frequent answer, among their first n samples, is right.

    Args:
        n: samples for each item, at least 1.
        answers_by_item: each item's parsed answers in the order of its samples; None, where there
            was none to read, has no vote. An item without any answer is wrong.
        right: `right(item_id, answer)`.

    Raises:
        ValueError: there is no item, n is below 1, or an item has fewer than n samples.
    """
    firsts = _firsts(n, answers_by_item)
    votes = {item: majority(answers) for item, answers in firsts.items()}
    return _over_items(
        {item: float(answer is not None and right(item, answer)) for item, answer in votes.items()}
    )


def majority(answers: Sequence[str | None]) -> str | None:
    """The most frequent answer; of equally frequent ones the first to reach that count.

    None where there is no answer.
    """
    counts: dict[str, int] = {}
    leader: str | None = None
    for answer in answers:
        if answer is None:
            continue
        counts[answer] = counts.get(answer, 0) + 1
        if leader is None or counts[answer] > counts[leader]:
            leader = answer
    return leader


def _one_of(k: int, n: int, correct: int) -> float:
    """1 - C(n - c, k) / C(n, k), as a product: no large numbers."""
    none = 1.0
    for drawn in range(k):
        none *= max(0, n - correct - drawn) / (n - drawn)
    return 1 - none


def _firsts(n: int, by_item: Mapping[str, Sequence[T]]) -> dict[str, Sequence[T]]:
    _require(n, by_item)
    return {item: samples[:n] for item, samples in by_item.items()}


def _require(n: int, by_item: Mapping[str, Sequence[T]]) -> None:
    if n < 1:
        raise ValueError(f"needs at least 1 sample for each item, not {n}")
    if not by_item:
        raise ValueError("there is no item")
    item, samples = min(by_item.items(), key=lambda pair: len(pair[1]))
    if len(samples) < n:
        raise ValueError(f"needs {n} samples for each item; '{item}' has {len(samples)}")


def _over_items(values: Mapping[str, float]) -> Estimate:
    return mean(Observations(list(values.values()), list(values)))
