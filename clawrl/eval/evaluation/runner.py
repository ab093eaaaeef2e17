"""Draws what is missing of an evaluation and keeps every generation.

Invariants: a seed belongs to an item and a sample, so that a run which was killed and goes on asks
for exactly what it would have asked for; a generation is on the disk before it counts; results are
computed from the file, never from memory.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clawrl.errors import EngineError, MachineError, RequestError
from clawrl.eval.evaluation.bounded import each
from clawrl.eval.evaluation.folder import EvalFolder, EvalInfo
from clawrl.eval.evaluation.generation import Generation
from clawrl.eval.tasks.task import Draw, Item, Setting, Task
from clawrl.records.jsonl import JsonlFile

__all__ = ["EvalFolder", "EvalInfo", "Evaluation", "Subject", "draw_missing", "plan"]

SEEDS_PER_ITEM = 1000
GIVE_UP_AFTER = 16
"""Refused requests, and nothing but refused requests: then it is not the items' fault."""
_NOT_THE_ITEM = (401, 403, 404, 408, 429)
"""HTTP statuses that say nothing about the one request: key, address, rate."""

Progress = Callable[[int, int], None]
"""Called with (done, total) generations."""


@dataclass(frozen=True, slots=True)
class Subject:
    """The model that is measured."""

    name: str
    digest: str
    version: int | None
    source: str
    """What serves it: `vllm`, or `openai-endpoint`."""
    args: dict[str, Any]
    """How to have it again, for results.json."""
    note: str | None = None
    """What a reader of the results must know about it."""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """A task, a model and how it is drawn; and the folder that belongs to them."""

    task: Task
    items: Sequence[Item]
    info: EvalInfo
    samples: int
    """Draws for each item."""
    folder: EvalFolder

    def draws(self) -> Iterator[Draw]:
        """Every draw: the first sample of all items, then the second, ..."""
        for sample in range(self.samples):
            for place, item in enumerate(self.items):
                yield Draw(item, sample, self.info.seed + SEEDS_PER_ITEM * place + sample)

    def generations(self) -> list[Generation]:
        """What there is of them, by item in the task's order, then by sample."""
        found = {(one.item_id, one.sample): one for one in self.folder.generations()}
        wanted = ((item.item_id, sample) for item in self.items for sample in range(self.samples))
        return [found[key] for key in wanted if key in found]

    def missing(self) -> list[Draw]:
        """What is still to be drawn; nothing once every draw has ended somehow.

        While others are missing, failed requests are tried again too.
        """
        found = self.generations()
        ended = {(one.item_id, one.sample) for one in found}
        good = {(one.item_id, one.sample) for one in found if one.status != "error"}
        draws = list(self.draws())
        if good and len(ended) == len(draws):
            return []
        return [draw for draw in draws if (draw.item.item_id, draw.sample) not in good]


def plan(
    task: Task,
    items: Sequence[Item],
    *,
    subject: Subject,
    sampling: dict[str, Any],
    seed: int,
    samples: int,
    evals: Path,
) -> Evaluation:
    """What is to be evaluated, and where it belongs below the folder `evals`. Writes nothing."""
    info = EvalInfo(
        task=task.name,
        task_digest=task.digest(items),
        model=subject.name,
        model_digest=subject.digest,
        version=subject.version,
        sampling=sampling,
        seed=seed,
        metric=task.metric,
        items=len(items),
        created=time.time(),
    )
    return Evaluation(task, items, info, samples, EvalFolder.of(evals, info))


async def draw_missing(
    evaluation: Evaluation, setting: Setting, *, concurrent: int, progress: Progress
) -> None:
    """Draw what is missing and append each generation to the file as it comes.

    The caller holds the folder's lock. Calling it again after a failure, or a kill, goes on.

    Raises:
        EngineError: the engine failed, or refuses every request.
        MachineError: the disk is full.
    """
    folder = evaluation.folder
    missing = evaluation.missing()
    total = len(evaluation.items) * evaluation.samples
    done = total - len(missing)
    refused = _Refusals(any(one.status != "error" for one in evaluation.generations()))
    folder.results_path.unlink(missing_ok=True)
    if not folder.info_path.exists():
        folder.write(folder.info_path, evaluation.info.model_dump_json(indent=2) + "\n")
    progress(done, total)

    def finished() -> None:
        nonlocal done
        done += 1
        progress(done, total)

    try:
        with JsonlFile(folder.generations_path) as file:

            async def one(draw: Draw) -> None:
                generation = await _drawn(evaluation.task, draw, setting)
                file.append(generation)
                refused.look_at(generation)

            await each(one, missing, concurrent=concurrent, finished=finished)
    except OSError as error:
        raise MachineError(f"{folder.root}: cannot be written: {error.strerror}") from None
    refused.require_one_answer()


async def _drawn(task: Task, draw: Draw, setting: Setting) -> Generation:
    try:
        return await task.draw(draw, setting)
    except RequestError as error:
        if error.status in _NOT_THE_ITEM:
            raise
        return Generation(
            item_id=draw.item.item_id,
            sample=draw.sample,
            seed=draw.seed,
            question=draw.item.question,
            answer=draw.item.answer,
            text="",
            status="error",
            scores={task.metric: 0.0},
            problem=" ".join(str(error).split()),
        )


class _Refusals:
    """Tells a request that cannot be served from a server that serves none."""

    def __init__(self, answered: bool) -> None:
        self._answered = answered
        self._refused = 0
        self._problem: str | None = None

    def look_at(self, generation: Generation) -> None:
        if generation.status != "error":
            self._answered = True
            return
        self._refused += 1
        self._problem = self._problem or generation.problem
        if self._refused >= GIVE_UP_AFTER:
            self.require_one_answer()

    def require_one_answer(self) -> None:
        """Raises EngineError where every request was refused."""
        if self._refused and not self._answered:
            raise EngineError(f"every request was refused: {self._problem}")
