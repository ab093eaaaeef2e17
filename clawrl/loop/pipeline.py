"""Next states in, samples out: the judging loop.

Every next state becomes exactly one verdict and one sample line, accepted or rejected.
"""

from __future__ import annotations

import asyncio
import errno
import logging
from collections.abc import Callable

from clawrl.errors import MachineError
from clawrl.processes.failpoints import failpoint
from clawrl.protocols import Judge
from clawrl.records.nouns import Feedback, Interaction, Sample, Verdict
from clawrl.records.writer import RecordWriter

log = logging.getLogger(__name__)

QUEUE_TURNS = 10_000


class Pipeline:
    """Judges turns concurrently and hands on each sample once it is written."""

    def __init__(
        self,
        *,
        judge: Judge,
        writer: RecordWriter,
        assemble: Callable[[Interaction, Verdict], Sample],
        concurrent: int,
        on_sample: Callable[[Sample], None],
    ) -> None:
        self._judge = judge
        self._writer = writer
        self._assemble = assemble
        self._concurrent = concurrent
        self._on_sample = on_sample
        self._turns: asyncio.Queue[tuple[Interaction, Feedback]] = asyncio.Queue(QUEUE_TURNS)

    @property
    def waiting(self) -> int:
        """Turns that wait for a judge."""
        return self._turns.qsize()

    def submit(self, interaction: Interaction, feedback: Feedback) -> None:
        """Take a turn. Over the bound it stays on the disk, and a resumed run judges it."""
        try:
            self._turns.put_nowait((interaction, feedback))
        except asyncio.QueueFull:
            log.warning(
                "judge queue full interaction=%s left for --resume", interaction.interaction_id
            )

    async def run(self) -> None:
        """Work for ever. Raises MachineError when records cannot be written."""
        async with asyncio.TaskGroup() as group:
            for _ in range(self._concurrent):
                group.create_task(self._work())

    async def drain(self) -> None:
        """Return when everything submitted so far has become a sample."""
        await self._turns.join()

    async def _work(self) -> None:
        while True:
            interaction, feedback = await self._turns.get()
            try:
                await self._one(interaction, feedback)
            finally:
                self._turns.task_done()

    async def _one(self, interaction: Interaction, feedback: Feedback) -> None:
        failpoint("supervisor.before_verdict")
        verdict = await self._judge.judge(interaction, feedback)
        await self.settle(interaction, verdict, record_verdict=True)

    async def settle(
        self, interaction: Interaction, verdict: Verdict, *, record_verdict: bool
    ) -> None:
        """Write a verdict (unless it is on the disk already) and its sample."""
        sample = await asyncio.to_thread(self._assemble, interaction, verdict)
        try:
            if record_verdict:
                await asyncio.wrap_future(self._writer.put(verdict))
                failpoint("supervisor.after_verdict")
            await asyncio.wrap_future(self._writer.put(sample))
        except OSError as error:
            raise disk_error(error) from None
        self._on_sample(sample)


RESUME = "go on with `clawrl train --resume RUN`"


def disk_error(error: OSError, *, then: str = RESUME) -> MachineError:
    """Records cannot be written: one line with what to do about the disk, and `then`."""
    where = error.filename or "the run folder"
    remedy = "free some space" if error.errno in (errno.ENOSPC, errno.EDQUOT) else f"check {where}"
    return MachineError(
        f"records cannot be written ({error.strerror}): {remedy} and {then}; "
        "nothing that was written is lost"
    )
