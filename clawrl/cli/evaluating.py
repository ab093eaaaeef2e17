"""`clawrl eval`: a task for a model, the table of all tasks, or the recipe's persona taste."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table

from clawrl.cli.run import compose, run_until_signal, supervise
from clawrl.cli.screen import err, out, short
from clawrl.config import compose as composing
from clawrl.errors import UserError
from clawrl.loop.display import Shown, StatusLine
from clawrl.loop.run_folder import create_run, folder_of
from clawrl.records.folder import RunFolder

if TYPE_CHECKING:
    from clawrl.eval.evaluation.runner import Evaluation

LIST = "list"
_SPEED_OVER_S = 600.0
"""The time left is estimated from this long a stretch: long replies come in bursts."""
_STEPS = 10
"""Lines of progress where there is no terminal."""


@dataclass(frozen=True, slots=True)
class Options:
    """The command's options as typed."""

    overrides: list[str]
    task: str | None
    model: str | None
    samples: int | None
    data: Path | None
    as_json: bool
    config_dir: Path | None


def evaluate(options: Options) -> None:
    """`clawrl eval`."""
    if options.task == LIST:
        list_tasks(options.config_dir)
    elif options.task is None:
        _measure_taste(options)
    else:
        _evaluate_task(options, options.task)


def list_tasks(config_dir: Path | None) -> None:
    """`--task list`: every task in a table."""
    from clawrl.eval.tasks.catalog import load_task, task_files

    table = Table("task", "what", "items", "metric", "samples")
    for name in task_files(config_dir):
        task = load_task(name, config_dir)
        size = "-" if task.size is None else str(task.size)
        table.add_row(
            escape(name), escape(task.description), size, escape(task.metric), str(task.samples)
        )
    out.print(table)


def _evaluate_task(options: Options, task: str) -> None:
    from clawrl.offline.evaluate import Asked, Watcher, evaluate

    overrides = list(options.overrides)
    if options.data is not None:
        overrides.append(f"data.path={json.dumps(str(options.data))}")
    asked = Asked(task, options.model, options.samples, overrides, options.config_dir)
    done: list[Any] = []

    async def work(display: _EvalDisplay) -> None:
        done.append(await evaluate(asked, Watcher(display.busy, display.phase, display.progress)))

    try:
        with _EvalDisplay(err) as display:
            run_until_signal(work(display), None)
    except KeyboardInterrupt:
        err.print("stopped; every reply so far is kept. The same command goes on.")
        raise
    evaluation, results = done[0]
    if options.as_json:
        print(json.dumps(results, ensure_ascii=False))
        return
    show_results(evaluation, results)
    err.print(f"replies and results: {short(evaluation.folder.root)}", soft_wrap=True)


def show_results(evaluation: Evaluation, results: dict[str, Any]) -> None:
    """The task's own tables, or the numbers of results.json as one."""
    own = results["clawrl"]
    task = evaluation.task
    for table in task.tables(evaluation.generations()) or [_number_table(task.name, results)]:
        out.print(table)
    counts = ", ".join(f"{count} {status}" for status, count in own["replies"].items() if count)
    drawn = f"{len(evaluation.items)} items, {own['samples']} samples each, seed {own['seed']}"
    err.print(escape(f"{drawn}: {counts}"), highlight=False)
    if "note" in own:
        err.print(escape(f"note: {own['note']}"), highlight=False)


def _number_table(task: str, results: dict[str, Any]) -> Table:
    title = escape(f"{task}: {results['model_name']}")
    table = Table("measure", "value", "95 % interval", title=title)
    for name, number in results["clawrl"]["numbers"].items():
        digits = 0 if name == "tokens" else 3
        low, high = number.get("low"), number.get("high")
        known = low is not None and high is not None
        interval = f"{low:.{digits}f} to {high:.{digits}f}" if known else ""
        value = "-" if number["value"] is None else f"{number['value']:.{digits}f}"
        table.add_row(escape(name), value, interval)
    return table


def _measure_taste(options: Options) -> None:
    """Without a task: how much first replies are to the persona's taste, filed with the run."""
    from clawrl.offline.stages import measure_once

    if options.samples is not None or options.data is not None:
        raise UserError(
            "--n and --data go with --task; without it set eval.replies_per_problem=N and "
            "data.source=file data.eval_path=FILE"
        )
    name = options.model
    if name is not None and (Path(name) / "config.yaml").is_file():
        run = RunFolder.open(Path(name))
        config = composing.load(run.config, options.overrides, config_dir=options.config_dir)
    elif name is not None:
        raise UserError(
            f"--model {name}: without --task it names a run folder; for the taste of another "
            "model set model.name=NAME"
        )
    else:
        config = compose(options.overrides, options.config_dir)
        run = folder_of(config, prefix="eval-")
        create_run(config, run)
    found: list[Any] = []

    async def work(display: StatusLine) -> None:
        found.append(await measure_once(config, run, display))

    supervise(work)
    metrics = found[0].metrics()
    if options.as_json:
        print(json.dumps({"run": str(run.root), "version": found[0].version, **metrics}))
        return
    table = Table("measure", "value", title=f"version {found[0].version}")
    for name, value in metrics.items():
        table.add_row(escape(name), f"{value:.3f}")
    out.print(table)


class _EvalDisplay(Shown):
    """What goes on, then a bar with the time left; plain lines where there is no terminal."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=console,
            transient=True,
            speed_estimate_period=_SPEED_OVER_S,
            disable=not console.is_terminal,
        )
        super().__init__(self._bar)
        self._task = self._bar.add_task("", total=None)
        self._step = -1

    def busy(self, line: str) -> None:
        """Say what takes a moment; that is worth no line."""
        self._bar.update(self._task, description=line)

    def phase(self, line: str) -> None:
        """Say what goes on."""
        self.busy(line)
        if not self._console.is_terminal:
            self._console.print(escape(line), highlight=False, soft_wrap=True)

    def progress(self, done: int, total: int) -> None:
        """So many of all generations are there."""
        if self._step < 0:  # what an earlier call drew says nothing of the speed
            self._bar.reset(self._task, total=total, completed=done)
        else:
            self._bar.update(self._task, completed=done)
        step = done * _STEPS // max(total, 1)
        if step > self._step:
            self._step = step
            if not self._console.is_terminal:
                self._console.print(f"{done}/{total} replies", highlight=False)
