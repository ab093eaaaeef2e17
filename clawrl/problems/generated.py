"""Homework problems without a file or a network: small ones, some of which a 135M model can do.

Five kinds take turns, so that every few problems hold each of them. The numbers are drawn by
`reasoning_gym`; sums and products come as stories too, because a reply to a story has room for the
habits that a persona may dislike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
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
_ASKED_FOR = " Give only"
"""From here on a question says how to answer, which is the persona's to say."""


@dataclass(frozen=True, slots=True)
class _Kind:
    """One family of problems: what is drawn, and how it is asked."""

    name: str
    family: str
    """The generator's name for it."""
    settings: dict[str, int]
    ask: Callable[[dict[str, Any], str], str | None]
    """The question of an item, whose words may be drawn by a key; None: it is left out."""


def _as_story(item: dict[str, Any], key: str) -> str | None:
    left, operation, right = str(item["metadata"]["expression"]).split()
    if min(int(left), int(right)) < 2:
        return None
    return story(int(left), operation, int(right), key=key)


def _as_calculation(item: dict[str, Any], key: str) -> str | None:
    left, operation, right = str(item["metadata"]["expression"]).split()
    return None if min(int(left), int(right)) < 2 else f"What is {left} {operation} {right}?"


def _as_it_is(item: dict[str, Any], key: str) -> str | None:
    return str(item["question"]).partition(_ASKED_FOR)[0].strip()


_TWO = {"min_terms": 2, "max_terms": 2}
_KINDS = (
    _Kind("sum_story", "chain_sum", {**_TWO, "min_digits": 1, "max_digits": 2}, _as_story),
    _Kind("product_story", "products", {**_TWO, "min_digits": 1, "max_digits": 1}, _as_story),
    _Kind("product", "products", {**_TWO, "min_digits": 1, "max_digits": 2}, _as_calculation),
    _Kind("small_sum_story", "chain_sum", {**_TWO, "min_digits": 1, "max_digits": 1}, _as_story),
    _Kind("gcd", "gcd", {"min_value": 2, "max_value": 40}, _as_it_is),
)


def generated_problems(seed: int) -> Iterator[Problem]:
    """Problems without end, the same for the same seed, with whole and positive answers."""
    kinds = [_of_kind(kind, seed + place * _APART) for place, kind in enumerate(_KINDS)]
    while True:
        yield from map(next, kinds)


def _of_kind(kind: _Kind, seed: int) -> Iterator[Problem]:
    import reasoning_gym

    for start in count(seed, _BLOCK):
        block: Any = reasoning_gym.create_dataset(
            kind.family, seed=start, size=_BLOCK, **kind.settings
        )
        for offset in range(_BLOCK):
            item: dict[str, Any] = block[offset]
            answer = str(item["answer"])
            problem_id = f"{kind.name}-{start + offset}"
            question = kind.ask(item, problem_id)
            if question is not None and answer.isdecimal() and 0 < int(answer) <= _LARGEST:
                yield Problem(problem_id, question, answer)
