"""A taste: named yes-or-no checks on a reply's text.

A persona complains about what fails; the evaluation reports the share that passes. A check never
becomes a reward: the learner only sees what the persona *said*.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from clawrl.tastes.substance import substance_problems


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that a person wants of a reply."""

    name: str
    wants: str
    """In words, for reports."""
    passes: Callable[[str], bool]


@dataclass(frozen=True, slots=True)
class Taste:
    """What one person likes; `metric` is the name of its mean in reports."""

    name: str
    metric: str
    checks: tuple[Check, ...]

    def results(self, reply: str, finish_reason: str | None) -> dict[str, bool]:
        """Each check's result. An empty or repetitive reply passes none: it gains nothing."""
        reply = reply.replace("\u2019", "'")  # one apostrophe, so that a pattern needs one
        problems = substance_problems(reply, finish_reason)
        hollow = "empty" in problems or "repetitive" in problems
        return {check.name: not hollow and check.passes(reply) for check in self.checks}

    def failed(self, reply: str, finish_reason: str | None) -> list[str]:
        """Names of the checks that fail, in the taste's order."""
        return [name for name, passed in self.results(reply, finish_reason).items() if not passed]

    def score(self, reply: str, finish_reason: str | None) -> float:
        """The share of checks passed, from 0 to 1."""
        results = self.results(reply, finish_reason)
        return sum(results.values()) / len(results)


def lacks(pattern: str) -> Callable[[str], bool]:
    """A check that the pattern is nowhere in the reply; case is ignored, `^` is a line's start."""
    compiled = re.compile(pattern, re.IGNORECASE | re.MULTILINE)
    return lambda reply: compiled.search(reply) is None


def has(pattern: str) -> Callable[[str], bool]:
    """A check that the pattern is somewhere in the reply; case is ignored."""
    compiled = re.compile(pattern, re.IGNORECASE | re.MULTILINE)
    return lambda reply: compiled.search(reply) is not None
