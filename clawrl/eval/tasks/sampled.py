"""The numbers of a task that draws several replies to each item, with their intervals.

Every interval draws items, not replies (`clawrl.eval.statistics.estimates`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import get_args

from clawrl.eval.evaluation.generation import Generation, Status
from clawrl.eval.statistics.estimates import Estimate, Observations, mean
from clawrl.eval.statistics.sampling import avg_at, majority_at, pass_at

ENDS: tuple[Status, ...] = tuple(status for status in get_args(Status) if status != "ok")
"""The ways in which a reply can end badly; their shares are reported each on its own."""


def by_item(generations: Sequence[Generation]) -> dict[str, list[Generation]]:
    """Each item's generations, both in the order given."""
    found: dict[str, list[Generation]] = {}
    for generation in generations:
        found.setdefault(generation.item_id, []).append(generation)
    return found


def sampled_numbers(
    generations: Sequence[Generation],
    metric: str,
    same: Callable[[str, str], bool],
) -> dict[str, Estimate | float]:
    """avg@n, pass@k for 1 and the powers of two up to n, majority@n, and how the replies ended.

    Args:
        generations: the same number n for each item.
        metric: the score; a reply passes where it is 1.
        same: `same(right, answer)`, also used between two answers: those that are the same vote
            together.
    """
    items = by_item(generations)
    n = min(len(drawn) for drawn in items.values())
    scores = {item: [one.scores.get(metric, 0.0) for one in drawn] for item, drawn in items.items()}
    passed = {item: [score == 1 for score in drawn] for item, drawn in scores.items()}
    answers = {item: _grouped(drawn, same) for item, drawn in items.items()}
    right = {item: drawn[0].answer for item, drawn in items.items()}
    numbers: dict[str, Estimate | float] = {f"avg@{n}": avg_at(n, scores)}
    numbers |= {f"pass@{k}": pass_at(k, passed) for k in _powers_of_two(n)}
    numbers[f"majority@{n}"] = majority_at(
        n, answers, lambda item, answer: same(right[item], answer)
    )
    return numbers | ends(generations)


def ends(generations: Sequence[Generation]) -> dict[str, Estimate | float]:
    """The share of replies that ended in each bad way, and the mean length in tokens."""
    clusters = [one.item_id for one in generations]
    shares: dict[str, Estimate | float] = {
        status: mean(Observations([float(one.status == status) for one in generations], clusters))
        for status in ENDS
    }
    tokens = mean(Observations([float(one.tokens) for one in generations], clusters))
    return shares | {"tokens": tokens}


def _powers_of_two(n: int) -> list[int]:
    return [1 << power for power in range(n.bit_length()) if 1 << power <= n]


def _grouped(drawn: Sequence[Generation], same: Callable[[str, str], bool]) -> list[str | None]:
    """The parsed answers, each written as the first one that it is the same as."""
    kinds: list[str] = []
    written: list[str | None] = []
    for generation in drawn:
        answer = generation.parsed
        if answer is not None:
            kind = next((kind for kind in kinds if same(kind, answer)), None)
            if kind is None:
                kinds.append(answer)
            answer = kind or answer
        written.append(answer)
    return written
