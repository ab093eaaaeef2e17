"""A pupil's worked answer to a problem: right, or with one slip, for the teacher to have graded.

The data gives a question and an answer, no working. The working is found by search: a chain of up
to three calculations with the question's numbers that ends in the answer. Where there is none, the
pupil names the numbers and the answer, as pupils do.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from clawrl.protocols import Problem

_NUMBER = re.compile(r"\d+(?:,\d{3})*(?:\.\d+)?")
_WORD = re.compile(r"[a-z]+")
_WORDS = {
    "half": 2, "twice": 2, "double": 2, "two": 2, "three": 3, "triple": 3, "four": 4, "five": 5,
    "six": 6, "seven": 7, "week": 7, "eight": 8, "nine": 9, "ten": 10, "dozen": 12, "year": 12,
    "percent": 100,
}  # fmt: skip
_MOST_NUMBERS = 6
_MOST_CHAINS = 8_000
_SLIPS = (-10, -2, -1, 1, 2, 10)


@dataclass(frozen=True, slots=True)
class Calculation:
    """`left operation right`, over whole numbers."""

    left: int
    operation: str
    right: int
    result: int

    def __str__(self) -> str:
        return f"{self.left} {self.operation} {self.right} = {self.result}"


@dataclass(frozen=True, slots=True)
class Work:
    """What a pupil handed in."""

    text: str
    correct: bool


def work_on(problem: Problem, seed: int) -> Work:
    """A pupil's work, right or with a slip in its last calculation, one as likely as the other.

    An answer that is not a whole number is given as it is.
    """
    answer = _whole(problem.answer)
    if answer is None:
        return Work(text=f"The answer is {problem.answer}.", correct=True)
    draw = random.Random(f"work {problem.problem_id} {seed}")
    correct = draw.random() < 0.5
    given = answer if correct else answer + draw.choice(_slips(answer))
    chain = find_working(problem.question, answer)
    if chain:
        last = f"{chain[-1].left} {chain[-1].operation} {chain[-1].right} = {given}"
        working = ", ".join([*map(str, chain[:-1]), last])
    else:
        working = _named(_NUMBER.findall(problem.question)[:_MOST_NUMBERS])
    return Work(text=f"{working}. The answer is {given}.", correct=correct)


def find_working(question: str, answer: int) -> list[Calculation]:
    """The shortest chain of at most three calculations from the question's numbers to the answer.

    Each calculation goes on from the result of the one before. Empty where none is found.
    """
    numbers = _numbers(question)
    for length in (1, 2, 3):
        chains = islice(_chains(numbers, length), _MOST_CHAINS)
        found = next((chain for chain in chains if chain[-1].result == answer), None)
        if found is not None:
            return found
    return []


def _chains(numbers: list[int], length: int) -> Iterator[list[Calculation]]:
    for index, start in enumerate(numbers):
        yield from _continued(start, numbers[:index] + numbers[index + 1 :], length)


def _continued(value: int, others: list[int], length: int) -> Iterator[list[Calculation]]:
    for index, other in enumerate(others):
        rest = others[:index] + others[index + 1 :]
        for step in _calculations(value, other):
            if length == 1:
                yield [step]
            else:
                for tail in _continued(step.result, rest, length - 1):
                    yield [step, *tail]


def _calculations(left: int, right: int) -> Iterator[Calculation]:
    yield Calculation(left, "x", right, left * right)
    yield Calculation(left, "+", right, left + right)
    if left > right:
        yield Calculation(left, "-", right, left - right)
    if right > 1 and left % right == 0:
        yield Calculation(left, "/", right, left // right)


def _numbers(question: str) -> list[int]:
    found = [_whole(number) for number in _NUMBER.findall(question)]
    whole = [number for number in found if number is not None and number > 0]
    words = [_WORDS[word] for word in _WORD.findall(question.lower()) if word in _WORDS]
    return [*whole, *words][:_MOST_NUMBERS]


def _named(numbers: list[str]) -> str:
    return f"I used {', '.join(numbers)}" if numbers else "I did it in my head"


def _slips(answer: int) -> list[int]:
    return [slip for slip in _SLIPS if answer + slip > 0]


def _whole(text: str) -> int | None:
    try:
        number = float(text.replace(",", ""))
    except ValueError:
        return None
    return int(number) if number.is_integer() else None
