"""Homework problems without a file or a network: small ones, some of which a 135M model can do.

The kinds take turns, so that every few problems hold each of them. `reasoning_gym` draws the
calculations; they are told as stories, because the reply to a story has room for the habits that a
persona may dislike, and the reply to a bare sum has not.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any

from clawrl.problems.stories import story
from clawrl.protocols import Problem

_BLOCK = 64
"""Problems of each kind drawn at one time; each has a seed of its own."""
_APART = 7_919
"""Seeds between two kinds, so that they do not share their numbers."""
_LARGEST = 200
"""No answer is larger: a small model has no chance with more digits."""
_LEAST = 2
"""No number in a question is smaller: nobody is asked to put 0 apples into a box."""


@dataclass(frozen=True, slots=True)
class _Kind:
    """One kind of calculation with two numbers."""

    name: str
    family: str
    """What `reasoning_gym` calls it."""
    most_digits: int

    def calculations(self, start: int) -> list[tuple[str, str]]:
        """A block of calculations, such as `7 * 8`, and their results, from the seed `start` on."""
        import reasoning_gym

        block: Any = reasoning_gym.create_dataset(
            self.family, seed=start, size=_BLOCK,
            min_terms=2, max_terms=2, min_digits=1, max_digits=self.most_digits,
        )  # fmt: skip
        items = [block[place] for place in range(_BLOCK)]
        return [(str(item["metadata"]["expression"]), str(item["answer"])) for item in items]


_KINDS = (
    _Kind("sum", "chain_sum", most_digits=2),
    _Kind("product", "products", most_digits=1),
    _Kind("small_sum", "chain_sum", most_digits=1),
)


def generated_problems(seed: int) -> Iterator[Problem]:
    """Problems without end, the same for the same seed, with whole and positive answers."""
    kinds = [_of_kind(kind, seed + place * _APART) for place, kind in enumerate(_KINDS)]
    while True:
        yield from map(next, kinds)


def _of_kind(kind: _Kind, seed: int) -> Iterator[Problem]:
    for start in count(seed, _BLOCK):
        for offset, (calculation, answer) in enumerate(kind.calculations(start)):
            left, operation, right = calculation.split()
            small = min(int(left), int(right)) < _LEAST
            if small or not answer.isdecimal() or not 0 < int(answer) <= _LARGEST:
                continue
            problem_id = f"{kind.name}-{start + offset}"
            question = story(int(left), operation, int(right), key=problem_id)
            yield Problem(problem_id, question, answer)
