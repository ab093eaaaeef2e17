"""Sources that differ in nothing but their seed are one group, under a name that they share."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import takewhile
from pathlib import Path

from clawrl.compare.sources import Source
from clawrl.eval.evaluation.generation import Generation
from clawrl.eval.personalization.measurement import Measurement
from clawrl.eval.statistics.estimates import Estimate, Observations, mean

_SEED = re.compile(r"[\s,_]*\bseed[=_ ]?\d+,?")


@dataclass(frozen=True)
class Group:
    """Sources that are compared as one."""

    name: str
    line: str
    """The name without the version: what a curve is called."""
    sources: tuple[Source, ...]

    @property
    def label(self) -> str:
        """The name, and how many seeds it stands for where there are several."""
        if len(self.sources) == 1:
            return self.name
        seeds = len({source.seed for source in self.sources})
        several = f"{seeds} seeds" if seeds == len(self.sources) else f"{len(self.sources)} runs"
        return f"{self.name} ({several})"

    @property
    def places(self) -> tuple[str, ...]:
        """Where its sources are kept: the same for two versions of the same runs."""
        return tuple(source.place for source in self.sources)

    @cached_property
    def scores(self) -> Observations | None:
        """The score of each reply of all sources; None where no replies are kept."""
        parts = [source.scores for source in self.sources if source.scores]
        return _joined(parts) if len(parts) == len(self.sources) else None

    @cached_property
    def score(self) -> Estimate:
        """The mean score."""
        return mean(self.scores) if self.scores else self.sources[0].score

    @cached_property
    def measurement(self) -> Measurement | None:
        """All replies of its training runs as one measurement."""
        found = [source.measurement for source in self.sources if source.measurement]
        if len(found) < len(self.sources):
            return None
        replies = [reply for one in found for reply in one.replies]
        neutral = [text for one in found for text in one.neutral or []]
        return found[0].model_copy(update={"replies": replies, "neutral": neutral or None})

    @cached_property
    def generations(self) -> list[Generation]:
        """All replies of its evaluations."""
        return [one for source in self.sources for one in source.generations]

    @cached_property
    def curve(self) -> dict[int, Estimate]:
        """The mean score at each version that all of its sources were measured at."""
        curves = [source.curve for source in self.sources]
        found: dict[int, Estimate] = {}
        for version in sorted(set(curves[0]).intersection(*curves[1:])):
            points = [curve[version] for curve in curves]
            known = [point for point in points if isinstance(point, Observations)]
            alone = points[0]
            found[version] = alone if isinstance(alone, Estimate) else mean(_joined(known))
        return found

    def values(self, key: str) -> str:
        """What its sources have for a key of the configuration, each value once."""
        return ", ".join(dict.fromkeys(source.config.get(key, "-") for source in self.sources))


def told_apart(sources: Sequence[Source]) -> list[Source]:
    """With names that no two share: with the seed, or with more of the path, where they would."""
    named = list(sources)
    for more in (_with_seed, _with_parent, _as_typed):
        names = [source.name for source in named]
        named = [
            replace(source, name=more(source)) if names.count(source.name) > 1 else source
            for source in named
        ]
    return named


def _with_seed(source: Source) -> str:
    return f"{source.name}, seed {source.seed}" if source.kind == "eval" else source.name


def _with_parent(source: Source) -> str:
    if source.kind != "run":
        return source.name
    return f"{Path(source.place).parent.name}/{source.name}"


def _as_typed(source: Source) -> str:
    return source.typed


def grouped(sources: Sequence[Source]) -> list[Group]:
    """What differs in the seed only is one group, unless that would leave nothing to compare."""
    members: dict[object, list[Source]] = {}
    for source in sources:
        setup = frozenset(item for item in source.config.items() if item[0] != "seed")
        alone = source.place if source.kind == "wandb" else ""
        members.setdefault((source.kind, source.version, alone, setup), []).append(source)
    lists = list(members.values())
    if len(lists) == 1:
        lists = [[source] for source in sources]
    stems = [_stem([source.name for source in group]) for group in lists]
    return [
        _group(stem if stems.count(stem) == 1 else group[0].name, group)
        for stem, group in zip(stems, lists, strict=True)
    ]


def _group(name: str, sources: list[Source]) -> Group:
    version = sources[0].version
    line = name.removesuffix(f"@{version}") if sources[0].kind != "eval" else name
    return Group(name, line, tuple(sources))


def _stem(names: Sequence[str]) -> str:
    """What the names share: `a` for `a-1` and `a-2`, `lr=1` for `lr=1,seed=1` and `lr=1,seed=2`."""
    if len(names) == 1:
        return names[0]
    plain = [_SEED.sub("", _version_split(name)[0]) for name in names]
    shared = _shared_start(plain)
    if any(name != shared for name in plain):
        following = [name[len(shared) : len(shared) + 1] for name in plain]
        if all(letter == "" or letter.isdecimal() for letter in following):
            shared = shared.rstrip("0123456789")
        shared = shared.rstrip(" ,._/-")
    return f"{shared}{_version_split(names[0])[1]}" if shared else names[0]


def _shared_start(names: Sequence[str]) -> str:
    letters = zip(*names, strict=False)
    return "".join(each[0] for each in takewhile(lambda each: len(set(each)) == 1, letters))


def _version_split(name: str) -> tuple[str, str]:
    plain, at, version = name.rpartition("@")
    return (plain, f"@{version}") if at and version.isdecimal() else (name, "")


def _joined(parts: Sequence[Observations]) -> Observations:
    """Replies of several runs; the problems stay the clusters."""
    return Observations(
        [value for part in parts for value in part.values],
        [cluster for part in parts for cluster in part.clusters],
    )
