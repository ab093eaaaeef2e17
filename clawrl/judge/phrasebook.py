"""The cues judge's rules, read from `phrases/*.yaml` and compiled once.

A rule says what a phrase in a next state means: a complaint, a correction, thanks. The files are
data, so that a rule can be added without reading code.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, Literal

import yaml

Kind = Literal["complaint", "directive", "rejection", "approval", "moving_on", "reassurance"]
"""complaint: names a fault; directive: says what to do; rejection: a plain no; approval: thanks;
moving_on: the next thing is taken up; reassurance: approval that sounds like a complaint."""


@dataclass(frozen=True, slots=True)
class Rule:
    r"""Phrases that mean the same. `advice` is the hint, with `\1` for what the phrase captured."""

    kind: Kind
    about: str
    says: tuple[re.Pattern[str], ...]
    advice: str | None = None

    def found(self, text: str) -> re.Match[str] | None:
        """The first match of the first phrase that fits."""
        return next((match for phrase in self.says if (match := phrase.search(text))), None)

    def instruction(self, match: re.Match[str]) -> str | None:
        """The advice with the captured words in it."""
        return match.expand(self.advice) if self.advice else None


def language_rules() -> tuple[Rule, ...]:
    """What people say."""
    names = ("style", "content", "requests", "agent", "approval", "chinese")
    return tuple(rule for name in names for rule in _load(name))


def tool_rules() -> tuple[Rule, ...]:
    """What tools print when a call went wrong, the more telling rules first."""
    return _load("tools")


@cache
def _load(name: str) -> tuple[Rule, ...]:
    # Tool output is read as it is, by line; prose without regard to case.
    flags = re.MULTILINE if name == "tools" else re.IGNORECASE
    return tuple(_rules(_read(name), flags))


def _rules(rows: list[dict[str, Any]], flags: int) -> Iterator[Rule]:
    for row in rows:
        phrases = tuple(re.compile(_expanded(phrase), flags) for phrase in row["says"])
        yield Rule(row["kind"], row["about"], phrases, row.get("advice"))


def _expanded(pattern: str) -> str:
    """Put the shorthand's patterns in place of their `{names}`; `{1,3}` stays a count."""
    for name, meaning in _shorthand().items():
        pattern = pattern.replace(f"{{{name}}}", meaning)
    return pattern


@cache
def _shorthand() -> dict[str, str]:
    return _read("shorthand")


def _read(name: str) -> Any:
    file = resources.files("clawrl.judge").joinpath("phrases", f"{name}.yaml")
    return yaml.safe_load(file.read_text(encoding="utf-8"))
