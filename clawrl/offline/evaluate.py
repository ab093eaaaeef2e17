"""`clawrl eval --task`: find task and model, draw what is missing, give the results.

A complete evaluation is read from its folder: no engine is started for it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from clawrl.config import schema
from clawrl.config.compose import compose
from clawrl.config.schema import Config
from clawrl.errors import ConfigError, UserError
from clawrl.eval.evaluation.folder import EvalFolder
from clawrl.eval.evaluation.results import stored_results, write_results
from clawrl.eval.evaluation.runner import Evaluation, Subject, draw_missing, plan
from clawrl.eval.tasks.catalog import is_task_override, load_task
from clawrl.eval.tasks.task import Setting, Task
from clawrl.loop.policy import open_judge
from clawrl.offline.measured_judge import NoEngine, judge_subject
from clawrl.offline.measured_model import MeasuredModel, configure, find_model, open_model
from clawrl.records.folder import RunFolder

EVALS = "evals"
"""The folder of evaluations, below `runs_dir`."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What the user asked for."""

    task: str
    model: str | None = None
    samples: int | None = None
    overrides: Sequence[str] = ()
    """As typed: the configuration's, and `task.KEY=VALUE` for the task's own file."""
    config_dir: Path | None = None

    @property
    def task_overrides(self) -> list[str]:
        """Those of the task's file."""
        return [override for override in self.overrides if is_task_override(override)]

    @property
    def config_overrides(self) -> list[str]:
        """All others."""
        return [override for override in self.overrides if not is_task_override(override)]

    def sets(self, key: str) -> bool:
        """Whether an override sets this key, or the whole section that it is in."""
        given = {override.lstrip("+").partition("=")[0].strip() for override in self.overrides}
        return key in given or key.partition(".")[0] in given


@dataclass(frozen=True, slots=True)
class Watcher:
    """Who is told what goes on."""

    busy: Callable[[str], None]
    """What takes a moment: of interest only while it lasts."""
    phase: Callable[[str], None]
    """What begins now."""
    progress: Callable[[int, int], None]
    """(done, total) generations."""


async def evaluate(asked: Asked, watcher: Watcher) -> tuple[Evaluation, dict[str, Any]]:
    """Evaluate, or go on with it, or find that it was done.

    Returns:
        The evaluation, and what its results.json holds.

    Raises:
        UserError: a task, model, override or file is wrong, or the same evaluation runs already.
        EngineError: the engine failed; a second call goes on.
        MachineError: the folder cannot be written.
    """
    task = load_task(asked.task, asked.config_dir, overrides=asked.task_overrides)
    find = _find_model if task.needs_model else _find_judge
    subject, config, sampling, opened = await find(task, asked, watcher)
    data = config.data if asked.sets("data.path") else config.data.model_copy(update={"path": None})
    source = task.source(data)
    if source is not None:
        watcher.busy(f"{task.name}: reading {source}")
    items = await asyncio.to_thread(task.items, data)
    evaluation = plan(
        task,
        items,
        subject=subject,
        sampling=sampling,
        seed=config.eval.seed,
        samples=asked.samples or task.samples,
        evals=evals_folder(config),
    )
    stored = await asyncio.to_thread(stored_results, evaluation)
    if stored is not None:
        return evaluation, stored
    watcher.phase(f"{task.name}: {len(items)} items{f' from {source}' if source else ''}")
    began = time.monotonic()
    with evaluation.folder.locked():
        if evaluation.missing():
            async with opened(evaluation.folder) as (drawing, setting):
                watcher.phase(f"{task.name}: {subject.name}")
                await draw_missing(
                    replace(evaluation, task=drawing),
                    setting,
                    concurrent=config.eval.concurrent,
                    progress=watcher.progress,
                )
        watcher.busy("computing the intervals")
        results = await asyncio.to_thread(
            write_results,
            evaluation,
            subject,
            source=source,
            concurrent=config.eval.concurrent,
            seconds=time.monotonic() - began,
        )
    return evaluation, results


Opened = Callable[[EvalFolder], AbstractAsyncContextManager[tuple[Task, Setting]]]
"""Starts what draws, which logs into the folder; gives the task that draws and its setting."""
Found = tuple[Subject, Config, dict[str, Any], Opened]
"""What is measured, under which configuration, how it is drawn (for the key), how it is opened."""


async def _find_model(task: Task, asked: Asked, watcher: Watcher) -> Found:
    config = await asyncio.to_thread(
        configure,
        asked.model,
        asked.config_overrides,
        config_dir=asked.config_dir,
        max_tokens=task.sampling.max_tokens,
        progress=watcher.phase,
    )
    model = await find_model(asked.model, asked.config_overrides, config, watcher.phase)
    sampling = choose_sampling(task, config, asked, model.context_tokens)
    template_kwargs = config.model.template_kwargs

    @asynccontextmanager
    async def opened(folder: EvalFolder) -> AsyncGenerator[tuple[Task, Setting]]:
        log = folder.root / "engine.log"
        async with open_model(model, log, watcher.phase) as engine, closing(task):
            yield task, Setting(engine, sampling, template_kwargs)

    return model.subject, config, _drawn_with(model, sampling, template_kwargs), opened


async def _find_judge(task: Task, asked: Asked, watcher: Watcher) -> Found:
    if asked.model is not None:
        raise UserError(f"{task.name} measures a judge: choose it with judge=NAME, not --model")
    config = compose(asked.config_overrides, config_dir=asked.config_dir)
    subject = await asyncio.to_thread(judge_subject, config, watcher.phase)

    @asynccontextmanager
    async def opened(folder: EvalFolder) -> AsyncGenerator[tuple[Task, Setting]]:
        run = RunFolder(folder.root)
        async with open_judge(config, run, watcher.phase, policy=None) as judge:
            drawing = load_task(
                asked.task, asked.config_dir, overrides=asked.task_overrides, judge=judge
            )
            async with closing(drawing):
                yield drawing, Setting(NoEngine(), drawing.sampling, {})

    return subject, config, {}, opened


@asynccontextmanager
async def closing(task: Task) -> AsyncGenerator[None]:
    """Close the task at the end."""
    try:
        yield
    finally:
        await task.aclose()


def evals_folder(config: Config) -> Path:
    """Where all evaluations are kept."""
    return Path(config.runs_dir).absolute() / EVALS


def choose_sampling(
    task: Task, config: Config, asked: Asked, context_tokens: int | None
) -> schema.Sampling:
    """The task's sampling, under what the user overrides, within the model's context.

    What a recipe or a model's own settings say of sampling is for training: it counts for a task
    that is `drawn_as_trained` alone.

    Raises:
        ConfigError: the user asks for longer replies than the context holds.
    """
    own = {
        name: getattr(config.sampling, name)
        for name in schema.Sampling.model_fields
        if asked.sets(f"sampling.{name}")
    }
    below = config.sampling if task.drawn_as_trained else task.sampling
    chosen = below.model_copy(update=own)
    if context_tokens is None or chosen.max_tokens <= context_tokens:
        return chosen
    if "max_tokens" in own:
        raise ConfigError(
            "sampling.max_tokens",
            f"{chosen.max_tokens} is more than the model's context of {context_tokens} tokens "
            "(model.context_tokens)",
        )
    # The engine takes what the prompt leaves of it.
    return chosen.model_copy(update={"max_tokens": context_tokens})


def _drawn_with(
    model: MeasuredModel, sampling: schema.Sampling, template_kwargs: dict[str, Any]
) -> dict[str, Any]:
    """All that decides how replies are drawn: part of the evaluation's key."""
    drawn: dict[str, Any] = {**sampling.model_dump(), "top_p": 1.0}
    if model.context_tokens is not None:
        drawn["context_tokens"] = model.context_tokens
    if model.template_sha is not None:
        drawn |= {"dtype": model.config.model.dtype, "chat_template_sha": model.template_sha}
    if template_kwargs:
        drawn["template_kwargs"] = template_kwargs
    return drawn
