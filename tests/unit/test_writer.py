"""The record writer: in order, bounded, and never in the way of serving."""

from __future__ import annotations

import asyncio
import errno
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from clawrl.records.folder import RunFolder
from clawrl.records.nouns import Closed, Feedback, Interaction, Sample, Sampling, Verdict, Weights
from clawrl.records.writer import RecordWriter


def feedback(number: int) -> Feedback:
    return Feedback(
        interaction_id=str(number), session_id="s", created=0.0, role="user", content="no bullets"
    )


def interaction(number: int, **fields: object) -> Interaction:
    values: dict[str, object] = {
        "interaction_id": str(number),
        "session_id": "s",
        "turn": 0,
        "turn_type": "main",
        "created": 0.0,
        "messages": [{"role": "user", "content": "2+2?"}],
        "sampling": Sampling(),
        "reply": {"role": "assistant", "content": "4"},
        "weights": Weights(version_first=0, version_last=0, digest="d"),
    }
    return Interaction.model_validate(values | fields)


class HeldUp:
    """Holds the writer's thread, as a slow disk would, in the middle of one record."""

    def __init__(self, writer: RecordWriter) -> None:
        self._gate, self._begun = threading.Event(), threading.Event()
        writer.put(interaction(0, reply={"role": "assistant", "content": self._words()}))
        assert self._begun.wait(10)

    def _words(self) -> Iterator[str]:
        self._begun.set()
        self._gate.wait(10)
        yield "at last"

    def release(self) -> None:
        self._gate.set()


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return RunFolder(tmp_path)


@pytest.fixture
def writer(folder: RunFolder) -> Iterator[RecordWriter]:
    writer = RecordWriter(folder, version=0, queue_records=1000)
    yield writer
    writer.close()


def test_each_kind_of_record_goes_into_its_own_stream(
    writer: RecordWriter, folder: RunFolder
) -> None:
    verdict = Verdict(interaction_id="1", session_id="s", judge="j/1", votes=[], score=None)
    sample = Sample(interaction_id="1", session_id="s", accepted=False, reason="score_0")
    records = [interaction(1), feedback(1), verdict, sample]
    for record in records:
        assert writer.put(record).result(timeout=10) is None
    streams = [folder.interactions, folder.feedback, folder.verdicts, folder.samples]
    assert [next(iter(stream.read())) for stream in streams] == records


def test_records_stay_on_their_side_of_a_roll(writer: RecordWriter, folder: RunFolder) -> None:
    for number in range(100):
        writer.put(feedback(number))
        if number % 10 == 9:
            writer.roll(number // 10 + 1)
    writer.put(interaction(1))
    writer.close()
    assert writer.waiting == 0
    assert [record.interaction_id for record in folder.feedback.read()] == [
        str(number) for number in range(100)
    ]
    for version in range(10):
        lines = folder.feedback.path(version).read_text().splitlines()
        assert len(lines) == 11
        assert Closed.model_validate_json(lines[-1]).records == 10
    assert folder.interactions.path(10).exists()


def test_close_writes_what_waits_and_may_be_called_twice(
    writer: RecordWriter, folder: RunFolder
) -> None:
    futures = [writer.put(feedback(number)) for number in range(500)]
    writer.close()
    writer.close()
    assert all(future.done() and future.exception() is None for future in futures)
    assert len(list(folder.feedback.read())) == 500
    assert isinstance(writer.put(feedback(1)).exception(), RuntimeError)


def test_threads_may_put_at_once_and_every_line_is_whole(
    writer: RecordWriter, folder: RunFolder
) -> None:
    def work(start: int) -> None:
        for number in range(start, start + 50):
            writer.put(feedback(number))

    threads = [threading.Thread(target=work, args=(50 * k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    writer.close()
    assert sorted(int(r.interaction_id) for r in folder.feedback.read()) == list(range(400))


def test_a_full_queue_drops_and_counts_but_never_blocks_or_loses_a_roll(folder: RunFolder) -> None:
    writer = RecordWriter(folder, version=0, queue_records=3)
    disk = HeldUp(writer)
    kept = [writer.put(feedback(number)) for number in (1, 2)]
    refused = writer.put(feedback(3))
    rolled = writer.roll(1)
    assert isinstance(refused.exception(), BufferError)
    assert (writer.waiting, writer.dropped) == (3, 1)
    disk.release()
    assert [future.result(timeout=10) for future in kept] == [None, None]
    assert rolled.result(timeout=10) is None
    writer.close()
    assert len(list(folder.feedback.read())) == 2


async def test_written_is_true_when_the_line_is_in_its_file(
    writer: RecordWriter, folder: RunFolder
) -> None:
    assert await writer.written(interaction(1), 10.0)
    assert [record.interaction_id for record in folder.interactions.read()] == ["1"]


async def test_a_record_that_is_late_is_replaced_and_not_written_twice(folder: RunFolder) -> None:
    writer = RecordWriter(folder, version=0, queue_records=10)
    disk = HeldUp(writer)
    late = interaction(1, untrainable="not_recorded")
    assert not await writer.written(interaction(1), 0.02, late=late)
    disk.release()
    await asyncio.to_thread(writer.close)
    assert list(folder.interactions.read())[1:] == [late]


async def test_a_client_that_leaves_during_the_wait_takes_no_record_back(
    folder: RunFolder,
) -> None:
    writer = RecordWriter(folder, version=0, queue_records=10)
    disk = HeldUp(writer)
    waiting = asyncio.create_task(writer.written(interaction(1), 10.0))
    await asyncio.sleep(0.02)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    disk.release()
    await asyncio.to_thread(writer.close)
    assert [record.interaction_id for record in folder.interactions.read()] == ["0", "1"]


async def test_the_first_failure_of_the_disk_stays_and_later_puts_fail_at_once(
    folder: RunFolder,
) -> None:
    folder.root.joinpath("feedback").write_text("a file where the folder should be")
    writer = RecordWriter(folder, version=0, queue_records=10)
    assert not await writer.written(feedback(1), 10.0)
    assert isinstance(writer.failure, OSError)
    assert writer.failure.errno in (errno.EEXIST, errno.ENOTDIR)
    refused = writer.put(interaction(1))
    assert refused.done()
    assert refused.exception() is writer.failure
    assert writer.dropped == 2
    writer.close()


def test_a_record_that_has_no_form_as_json_is_dropped_and_the_writer_goes_on(
    writer: RecordWriter, folder: RunFolder
) -> None:
    broken = interaction(1, reply={"role": "assistant", "content": object()})
    assert writer.put(broken).exception(timeout=10) is not None
    assert writer.put(interaction(2)).result(timeout=10) is None
    assert writer.failure is None
    assert writer.dropped == 1
    assert [record.interaction_id for record in folder.interactions.read()] == ["2"]
