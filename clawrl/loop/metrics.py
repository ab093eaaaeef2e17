"""Numbers of a run: one line of JSON per event in `metrics.jsonl`, and the same to W&B.

In W&B the numbers are drawn over the policy version, in sections by their first word (`eval/`,
`train/`, `loop/`, `weights/`, and `summary/` for one bar per run). The runs of a sweep are one
group, and what tells them apart is in their names, their tags and their `labels`, so that a report
can group by `labels.objective` and average over seeds.
"""

from __future__ import annotations

import json
import logging
import os
import secrets
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

from clawrl.compare.wandb_runs import LABELS, VERSION, has_key
from clawrl.config.schema import Config
from clawrl.errors import ClawRLError
from clawrl.eval.personalization.change import control_rows, first_and_last, score_row
from clawrl.eval.personalization.measurement import measurements
from clawrl.records.folder import RunFolder

log = logging.getLogger(__name__)

Values = dict[str, float]
Job = Literal["train", "eval"]

_LONGEST_TAG, _LONGEST_NAME = 64, 128
"""W&B refuses longer ones."""
_ID_FILE = "wandb_id"
_SECTIONS = ("eval", "train", "loop", "weights")
_KEPT = {"eval": "last,max", "train": "last,mean"}
"""What of a number stands in W&B's table of runs besides its last value: the best, the mean."""


class MetricsLog:
    """Appends to `metrics.jsonl`; W&B gets a copy. W&B's troubles never end a run."""

    def __init__(self, path: Path, config: Config, run_name: str, job: Job = "train") -> None:
        """Open the file and, where `tracking` says so, W&B.

        Args:
            path: `metrics.jsonl` in the run's folder.
            config: of the run.
            run_name: what W&B shows; the run folder's name.
            job: W&B's job type.
        """
        path.parent.mkdir(parents=True, exist_ok=True)
        self._folder = RunFolder(path.parent)
        self._file = path.open("a", encoding="utf-8")
        self._wandb = _start_wandb(config, run_name, path.parent, job)
        self._defined: set[str] = set()

    def log(self, step: int, values: Values) -> None:
        """Record values of policy version `step`."""
        line = {"time": time.time(), "step": step, **values}
        self._file.write(json.dumps(line) + "\n")
        self._file.flush()
        if self._wandb is not None:
            self._guarded(self._send, self._wandb, step, values)

    def table(self, name: str, step: int, columns: list[str], rows: list[list[Any]]) -> None:
        """Send a table of replies to W&B."""
        if self._wandb is None:
            return
        import wandb

        data: list[Any] = rows
        table = wandb.Table(columns=[*columns], data=data)
        self._guarded(self._wandb.log, {VERSION: step, name: table})

    def _send(self, run: Any, step: int, values: Values) -> None:
        for name in values.keys() - self._defined:
            kept = _KEPT.get(name.partition("/")[0])
            if kept is not None:  # by name, for under `eval/*` a table's own summary would be lost
                run.define_metric(name, step_metric=VERSION, summary=kept)
        self._defined |= values.keys()
        run.log({VERSION: step, **values})

    def _guarded(self, send: Callable[..., object], *values: object, **named: object) -> None:
        try:
            send(*values, **named)
        except Exception as error:  # noqa: BLE001 - tracking must not end a training run
            log.warning("wandb failed, going on without it: %s", error)
            self._wandb = None

    def close(self) -> None:
        """Send the run's summary, finish W&B's upload and close the file."""
        if self._wandb is not None:
            overview = run_summary(self._folder)
            if overview:
                self._guarded(self._wandb.log, overview)
        if self._wandb is not None:
            self._guarded(self._wandb.finish)
        self._file.close()

    def __enter__(self) -> MetricsLog:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def run_summary(folder: RunFolder) -> Values:
    """A run in a few numbers: the score before, after and their difference, and the controls.

    Empty where nothing was measured, or where the measurements cannot be compared.
    """
    try:
        before, after = first_and_last(measurements(folder))
    except ClawRLError as error:
        log.debug("no summary: %s", error)
        return {}
    score = score_row(before, after)
    values = {"summary/before": score.before.value}
    if after is None or score.after is None or score.change is None:
        return values
    controls = [row.holds for row in control_rows(before, after) if row.holds is not None]
    return values | {
        "summary/after": score.after.value,
        "summary/difference": score.change.value,
        "summary/difference_low": score.change.low,
        "summary/difference_high": score.change.high,
        "summary/controls_hold": float(all(controls)),
        "summary/controls_broken": float(controls.count(False)),
        "summary/updates": float(after.version - before.version),
    }


WandbMode = Literal["online", "offline", "disabled"]


def wandb_mode(setting: str) -> WandbMode:
    """`auto` is online where a key is configured, else offline: it never asks."""
    if setting == "off":
        return "disabled"
    if setting != "auto":
        return "online" if setting == "online" else "offline"
    return "online" if has_key() else "offline"


def without_secrets(values: Any) -> Any:
    """The same values with every key blanked: what leaves the machine holds none."""
    if isinstance(values, dict):
        fields: dict[str, Any] = values
        return {
            key: "***" if key in ("api_key", "keys") and value else without_secrets(value)
            for key, value in fields.items()
        }
    return values


def labels(config: Config) -> dict[str, str]:
    """What a run is, in single words: to group, filter and tag runs by."""
    judge = config.judge.target.rpartition(".")[2].lower()
    return {
        "recipe": config.recipe,
        "model": config.model.name.rstrip("/").rpartition("/")[2],
        "objective": config.objective.kind,
        "judge": judge.removesuffix("judge") or judge,
    }


def wandb_arguments(config: Config, run_name: str, job: Job) -> dict[str, Any]:
    """What `wandb.init` is told about a run, besides where it is kept."""
    words = [*labels(config).values(), *(["sweep"] if config.tracking.sweep else [])]
    resolved: dict[str, Any] = without_secrets(config.model_dump(mode="json", by_alias=True))
    return {
        "project": config.tracking.project,
        "entity": config.tracking.entity,
        "name": run_name.replace(",", " ")[:_LONGEST_NAME],
        "group": (config.tracking.sweep or config.recipe)[:_LONGEST_NAME],
        "job_type": job,
        "tags": list(dict.fromkeys(word[:_LONGEST_TAG] for word in words)),
        "config": resolved | {LABELS: labels(config)},
    }


def _start_wandb(config: Config, run_name: str, folder: Path, job: Job) -> Any:
    mode = wandb_mode(config.tracking.wandb)
    if mode == "disabled":
        return None
    os.environ.setdefault("WANDB_SILENT", "true")  # some of its notices ignore the setting
    try:
        import wandb

        run = wandb.init(
            **wandb_arguments(config, run_name, job),
            id=_run_id(folder, job) if mode == "online" else None,
            resume="allow" if mode == "online" else None,
            dir=str(folder),
            mode=mode,
            settings=wandb.Settings(silent=True, console="off", init_timeout=20),
        )
        run.define_metric(VERSION, hidden=True)
        for section in _SECTIONS:
            run.define_metric(f"{section}/*", step_metric=VERSION)
    except Exception as error:  # noqa: BLE001 - tracking must not keep a run from starting
        log.warning("wandb is off: %s", error)
        return None
    return run


def _run_id(folder: Path, job: Job) -> str:
    """One W&B run for one run folder and job, however often it is stopped and resumed.

    Not offline: each part is a folder there, and one that is synced later would replace the other.
    """
    path = folder / (_ID_FILE if job == "train" else f"{_ID_FILE}_{job}")
    if not path.exists():
        path.write_text(f"{secrets.token_hex(6)}\n")
    return path.read_text().strip()
