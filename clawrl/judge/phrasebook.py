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

Kind = Literal[
    "complaint", "directive", "fact", "rejection", "wish", "approval", "used", "moving_on",
    "reassurance", "aside", "terse", "injection",
]  # fmt: skip
"""complaint: names a fault; directive: says what to do; fact: says what the reply did not heed;
rejection: a plain no; wish: what to do the next time; approval: thanks; used: the reply was put to
use; moving_on: the next thing is taken up; reassurance: approval that sounds like a complaint;
aside: no word about the reply; terse: a bare fragment, which corrects where nothing else is said;
injection: speaks to the judge."""


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

    def taken_from(self, text: str) -> tuple[str, bool]:
        """The text without what the phrases fit, commas in its place, and whether any did."""
        left = text
        for phrase in self.says:
            left = phrase.sub(" , ", left)
        return left, left != text

    def instruction(self, match: re.Match[str]) -> str | None:
        """The advice with the captured words in it."""
        return match.expand(self.advice) if self.advice else None


def language_rules() -> tuple[Rule, ...]:
    """What people say."""
    names = (
        "reassurance", "asides", "chinese_asides", "style", "content", "requests", "changes",
        "facts", "challenges", "agent", "outcomes", "irony", "approval", "terse",
        "languages", "chinese", "chinese_requests", "chinese_approval",
    )  # fmt: skip
    return tuple(rule for name in names for rule in _load(name))


def tool_rules(*, short: bool) -> tuple[Rule, ...]:
    """What tools print when a call went wrong, the more telling rules first.

    Args:
        short: the output is a few lines, so that all of it are the tool's own words.
    """
    return (*_load("tools_short"), *_load("tools")) if short else _load("tools")


def nothing_rules() -> tuple[Rule, ...]:
    """What tools print when there was nothing to print."""
    return _load("nothing")


def injection_rules() -> tuple[Rule, ...]:
    """What next states say to the judge."""
    return _load("injections")


@cache
def pattern(name: str, key: str) -> re.Pattern[str]:
    """One pattern of a file that holds patterns by name, read without regard to case."""
    return re.compile(_read(name)[key], re.IGNORECASE)


@cache
def _load(name: str) -> tuple[Rule, ...]:
    # Tool output is read as it is, by line; prose without regard to case.
    flags = re.MULTILINE if name.startswith("tools") else re.IGNORECASE
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


@cache
def _read(name: str) -> Any:
    file = resources.files("clawrl.judge").joinpath("phrases", f"{name}.yaml")
    return yaml.safe_load(file.read_text(encoding="utf-8"))
