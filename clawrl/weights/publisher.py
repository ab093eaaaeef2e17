"""Takes each new version from the ledger to the engine, without dropping a request.

A ledger line is the signal: by then the version and its checkpoint are on the disk. While the
engine changes, new requests wait at the gateway and those in flight are paused, not ended.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from clawrl.errors import EngineError, WeightsError
from clawrl.protocols import Engine, WeightSink
from clawrl.records.nouns import Update
from clawrl.records.versions import prune, version_folder
from clawrl.serving.policy import ServedPolicy

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Published:
    """What came of one publication."""

    version: int
    pause_s: float
    """How long requests stood still."""
    probe_gap: float | None
    """Mean |engine - learner| in nats a token, where the version brought a probe."""


class Publisher:
    """Publishes versions to one sink, in the ledger's order."""

    def __init__(
        self,
        *,
        weights: Path,
        sink: WeightSink,
        engine: Engine,
        served: ServedPolicy,
        keep: int,
        tolerance: float,
        on_served: Callable[[int], object],
    ) -> None:
        """Nothing is published yet.

        Args:
            weights: the folder of the numbered versions.
            sink: what takes them over.
            engine: what the probe asks.
            served: the gate and the stamp.
            keep: how many versions stay on the disk.
            tolerance: the largest mean difference of the probe, in nats a token.
            on_served: told the new version before the gate opens again.
        """
        self._weights = weights
        self._sink = sink
        self._engine = engine
        self._served = served
        self._keep = keep
        self._tolerance = tolerance
        self._on_served = on_served

    def is_news(self, update: Update) -> bool:
        """Whether the engine does not serve this yet: a later version, or this one anew."""
        return (update.version, update.digest_after) != (
            self._served.version,
            self._served.digest,
        ) and (update.version >= self._served.version)

    async def publish(self, update: Update) -> Published:
        """Make the engine serve an update's weights, probe them, delete versions out of use.

        Raises:
            EngineError: the engine did not take them over in time.
            WeightsError: it serves something else than the learner holds.
        """
        folder = version_folder(self._weights, update.version)
        async with self._served.closed():
            pause_s = await self._sink.update_weights(folder, update.version)
            self._served.moved_to(update.version, update.digest_after)
            self._on_served(update.version)
        log.info("published version=%d pause_s=%.2f", update.version, pause_s)
        gap = await self._probe(folder)
        prune(self._weights, keep=self._keep, protect={update.version})
        return Published(update.version, pause_s, gap)

    async def _probe(self, folder: Path) -> float | None:
        """Compare engine and learner on the probe that the version brings, if it does."""
        path = folder / "probe.json"
        if not path.exists():
            return None
        gaps: list[float] = []
        for probe in json.loads(path.read_text()):
            theirs = await self._engine.score(probe["prompt_ids"], probe["reply_ids"])
            gaps += [abs(a - b) for a, b in zip(theirs, probe["logp"], strict=True)]
        if not gaps:
            raise EngineError(f"{path}: the probe is empty")
        gap = sum(gaps) / len(gaps)
        if gap > self._tolerance:
            raise WeightsError(
                f"the engine's log-probabilities differ from the learner's by {gap:.3f} nats a "
                f"token (weights.probe_tolerance={self._tolerance}): the weights did not arrive "
                "whole, or the precisions differ; see logs/engine.log"
            )
        return gap
