"""The learner's loop: wait for a batch, train on it, make the new version last, announce it.

The order at the end of an update is what makes a crash harmless at any point: the weights' folder,
then the checkpoint if one is due, then the line in the ledger. The line is the announcement:
whoever publishes weights follows the ledger.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from clawrl.config import schema
from clawrl.learner.checkpoint import load_checkpoint, newest_checkpoint, save_checkpoint
from clawrl.learner.export import export_version, probe_replies
from clawrl.learner.ledger import LedgerKeeper, NoBatch
from clawrl.learner.policy import Policy
from clawrl.learner.pool import Batch
from clawrl.learner.rank import Rank
from clawrl.learner.step import Trainer
from clawrl.processes.failpoints import failpoint
from clawrl.records.folder import RunFolder
from clawrl.records.nouns import Update
from clawrl.records.versions import digest_of


@dataclass(frozen=True, slots=True)
class Options:
    """What the learner was told on its command line."""

    run: Path
    model_path: Path
    until: int
    """The version after which it exits."""
    replay: Sequence[Update] | None = None
    """Train exactly these batches, in this order, whatever their age."""
    bound_staleness: bool = True


class Learner:
    """One process of the learner, from start to exit."""

    def __init__(self, options: Options, config: schema.Config, rank: Rank) -> None:
        """Load the newest checkpoint, or the base model, and bring the ledger up to it.

        Raises:
            LearnerError: checkpoint, ledger and model do not fit together.
            ModelError: the base model cannot be read.
        """
        self._options = options
        self._config = config
        self._rank = rank
        self._folder = RunFolder.open(options.run)
        self._policy = Policy(options.model_path, config, rank)
        self._trainer = Trainer(self._policy, config=config, rank=rank)
        self._probed = False
        checkpoint = rank.decide(lambda: newest_checkpoint(self._folder.checkpoints))
        if checkpoint:
            load_checkpoint(
                self._folder.checkpoints, checkpoint.version, self._policy, self._trainer
            )
        self._version = self._saved = checkpoint.version if checkpoint else 0
        self._last = checkpoint
        """First rank: the update that led to the weights as they are."""
        self._ledger = self._open_ledger() if rank.first else None

    def _open_ledger(self) -> LedgerKeeper:
        return LedgerKeeper(
            self._folder,
            self._last,
            config=self._config,
            replay=self._options.replay,
            bound_staleness=self._options.bound_staleness,
        )

    def run(self, *, stopping: Callable[[], bool]) -> None:
        """Train until the last version is reached or `stopping()` is true; then save.

        A step that has begun is finished and announced first.
        """

        def choose() -> Batch | NoBatch:
            assert self._ledger is not None
            return self._ledger.next_batch(self._version, stopping=stopping)

        while self._version < self._options.until:
            batch = self._rank.decide(choose)
            if batch is NoBatch.AT_ALL:
                break
            if isinstance(batch, Batch):
                self._update(batch)
        if self._saved < self._version:
            self._save(self._policy.weights(holder=self._rank.first))
        if self._ledger:
            self._ledger.close()

    def _update(self, batch: Batch) -> None:
        """From one version to the next. The order of what it writes is the module's invariant."""
        self._pass("before_step")
        metrics = self._trainer.train(batch.samples, version=self._version)
        self._pass("after_step")
        self._version += 1
        probe = None
        if not self._probed:  # once for each process: the supervisor compares the engine with it
            probe = probe_replies(self._policy, batch.samples, rank=self._rank)
            self._probed = True
        weights = self._policy.weights(holder=self._rank.first)
        if self._rank.first:
            self._last = self._written(batch, metrics, weights, probe)
        self._pass("after_weights")
        if self._version % self._config.learner.checkpoint_every == 0 or self._at_end():
            self._save(weights)
        self._pass("after_checkpoint")
        if self._ledger and self._last:
            self._ledger.announce(self._last)
        self._pass("after_ledger")

    def _at_end(self) -> bool:
        return self._version == self._options.until

    def _written(
        self,
        batch: Batch,
        metrics: dict[str, float],
        weights: dict[str, Tensor],
        probe: list[dict[str, Any]] | None,
    ) -> Update:
        """Write the new version's folder; returns the line that will announce it."""
        meta = export_version(
            self._folder.weights,
            self._policy,
            weights,
            version=self._version,
            model=self._config.model,
            model_path=self._options.model_path,
            probe=probe,
        )
        before = self._last.digest_after if self._last else digest_of(self._options.model_path)
        return Update(
            version=self._version,
            parent=self._version - 1,
            sample_ids=[sample.interaction_id for sample in batch.samples],
            stale=batch.stale,
            digest_before=before,
            digest_after=meta.digest,
            created=time.time(),
            metrics=metrics,
        )

    def _save(self, weights: dict[str, Tensor]) -> None:
        """Write the checkpoint of the current version. Every rank must call this."""
        optimiser = self._trainer.state(holder=self._rank.first)
        if self._rank.first and self._last:
            save_checkpoint(
                self._folder.checkpoints, self._last, weights=weights, optimiser=optimiser
            )
        self._saved = self._version

    def _pass(self, point: str) -> None:
        """A point at which a crash test kills the first rank."""
        if self._rank.first:
            failpoint(f"learner.{point}")
