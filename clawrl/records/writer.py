"""Writes records without ever making a request wait for the disk.

One thread owns all four streams of a run and takes records from a bounded queue. Whoever serves a
turn hands its record over and goes on; a full queue or a full disk is counted and reported, never
raised into the serving path. Records and file changes happen in the order in which they were asked
for, so a file holds exactly what was written while its version was served.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any

from clawrl.records.folder import RunFolder, StreamWriter
from clawrl.records.nouns import Episode, Feedback, Interaction, Sample, Verdict

log = logging.getLogger(__name__)

Written = Interaction | Feedback | Verdict | Sample | Episode


@dataclass(frozen=True, slots=True)
class _Job:
    """One thing for the thread to do; a `record` counts against the queue's bound."""

    work: Callable[[], None]
    done: Future[None]
    record: bool


class RecordWriter:
    """The one writer of a run's interactions, feedback, verdicts, samples and episodes."""

    def __init__(self, folder: RunFolder, *, version: int, queue_records: int) -> None:
        """Start the thread.

        Args:
            folder: the run.
            version: the policy version that is served now; names the first files.
            queue_records: how many records may wait for the disk; more are dropped and counted.
        """
        self.failure: OSError | None = None
        """The first error of the disk. From then on nothing is written."""
        self.dropped = 0
        """Records that were not written: the queue was full, or the disk failed."""
        self._streams: dict[type[Written], StreamWriter[Any]] = {
            Interaction: folder.interactions.writer(version),
            Feedback: folder.feedback.writer(version),
            Verdict: folder.verdicts.writer(version),
            Sample: folder.samples.writer(version),
            Episode: folder.episodes.writer(version),
        }
        self._bound = queue_records
        self._waiting = 0
        self._closed = False
        self._lock = threading.Lock()  # guards _waiting, dropped, _closed and the order of jobs
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="record-writer", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """Records handed over and not yet written."""
        return self._waiting

    def put(self, record: Written) -> Future[None]:
        """Hand over a record; never blocks.

        Returns:
            A future that ends when the line is in its file, or fails with the OSError that kept it
            out; cancelling it before its turn takes the record back.
        """
        stream = self._streams[type(record)]
        return self._submit(lambda: stream.append(record), record=True)

    async def written(
        self, record: Written, timeout_s: float, *, late: Written | None = None
    ) -> bool:
        """Hand over a record and wait until it is in its file.

        Args:
            record: what to write.
            timeout_s: how long to wait, in seconds.
            late: written in place of `record` when that was still queued at the end of the wait.

        Returns:
            True if `record` was written in time.
        """
        future = self.put(record)
        waited = asyncio.wrap_future(future)
        waited.add_done_callback(_look_at)
        await asyncio.wait([waited], timeout=timeout_s)
        if not future.cancel() and future.done():
            return future.exception() is None
        if future.cancelled() and late is not None:
            self.put(late)
        return False

    def roll(self, version: int) -> Future[None]:
        """Records put after this go into the files of `version`, in all streams."""

        def work() -> None:
            for stream in self._streams.values():
                stream.roll(version)

        return self._submit(work, record=False)

    def close(self) -> None:
        """Write what waits, then close the files. Blocks; a second call does nothing."""
        with self._lock:
            if not self._closed:
                self._closed = True
                self._jobs.put(None)
        self._thread.join()

    def _submit(self, work: Callable[[], None], *, record: bool) -> Future[None]:
        done: Future[None] = Future()
        with self._lock:
            refusal = self._refusal(record)
            if refusal is None:
                self._waiting += record
                self._jobs.put(_Job(work, done, record))
                return done
            self.dropped += record
        done.set_exception(refusal)
        return done

    def _refusal(self, record: bool) -> Exception | None:
        if self._closed:
            return RuntimeError("the record writer is closed")
        if self.failure is not None:
            return self.failure
        if record and self._waiting >= self._bound:
            return BufferError(f"{self._bound} records wait for the disk already")
        return None

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            self._do(job)
        for stream in self._streams.values():
            stream.close()

    def _do(self, job: _Job) -> None:
        problem: Exception | None = None
        if job.done.set_running_or_notify_cancel():
            problem = self.failure or self._attempt(job.work)
            with self._lock:
                self._waiting -= job.record
                self.dropped += job.record and problem is not None
            if problem is None:
                job.done.set_result(None)
            else:
                job.done.set_exception(problem)
        else:
            with self._lock:
                self._waiting -= job.record

    def _attempt(self, work: Callable[[], None]) -> Exception | None:
        try:
            work()
        except OSError as error:
            log.error("records can no longer be written: %s", error)
            self.failure = error
            return error
        except (ValueError, TypeError, RecursionError) as error:  # it has no form as JSON
            log.error("a record was not written: %s", error)
            return error
        return None


def _look_at(future: asyncio.Future[None]) -> None:
    """Read the outcome, so that asyncio does not report it as never retrieved."""
    if not future.cancelled():
        future.exception()
