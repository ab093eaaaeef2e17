"""What a run is doing right now, in numbers: the display reads it, the loop writes it."""

from __future__ import annotations

import time
from collections import Counter, deque
from dataclasses import dataclass, field

from clawrl.records.nouns import Sample, Update

RECENT = 64
"""Turns over which rates are taken."""


@dataclass
class RunState:
    """Counts since this process started, and the latest figures of the learner."""

    name: str
    folder: str
    target: int | None
    """The last version; None: there is none."""
    batch_samples: int
    version: int = 0
    phase: str = "starting"
    started: float = field(default_factory=time.monotonic)
    accepted: int = 0
    rejected: Counter[str] = field(default_factory=Counter[str])
    scores: deque[int] = field(default_factory=lambda: deque(maxlen=RECENT))
    hinted: deque[bool] = field(default_factory=lambda: deque(maxlen=RECENT))
    unused: int = 0
    """Accepted samples that no update has used yet."""
    in_flight: int = 0
    waiting_for_judge: int = 0
    waiting_for_disk: int = 0
    staleness: int = 0
    """The oldest sample in the last update."""
    pause_s: float | None = None
    probe_gap: float | None = None
    evals: list[tuple[int, float]] = field(default_factory=list)
    eval_done: tuple[int, int] | None = None
    last: dict[str, float] = field(default_factory=dict)
    """The learner's figures of the last update."""
    restarts: int = 0

    def count(self, sample: Sample) -> None:
        """Take in one finished turn."""
        if sample.accepted:
            self.accepted += 1
            self.unused += 1
        else:
            self.rejected[(sample.reason or "unknown").split(":")[0]] += 1
        if sample.score is not None:
            self.scores.append(sample.score)
        self.hinted.append(sample.hint is not None)

    def take(self, update: Update) -> None:
        """Take in one update."""
        self.unused -= len(update.sample_ids) + len(update.stale)
        self.last = update.metrics

    @property
    def score_mean(self) -> float | None:
        """Mean of the recent verdicts."""
        return sum(self.scores) / len(self.scores) if self.scores else None

    @property
    def hint_rate(self) -> float | None:
        """Share of recent turns whose next state gave a hint."""
        return sum(self.hinted) / len(self.hinted) if self.hinted else None

    @property
    def elapsed_s(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self.started
