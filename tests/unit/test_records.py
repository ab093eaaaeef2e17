"""Records on disk: torn lines, bad lines, following, and a disk that is full."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from io import FileIO
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawrl.errors import RecordError, UserError
from clawrl.records.folder import RunFolder, Stream
from clawrl.records.jsonl import JsonlFile, Position, Reader, read
from clawrl.records.nouns import Closed, Feedback, Retired, Update


def feedback(number: int, content: str = "too long, please") -> Feedback:
    return Feedback(
        interaction_id=f"chatcmpl-{number}",
        session_id="s",
        created=float(number),
        role="user",
        content=content,
    )


def ids(records: list[Feedback]) -> list[int]:
    return [int(record.interaction_id.removeprefix("chatcmpl-")) for record in records]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "feedback" / "v000000.jsonl"


@pytest.fixture
def stream(tmp_path: Path) -> Stream[Feedback]:
    return RunFolder(tmp_path).feedback


def test_a_torn_last_line_is_cut_off_when_the_file_is_opened_again(path: Path) -> None:
    with JsonlFile(path) as file:
        file.append(feedback(1))
        file.append(feedback(2))
    whole = path.read_bytes()
    path.write_bytes(whole + whole[:40])
    with JsonlFile(path) as file:
        assert path.read_bytes() == whole
        file.append(feedback(3))
    assert ids(list(read(path, Feedback))) == [1, 2, 3]


@pytest.mark.parametrize("tail", [b'{"interaction', b"x" * 200_000])
def test_a_file_that_is_one_torn_line_becomes_empty(path: Path, tail: bytes) -> None:
    path.parent.mkdir()
    path.write_bytes(tail)
    with JsonlFile(path):
        assert path.read_bytes() == b""


def test_a_torn_tail_longer_than_a_block_is_cut_off_whole(path: Path) -> None:
    with JsonlFile(path) as file:
        file.append(feedback(1))
    whole = path.read_bytes()
    path.write_bytes(whole + b"x" * 200_000)
    with JsonlFile(path):
        assert path.read_bytes() == whole


def test_a_reader_leaves_a_half_written_line_for_later(path: Path) -> None:
    with JsonlFile(path) as file:
        file.append(feedback(1))
        file.append(feedback(2))
    whole = path.read_bytes()
    path.write_bytes(whole[:-10])
    reader = Reader(path, Feedback)
    assert ids(reader.poll()) == [1]
    assert reader.poll() == []
    path.write_bytes(whole)
    assert ids(reader.poll()) == [2]


def test_a_file_that_is_not_there_yet_holds_nothing(path: Path) -> None:
    assert Reader(path, Feedback).poll() == []


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("not json", "not JSON"),
        ("", "not JSON"),
        ('{"schema_version": 2}', "schema_version 2, this clawrl reads 1"),
        ('{"role": "user"}', "interaction_id"),
        ('{"closed": true}', "records"),
    ],
)
def test_a_bad_line_in_the_middle_names_file_and_line(path: Path, line: str, problem: str) -> None:
    with JsonlFile(path) as file:
        file.append(feedback(1))
        good = path.read_text()
    path.write_text(good + line + "\n" + good)
    with pytest.raises(RecordError, match=r"v000000\.jsonl:2: ") as caught:
        list(read(path, Feedback))
    assert problem in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_misspelt_key_is_a_bad_line(path: Path) -> None:
    path.parent.mkdir()
    path.write_text(feedback(1).model_dump_json().replace('"content"', '"contnet"') + "\n")
    with pytest.raises(RecordError, match=r"v000000\.jsonl:1: content: Field required"):
        list(read(path, Feedback))


def test_a_bad_line_is_met_again_and_what_stands_before_it_is_not_lost(path: Path) -> None:
    with JsonlFile(path) as file:
        file.append(feedback(1))
    good = path.read_text()
    path.write_text(good + "broken\n" + good)
    reader = Reader(path, Feedback)
    for _ in range(2):
        with pytest.raises(RecordError, match="jsonl:2: "):
            reader.poll()
    path.write_text(good + good.replace("chatcmpl-1", "chatcmpl-2"))
    assert ids(reader.poll()) == [1, 2]


def test_a_bad_line_in_a_later_file_loses_nothing_of_the_earlier_one(
    stream: Stream[Feedback],
) -> None:
    writer = stream.writer(0)
    writer.append(feedback(1))
    writer.roll(1)
    writer.append(feedback(2))
    writer.close()
    good = stream.path(1).read_text()
    stream.path(1).write_text("broken\n")
    reader = stream.follow()
    with pytest.raises(RecordError, match=r"v000001\.jsonl:1: "):
        reader.poll()
    stream.path(1).write_text(good)
    assert ids(reader.poll()) == [1, 2]


def test_a_kept_position_does_not_move_when_its_reader_does(stream: Stream[Feedback]) -> None:
    writer = stream.writer(0)
    writer.append(feedback(1))
    reader = stream.follow()
    reader.poll()
    kept = reader.position
    writer.append(feedback(2))
    assert ids(reader.poll()) == [2]
    again = stream.follow(kept)
    assert ids(again.poll()) == [2]
    assert kept.line == 1
    writer.close()


def test_the_closed_line_ends_a_file_and_counts_its_records(path: Path) -> None:
    with JsonlFile(path) as file:
        file.append(feedback(1))
        reader = Reader(path, Feedback)
        reader.poll()
        assert not reader.closed
        file.append(Closed(records=1))
        assert reader.poll() == []
        assert reader.closed


def test_words_about_closing_do_not_close_a_file(path: Path) -> None:
    with JsonlFile(path) as file:
        file.append(feedback(1, content='{"closed": true}'))
    reader = Reader(path, Feedback)
    assert ids(reader.poll()) == [1]
    assert not reader.closed


def test_following_goes_on_from_file_to_file(stream: Stream[Feedback]) -> None:
    reader = stream.follow()
    assert reader.poll() == []
    assert reader.position == Position()
    writer = stream.writer(0)
    writer.append(feedback(1))
    assert ids(reader.poll()) == [1]
    writer.append(feedback(2))
    writer.roll(3)
    writer.append(feedback(3))
    writer.roll(4)
    writer.append(feedback(4))
    assert ids(reader.poll()) == [2, 3, 4]
    assert reader.position.file == "v000004.jsonl"
    writer.close()
    assert [path.name for path in stream.files()] == [
        "v000000.jsonl",
        "v000003.jsonl",
        "v000004.jsonl",
    ]
    assert ids(list(stream.read())) == [1, 2, 3, 4]


def test_a_version_without_records_has_no_file(stream: Stream[Feedback]) -> None:
    writer = stream.writer(0)
    writer.roll(1)
    writer.roll(2)
    writer.append(feedback(1))
    writer.close()
    assert [path.name for path in stream.files()] == ["v000002.jsonl"]


def test_a_resumed_file_counts_the_records_of_both_lives(stream: Stream[Feedback]) -> None:
    first = stream.writer(0)
    first.append(feedback(1))
    first.append(feedback(2))
    first.close()
    second = stream.writer(0)
    second.append(feedback(3))
    second.roll(1)
    last = stream.path(0).read_text().splitlines()[-1]
    assert Closed.model_validate_json(last).records == 3


def test_a_resumed_file_is_ended_though_nothing_was_added(stream: Stream[Feedback]) -> None:
    first = stream.writer(0)
    first.append(feedback(1))
    first.close()
    stream.writer(0).roll(1)
    last = stream.path(0).read_text().splitlines()[-1]
    assert Closed.model_validate_json(last).records == 1


def test_a_restart_that_takes_versions_back_adds_where_readers_stand(
    stream: Stream[Feedback],
) -> None:
    first = stream.writer(4)
    first.append(feedback(1))
    first.roll(6)
    first.append(feedback(2))
    first.close()
    reader = stream.follow()
    assert ids(reader.poll()) == [1, 2]
    second = stream.writer(4)
    second.append(feedback(3))
    second.roll(5)
    second.append(feedback(4))
    second.roll(7)
    second.append(feedback(5))
    second.close()
    assert ids(reader.poll()) == [3, 4, 5]
    assert ids(list(stream.read())) == [1, 2, 3, 4, 5]


@given(st.floats())
def test_any_float_reads_back_as_itself(value: float) -> None:
    update = Update(
        version=1,
        parent=0,
        sample_ids=[],
        digest_before="a",
        digest_after="b",
        created=0.0,
        metrics={"loss": value},
    )
    again = Update.model_validate_json(update.model_dump_json())
    assert repr(again.metrics["loss"]) == repr(value)


def test_the_surviving_ledger_leaves_out_what_was_retired(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)

    def update(version: int, sample: str) -> Update:
        return Update(
            version=version,
            parent=version - 1,
            sample_ids=[sample],
            digest_before="",
            digest_after="",
            created=0.0,
        )

    with JsonlFile(folder.ledger, durable=True) as ledger:
        ledger.append(update(1, "a"))
        ledger.append(update(2, "b"))
        ledger.append(Retired(version=2, digest="", sample_ids=["b"], created=0.0))
        ledger.append(update(2, "b"))
    assert [(u.version, u.sample_ids) for u in folder.surviving_updates()] == [
        (1, ["a"]),
        (2, ["b"]),
    ]
    assert len(folder.ledger_lines()) == 4
    assert folder.remainder() == []


def test_a_folder_without_a_configuration_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="not a run folder"):
        RunFolder.open(tmp_path)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 32 KiB."""
    if os.geteuid() != 0:
        pytest.skip("mounting a small disk needs root")
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=32k", "tmpfs", str(disk)]
    if subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("this machine lets nobody mount a small disk")
    try:
        yield disk
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def test_a_full_disk_leaves_the_file_as_it_was(small_disk: Path) -> None:
    path = small_disk / "v000000.jsonl"
    with JsonlFile(path) as file:
        file.append(feedback(1))
        before = path.read_bytes()
        with pytest.raises(OSError, match="No space left"):
            file.append(feedback(2, content="x" * 100_000))
        assert path.read_bytes() == before
        file.append(feedback(3))
    assert ids(list(read(path, Feedback))) == [1, 3]


def fill_up(file: FileIO) -> None:
    try:
        while True:
            file.write(b"x" * 4096)
    except OSError:
        return


def test_a_full_disk_keeps_the_writer_in_the_file_it_could_not_end(small_disk: Path) -> None:
    stream = RunFolder(small_disk).feedback
    writer = stream.writer(0)
    writer.append(feedback(1))
    filler = small_disk / "filler"
    with filler.open("wb", buffering=0) as file:
        fill_up(file)
    # The file's own page still has room: leave ten bytes of it, too few for the last line.
    room = 4096 - stream.path(0).stat().st_size - 10
    padding = room - len(feedback(2, content="").model_dump_json()) - 1
    writer.append(feedback(2, content="x" * padding))
    records = list(stream.read())
    with pytest.raises(OSError, match="No space left"):
        writer.roll(1)
    filler.unlink()
    writer.roll(1)
    writer.append(feedback(3))
    writer.close()
    assert list(stream.read()) == [*records, feedback(3)]
