"""The personalization table of arXiv:2603.10165, made of runs: rows of updates, columns of signals.

A cell pools the runs that differ in nothing but their seed: their replies are joined, and the
bootstrap draws problems, so its interval holds what the problems add and not what the training runs
add; the mean of each seed is kept beside it for that. Runs of other models or tastes are tables of
their own. What was not run stays empty.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

from clawrl.config import compose as composing
from clawrl.config.difference import NO_EFFECT, differences
from clawrl.config.schema import Config, Objective
from clawrl.errors import UserError
from clawrl.eval.evaluation.model_scores import digests, model_scores
from clawrl.eval.personalization.measurement import MeasuredReply, Measurement, measurements
from clawrl.eval.statistics.estimates import Estimate, Observations, mean
from clawrl.records.folder import RunFolder

Kind = Literal["binary", "opd", "combined"]

KINDS: tuple[Kind, ...] = ("binary", "opd", "combined")
UPDATES = (0, 8, 16)
"""The rows; 0 is the base model."""
SOURCE = "arXiv:2603.10165"
PUBLISHED_MODEL = "Qwen3-4B"
PUBLISHED: Mapping[str, Mapping[tuple[Kind, int], float]] = {
    "student": {
        **{(kind, 0): 0.17 for kind in KINDS},
        ("binary", 8): 0.25, ("opd", 8): 0.25, ("combined", 8): 0.76,
        ("binary", 16): 0.23, ("opd", 16): 0.72, ("combined", 16): 0.81,
    },
}  # fmt: skip
"""By taste: the mean score of the first reply over 36 GSM8K problems."""
_IN_WORDS = {
    "teacher": f"Published for the teacher ({PUBLISHED_MODEL}, {SOURCE}): 0.22 before, 0.90 after "
    "24 gradings; not by signal.",
}
RULE = "reference rule"
BY_MODEL = "scored by the persona's model"
EVALS = "evals"
"""Beside the runs: where evaluations are kept."""

_WEIGHTS = frozenset({"objective.w_binary", "objective.w_opd"})
_MAY_DIFFER = NO_EFFECT | {
    "recipe", "seed", "data.seed", "engine", "resources", "gateway", "weights", "eval.every",
    "eval.concurrent", "loop.updates", "loop.judge_calls", "learner.max_restarts",
    "learner.micro_batch_tokens", "learner.logit_chunk_tokens", "learner.checkpoint_every",
    "learner.gradient_checkpointing",
}  # fmt: skip
"""Seeds, names, how often it is measured, and what a machine needs."""


@dataclass(frozen=True)
class Cell:
    """Some runs after so many updates."""

    measures: dict[str, Estimate]
    """By name: the taste's score, the reference rule, and the persona's model where it scored."""
    by_seed: dict[int, float]
    """The taste's score of each seed alone."""


@dataclass(frozen=True)
class PaperTable:
    """The runs of one model and taste."""

    taste: str
    model: str
    metric: str
    """What the taste's score is called, such as `naturalness`."""
    cells: dict[tuple[Kind, int], Cell]
    """Those that were run."""
    notes: list[str]
    """What a reader must know, one sentence or two each."""

    @property
    def measures(self) -> list[str]:
        """What the cells hold, the score first."""
        held = {name for cell in self.cells.values() for name in cell.measures}
        return [name for name in (self.metric, RULE, BY_MODEL) if name in held]

    @property
    def published(self) -> Mapping[tuple[Kind, int], float]:
        """The paper's numbers for this taste, where it has such a table."""
        return PUBLISHED.get(self.taste, {})


@dataclass(frozen=True)
class _Run:
    folder: RunFolder
    config: Config
    measured: dict[int, Measurement]
    """By version, those of the table's rows."""
    digests: dict[int, str]
    """Of the weights, by version."""

    @property
    def kind(self) -> Kind:
        return self.config.objective.kind


def paper_tables(folders: Sequence[RunFolder]) -> list[PaperTable]:
    """One table for each taste and model among the runs, in their order.

    Raises:
        UserError: nothing was measured; or two runs of one cell share a seed, or differ in more
            than their seed; or runs were measured on other problems.
        ConfigError: a run's configuration cannot be read.
        RecordError: a measurement cannot be read.
    """
    groups: dict[tuple[str, str], list[_Run]] = {}
    for root in dict.fromkeys(folder.root.resolve() for folder in folders):
        run = _read(RunFolder(root))
        groups.setdefault((run.config.taste, run.config.model.name), []).append(run)
    return [_table(taste, model, runs) for (taste, model), runs in groups.items()]


def _read(folder: RunFolder) -> _Run:
    measured = {found.version: found for found in measurements(folder) if found.version in UPDATES}
    return _Run(folder, composing.load(folder.config), measured, digests(folder))


def _table(taste: str, model: str, runs: list[_Run]) -> PaperTable:
    found = [measurement for run in runs for measurement in run.measured.values()]
    if not found:
        names = ", ".join(run.folder.root.name for run in runs)
        raise UserError(f"{names}: not measured at {_either(UPDATES)} updates; set eval.every=8")
    _require_same_problems(runs)
    scored = _model_scores(taste, runs)
    cells: dict[tuple[Kind, int], Cell] = {}
    for kind in KINDS:
        of_kind = [run for run in runs if run.kind == kind]
        _require_poolable(of_kind)
        for updates in UPDATES:
            there = [run for run in of_kind if updates in run.measured]
            if there:
                cells[kind, updates] = _cell(there, updates, scored)
    notes = _notes(taste, model, runs, found[0], bool(scored))
    return PaperTable(taste, model, found[0].metric, cells, notes)


def _model_scores(taste: str, runs: Sequence[_Run]) -> dict[str, Observations]:
    evals = dict.fromkeys(Path(run.config.runs_dir).absolute() / EVALS for run in runs)
    wanted = {run.digests[version] for run in runs for version in UPDATES if version in run.digests}
    return model_scores(evals, taste, wanted)


def _cell(runs: Sequence[_Run], updates: int, scored: Mapping[str, Observations]) -> Cell:
    by_seed = {run.config.seed: run.measured[updates] for run in runs}
    pooled = list(by_seed.values())

    def of_replies(value: Callable[[MeasuredReply], float]) -> Estimate:
        return mean(_joined([found.observations(value) for found in pooled]))

    measures = {
        pooled[0].metric: of_replies(lambda reply: reply.score),
        RULE: of_replies(lambda reply: reply.reference_rule),
    }
    weights = [run.digests.get(updates, "") for run in runs]
    if all(digest in scored for digest in weights):
        measures[BY_MODEL] = mean(_joined([scored[digest] for digest in weights]))
    return Cell(measures, {seed: by_seed[seed].score for seed in sorted(by_seed)})


def _joined(parts: Sequence[Observations]) -> Observations:
    """Replies of several runs; the problems stay the clusters."""
    return Observations(
        [number for part in parts for number in part.values],
        [problem for part in parts for problem in part.clusters],
    )


def _require_poolable(runs: Sequence[_Run]) -> None:
    """Runs of one column differ in their seed and in nothing that matters."""
    for first, second in pairwise(runs):
        found = differences(first.config, second.config, leave_out=_MAY_DIFFER)
        if found:
            key, (one, other) = next(iter(found.items()))
            raise UserError(
                f"{_names(first, second)} differ in {key} ({one} and {other}): a cell of the table "
                "pools seeds alone, so leave one of them out"
            )
    seen: dict[int, _Run] = {}
    for run in runs:
        if run.config.seed in seen:
            raise UserError(
                f"{_names(seen[run.config.seed], run)} are both seed {run.config.seed} of "
                f"objective={run.kind}: leave one of them out"
            )
        seen[run.config.seed] = run


def _require_same_problems(runs: Sequence[_Run]) -> None:
    first: tuple[_Run, Any] | None = None
    for run in runs:
        for found in run.measured.values():
            if first is None:
                first = run, _measured_on(found)
            elif _measured_on(found) != first[1]:
                raise UserError(
                    f"{_names(first[0], run)}: measured on other problems, with other checks or "
                    "with other sampling, so they cannot stand in one table"
                )


def _measured_on(found: Measurement) -> Any:
    problems = {reply.problem_id for reply in found.replies}
    return found.taste, sorted(found.wants), problems, found.temperature, found.max_tokens


def _names(first: _Run, second: _Run) -> str:
    return f"{first.folder.root.name} and {second.folder.root.name}"


def _either(numbers: Sequence[int]) -> str:
    return f"{', '.join(str(number) for number in numbers[:-1])} or {numbers[-1]}"


def _notes(
    taste: str, model: str, runs: Sequence[_Run], sample: Measurement, by_model: bool
) -> list[str]:
    problems = len({reply.problem_id for reply in sample.replies})
    notes = [
        f"{sample.metric}: the mean share of the taste's checks that a first reply passes, over "
        f"{problems} problems; {RULE}: the share of replies that pass it. In brackets: 95% "
        "bootstrap interval over problems, the replies of all seeds pooled; it does not hold what "
        "differs between training runs.",
    ]
    if by_model:
        notes.append(
            f"{BY_MODEL}: the mean score, 0 to 1, of evaluations (clawrl eval) of these weights; a "
            "cell needs one for each of its seeds."
        )
    if PUBLISHED.get(taste):
        notes.append(
            f"* Published: {PUBLISHED_MODEL}, {SOURCE}; the mean score, 0 to 1, that the persona's "
            "own model gave to first replies on 36 GSM8K problems."
        )
    notes += [_IN_WORDS[taste]] if taste in _IN_WORDS else []
    if (taste in PUBLISHED or taste in _IN_WORDS) and PUBLISHED_MODEL.lower() not in model.lower():
        notes.append(
            f"{model} is not {PUBLISHED_MODEL}: its figures are not comparable in level with the "
            "published ones, only in what rises and in which order."
        )
    notes += _unlike_the_paper(runs) + _unlike(runs)
    unmeasured = [run.folder.root.name for run in runs if not run.measured]
    if unmeasured:
        notes.append(f"Not measured at {_either(UPDATES)} updates: {', '.join(unmeasured)}.")
    return notes


def _unlike_the_paper(runs: Sequence[_Run]) -> list[str]:
    """How the objective departs from the paper's, which is the schema's default."""
    paper = Objective().model_dump()
    found = {
        f"{name}={value}": None
        for run in runs
        for name, value in run.config.objective.model_dump().items()
        if value != paper[name] and (run.kind == "combined" or not name.startswith("w_"))
    }
    return [f"Not as in the paper: objective.{', objective.'.join(found)}."] if found else []


def _unlike(runs: Sequence[_Run]) -> list[str]:
    """What columns differ in besides the signals that they learn from."""
    found: dict[str, None] = {}
    for first, second in pairwise(runs):
        found |= dict.fromkeys(
            differences(first.config, second.config, leave_out=_MAY_DIFFER | _WEIGHTS)
        )
    return [f"The columns also differ in: {', '.join(found)}."] if found else []
