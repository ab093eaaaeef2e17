"""From the ledger to the engine: each update that is announced is served, and recorded."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from clawrl.errors import EngineError, RequestError
from clawrl.loop.metrics import MetricsLog
from clawrl.loop.state import RunState
from clawrl.processes.failpoints import failpoint
from clawrl.records.folder import LEDGER_LINES, RunFolder
from clawrl.records.jsonl import Reader
from clawrl.records.nouns import Sample, Update
from clawrl.weights.publisher import Publisher

log = logging.getLogger(__name__)

T = TypeVar("T")

LEDGER_POLL_S = 0.05
ENGINE_PAUSE_S = 2.0
"""Long enough for the engine's keeper to notice a crash and close the gate."""


async def with_engine(work: Callable[[], Awaitable[T]], *, max_restarts: int) -> T:
    """Do something that needs the engine; again if the engine crashed and is brought back.

    Raises:
        EngineError: it does not come back, or `work` fails whenever it is there.
    """
    for attempt in range(max_restarts + 1):
        try:
            return await work()
        except RequestError:
            raise
        except EngineError as error:
            if attempt == max_restarts:
                raise
            log.warning("the engine failed, once more when it is back: %s", error)
            await asyncio.sleep(ENGINE_PAUSE_S)
    raise EngineError("the engine does not come back")


class LedgerFollower:
    """Serves what the learner announces, and keeps the run's figures of it."""

    def __init__(
        self,
        folder: RunFolder,
        publisher: Publisher,
        metrics: MetricsLog,
        state: RunState,
        *,
        max_restarts: int,
        phase: Callable[[str], None],
    ) -> None:
        """Nothing is read yet.

        Args:
            folder: the run.
            publisher: brings a version's weights to the engine.
            metrics: gets one line for each update.
            state: the figures that people see.
            max_restarts: how often the engine may come back while a version is published.
            phase: is told what happens now.
        """
        self._folder = folder
        self._publisher = publisher
        self._metrics = metrics
        self._state = state
        self._max_restarts = max_restarts
        self._phase = phase
        self._sampled_by: dict[str, int] = {}
        """The version that sampled each accepted and unused sample."""

    def count(self, sample: Sample) -> None:
        """A turn became a sample."""
        self._state.count(sample)
        if sample.accepted and sample.weights is not None:
            self._sampled_by[sample.interaction_id] = sample.weights.version_first

    async def run(self, on_served: Callable[[Update], Awaitable[None]]) -> None:
        """Follow the ledger for ever; `on_served` is awaited after each version was served."""
        reader = Reader(self._folder.ledger, LEDGER_LINES)
        while True:
            for line in await asyncio.to_thread(reader.poll):
                if isinstance(line, Update) and self._publisher.is_news(line):
                    await self._serve(line)
                    await on_served(line)
            await asyncio.sleep(LEDGER_POLL_S)

    async def _serve(self, update: Update) -> None:
        state = self._state
        self._phase(f"publishing version {update.version}")
        failpoint("supervisor.before_publish")
        published = await with_engine(
            lambda: self._publisher.publish(update), max_restarts=self._max_restarts
        )
        failpoint("supervisor.after_publish")
        state.version, state.pause_s = update.version, published.pause_s
        state.probe_gap = published.probe_gap
        state.take(update)
        used = [self._sampled_by.pop(name, update.parent) for name in update.sample_ids]
        state.staleness = update.parent - min(used, default=update.parent)
        values = {f"train/{name}": value for name, value in update.metrics.items()}
        values |= {
            "weights/pause_s": published.pause_s,
            "loop/accepted": state.accepted,
            "loop/rejected": sum(state.rejected.values()),
            "loop/staleness": state.staleness,
        }
        if published.probe_gap is not None:
            values["weights/probe_gap"] = published.probe_gap
        if state.score_mean is not None:
            values["loop/recent_score"] = state.score_mean
        self._metrics.log(update.version, values)
