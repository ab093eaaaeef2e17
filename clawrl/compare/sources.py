"""What `clawrl compare` compares, read from where it is kept.

A source is one model as it was measured once: a training run at a version, an evaluation, or a run
that W&B keeps. W&B keeps numbers and no replies, so such a source has a score and a curve but
nothing that could be drawn in pairs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import yaml

from clawrl.compare.wandb_runs import PREFIX, fetch
from clawrl.errors import UserError, nearest
from clawrl.eval.evaluation.folder import EvalFolder
from clawrl.eval.evaluation.generation import Generation
from clawrl.eval.personalization.measurement import Measurement, measurements
from clawrl.eval.statistics.estimates import Estimate, Observations, mean
from clawrl.records.folder import RunFolder

Kind = Literal["run", "eval", "wandb"]
NOT_KEPT = "not tested: W&B keeps no replies"

_NAMES_ONLY = frozenset({"run", "runs_dir", "tracking", "labels"})
"""Keys that name a run and say where it is kept and shown, but not what it does."""
_SECRET = re.compile(r"(^|[._-])(api[_-]?key|token|secret|password|passwd)$", re.IGNORECASE)
_SECRET_WITHIN = re.compile(
    r"""(?<=://)[^/@\s]+(?=@)|(?<=api-key=)[^\s'",]+|(?<=api-key['"], ['"])[^'"]+"""
)
HIDDEN = "(hidden)"


@dataclass(frozen=True, slots=True)
class Reply:
    """One reply as it is shown."""

    item_id: str
    sample: int
    """Which of the item's replies, from 0; the same number was drawn with the same seed."""
    question: str
    answer: str
    text: str
    note: str
    """What was found in it, in a few words."""


@dataclass(frozen=True, slots=True)
class Source:
    """One thing to compare."""

    typed: str
    """As the user named it, without the version."""
    name: str
    place: str
    """Where it is kept: the same for two versions of one run."""
    kind: Kind
    metric: str
    version: int | None
    config: dict[str, str]
    """By dotted key, values as text; secrets hidden."""
    seed: str
    score: Estimate
    """NaN as its ends where W&B kept no interval."""
    scores: Observations | None
    """The score of each reply; None: there are no replies."""
    measurement: Measurement | None = None
    generations: list[Generation] = field(default_factory=list)
    curve: dict[int, Observations | Estimate] = field(default_factory=dict)
    """The score at each version that was measured."""
    replies: list[Reply] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    """What a reader must know about it."""

    @property
    def items(self) -> set[str]:
        """The problems that it was measured on."""
        return set(self.scores.clusters) if self.scores else set()


def read_source(given: str) -> Source:
    """Read `RUN`, `RUN@VERSION`, an evaluation's folder, or `wandb:ENTITY/PROJECT/RUN_ID`.

    Raises:
        UserError: there is no such thing, it was not measured, or not at that version.
        RecordError: a line of it is no record.
        ClawRLError: W&B cannot be reached.
    """
    typed, version = _split(given)
    if typed.startswith(PREFIX):
        return _from_wandb(typed, version)
    path = Path(typed)
    if (path / "config.yaml").is_file():
        return _from_run(typed, RunFolder.open(path), version)
    if (path / "eval.json").is_file():
        if version is not None:
            raise UserError(f"{given}: an evaluation has one version; leave @{version} out")
        return _from_eval(typed, EvalFolder.open(path))
    raise UserError(_not_there(path))


def _split(given: str) -> tuple[str, int | None]:
    typed, at, version = given.rpartition("@")
    if not at or Path(given).exists():
        return given, None
    if not version.isdecimal():
        raise UserError(f"{given}: a version is a number, such as {typed}@8")
    return typed, int(version)


def _not_there(path: Path) -> str:
    why = "neither a run (config.yaml) nor an evaluation (eval.json)"
    if not path.exists():
        why = "there is no such run or evaluation"
    parent = path.absolute().parent
    if not parent.is_dir():
        return f"{path}: {why}"
    siblings = {
        folder.name
        for folder in parent.iterdir()
        if (folder / "config.yaml").is_file() or (folder / "eval.json").is_file()
    }
    return f"{path}: {why}{nearest(path.name, siblings - {path.name})}"


def _from_run(typed: str, folder: RunFolder, version: int | None) -> Source:
    measured = {found.version: found for found in measurements(folder)}
    if not measured:
        raise UserError(
            f"{typed}: nothing was measured yet; run `clawrl eval --model {typed}` first"
        )
    chosen = max(measured) if version is None else version
    if chosen not in measured:
        known = ", ".join(str(number) for number in measured)
        raise UserError(f"{typed}@{chosen}: version {chosen} was not measured; measured: {known}")
    found = measured[chosen]
    config = _yaml(folder.config)
    return Source(
        typed=typed,
        name=f"{folder.root.name}@{chosen}",
        place=str(folder.root),
        kind="run",
        metric=found.metric,
        version=chosen,
        config=flat(config),
        seed=str(config.get("seed", 0)),
        score=found.mean_of(lambda reply: reply.score),
        scores=_scores(found),
        measurement=found,
        curve={number: _scores(one) for number, one in measured.items()},
        replies=_run_replies(found),
    )


def _scores(found: Measurement) -> Observations:
    return found.observations(lambda reply: reply.score)


def _run_replies(found: Measurement) -> list[Reply]:
    replies: list[Reply] = []
    for one in found.replies:
        failed = [name for name, passed in one.checks.items() if not passed]
        right = "right" if one.correct else "wrong" if one.final_number else "no final number"
        fails = f"fails {', '.join(failed)}" if failed else "all checks passed"
        note = f"score {one.score:.2f}: {fails}; {one.tokens} tokens; {right}"
        replies.append(Reply(one.problem_id, one.repeat, one.question, one.answer, one.text, note))
    return replies


def _from_eval(typed: str, folder: EvalFolder) -> Source:
    info, generations = folder.info, folder.generations()
    if not generations:
        raise UserError(f"{typed}: no reply was drawn yet; run the same `clawrl eval` again")
    scores = Observations(
        [one.scores.get(info.metric, 0.0) for one in generations],
        [one.item_id for one in generations],
    )
    there = len(set(scores.clusters))
    model = info.model if "://" in info.model else Path(info.model).name
    remarks = (
        [f"{typed} is not finished: {there} of {info.items} items."] if there < info.items else []
    )
    config = info.model_dump(mode="json", exclude={"created", "items"})
    return Source(
        typed=typed,
        name=f"{model} on {info.task}",
        place=str(folder.root.resolve()),
        kind="eval",
        metric=info.metric,
        version=info.version,
        config=flat(config),
        seed=str(info.seed),
        score=mean(scores),
        scores=scores,
        generations=generations,
        replies=_eval_replies(generations, info.metric),
        remarks=remarks,
    )


def _eval_replies(generations: Sequence[Generation], metric: str) -> list[Reply]:
    replies: list[Reply] = []
    for one in generations:
        read = "" if one.parsed is None else f", read as {one.parsed}"
        ended = "" if one.status == "ok" else f", {one.status}"
        note = f"{metric} {one.scores.get(metric, 0.0):.2f}{read}; {one.tokens} tokens{ended}"
        replies.append(Reply(one.item_id, one.sample, one.question, one.answer, one.text, note))
    return replies


def _from_wandb(typed: str, version: int | None) -> Source:
    run = fetch(typed)
    metric, curve = wandb_curve(run.history)
    if not curve:
        raise UserError(f"{typed}: W&B holds no measured score (eval/NAME with its interval)")
    chosen = max(curve) if version is None else version
    if chosen not in curve:
        known = ", ".join(str(number) for number in curve)
        raise UserError(f"{typed}@{chosen}: version {chosen} was not measured; measured: {known}")
    return Source(
        typed=typed,
        name=f"{run.name}@{chosen}",
        place=typed,
        kind="wandb",
        metric=metric,
        version=chosen,
        config=flat(run.config),
        seed=str(run.config.get("seed", 0)),
        score=curve[chosen],
        scores=None,
        curve=dict(curve),
    )


def wandb_curve(history: Sequence[Mapping[str, float]]) -> tuple[str, dict[int, Estimate]]:
    """The measured score's name and its estimate at each version: `eval/NAME` with `_low`, `_high`.

    An empty curve where there is none.
    """
    for row in history:
        for key in row:
            metric = key.removeprefix("eval/").removesuffix("_low")
            ends = (f"eval/{metric}", f"eval/{metric}_low", f"eval/{metric}_high")
            if key == ends[1] and all(end in row for end in ends):
                curve = {
                    int(one["version"]): Estimate(*(one[end] for end in ends))
                    for one in history
                    if "version" in one and all(end in one for end in ends)
                }
                return metric, curve
    return "", {}


def _yaml(path: Path) -> dict[str, Any]:
    try:
        loaded = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError) as error:
        raise UserError(f"{path}: cannot be read: {str(error).splitlines()[0]}") from None
    return loaded if isinstance(loaded, dict) else {}


def flat(config: Mapping[str, Any]) -> dict[str, str]:
    """A configuration by dotted key, values as text, without what only names the run.

    Secrets are hidden. `data.seed` is left out where it is the run's own seed.
    """
    found: dict[str, str] = {}

    def walk(path: tuple[str, ...], value: Any) -> None:
        if isinstance(value, dict) and value:
            fields: dict[Any, Any] = value
            for name, inner in fields.items():
                walk((*path, str(name)), inner)
            return
        key = ".".join(path)
        text = "none" if value is None else str(value)
        hide = bool(_SECRET.search(key)) and value is not None
        found[key] = HIDDEN if hide else _SECRET_WITHIN.sub(HIDDEN, text)

    walk((), {key: value for key, value in config.items() if key not in _NAMES_ONLY})
    if "seed" in found and found.get("data.seed") == found["seed"]:
        del found["data.seed"]
    return found
