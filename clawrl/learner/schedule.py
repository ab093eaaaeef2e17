"""When the learner may work, and on how many samples: what keeps a laptop usable."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path

from clawrl.config import schema

_HOURS = re.compile(r"hours\((\d{1,2})-(\d{1,2})\)")


class Schedule:
    """Reads the clock, and the file that the gateway touches at each request."""

    def __init__(
        self,
        config: schema.Learner,
        activity: Path,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Nothing is read yet.

        Args:
            config: `when`, `idle_s` and the sizes of batches.
            activity: its time of change is that of the last request; it may be missing.
            clock: Unix seconds.
        """
        self._when = config.when
        self._idle_s = config.idle_s
        self._batch_samples = config.batch_samples
        self._idle_batch_samples = config.idle_batch_samples
        self._activity = activity
        self._clock = clock

    def batch_samples(self) -> int | None:
        """How many samples make a batch now; None: this is no time to learn."""
        idle = self._idle()
        if self._when == "idle" and not idle:
            return None
        hours = _HOURS.fullmatch(self._when)
        if hours and not _within(int(hours[1]), int(hours[2]), time.localtime(self._clock())):
            return None
        return self._idle_batch_samples or self._batch_samples if idle else self._batch_samples

    def _idle(self) -> bool:
        try:
            last = self._activity.stat().st_mtime
        except OSError:
            return True
        return self._clock() - last >= self._idle_s


def _within(start: int, end: int, now: time.struct_time) -> bool:
    """Whether the hour is in a span that may go past midnight."""
    return start <= now.tm_hour < end if start <= end else not end <= now.tm_hour < start
