"""What the first rank keeps of a run: the ledger, and the samples that wait."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from enum import Enum

from clawrl.config import schema
from clawrl.learner.pool import Batch, SamplePool
from clawrl.learner.recovery import recover
from clawrl.learner.schedule import Schedule
from clawrl.records.folder import RunFolder
from clawrl.records.jsonl import JsonlFile
from clawrl.records.nouns import Update

log = logging.getLogger(__name__)

POLL_S = 0.2
PATIENCE_S = 30.0
"""How long the other ranks are kept waiting for an answer; their collectives time out."""


class NoBatch(Enum):
    """Why there is no batch."""

    NOW = "too few samples so far"
    AT_ALL = "asked to stop, or the replay is over"


class LedgerKeeper:
    """The ledger's one writer while a learner runs. Opening it settles ledger and checkpoint."""

    def __init__(
        self,
        folder: RunFolder,
        checkpoint: Update | None,
        *,
        config: schema.Config,
        replay: Sequence[Update] | None,
        bound_staleness: bool,
    ) -> None:
        """Complete the ledger, retire what must be trained again, begin to follow the samples.

        Args:
            folder: the run.
            checkpoint: the update of the newest one; None: training begins with the base model.
            config: the run's configuration.
            replay: train exactly these batches; None: whatever samples come.
            bound_staleness: False: samples of any age are taken.

        Raises:
            LearnerError: checkpoint and ledger do not fit together.
            RecordError: a line of the ledger is not one.
        """
        self._schedule = Schedule(config.learner, folder.activity)
        self._max_staleness = config.loop.max_staleness if bound_staleness else None
        self._max_staleness_live = config.loop.max_staleness_live if bound_staleness else None
        self._ledger = JsonlFile(folder.ledger, durable=True)
        recovery = recover(folder.ledger_lines(), checkpoint)
        for line in recovery.append:
            self._ledger.append(line)
        self._again = list(recovery.redo)
        self._replaying = replay is not None
        planned = (checkpoint.version if checkpoint else 0) + len(self._again)
        self._again += [update for update in replay or () if update.version > planned]
        self._pool = SamplePool(folder, folder.surviving_updates())
        log.info("ledger settled lines=%d again=%d", len(recovery.append), len(self._again))

    def next_batch(self, version: int, *, stopping: Callable[[], bool]) -> Batch | NoBatch:
        """Wait a while for the batch that leads on from `version`.

        Raises:
            RecordError: a line of the samples is not one.
            LearnerError: a sample that must be there is not, or cannot be trained on.
        """
        deadline = time.monotonic() + PATIENCE_S
        while not stopping():
            self._pool.poll()
            if self._again:
                return self._pool.take_again(self._again.pop(0))
            if self._replaying:
                return NoBatch.AT_ALL
            batch = self._take(version)
            if batch is not None:
                return batch
            if time.monotonic() > deadline:
                return NoBatch.NOW
            time.sleep(POLL_S)
        return NoBatch.AT_ALL

    def _take(self, version: int) -> Batch | None:
        count = self._schedule.batch_samples()
        if count is None:
            return None
        return self._pool.take(
            count,
            version=version,
            max_staleness=self._max_staleness,
            max_staleness_live=self._max_staleness_live,
        )

    def announce(self, update: Update) -> None:
        """Append the line that makes an update known. It is on the disk when this returns."""
        self._ledger.append(update)
        log.info(
            "update version=%d samples=%d stale=%d loss=%.4g seconds=%.1f",
            update.version,
            len(update.sample_ids),
            len(update.stale),
            update.metrics.get("loss", 0.0),
            update.metrics.get("seconds", 0.0),
        )

    def close(self) -> None:
        """Close the ledger; the supervisor may write its last line."""
        self._ledger.close()
