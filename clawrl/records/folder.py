"""A run is a folder, and the queue between two stages is a stream of files in it that you can read.

runs/NAME/
  config.yaml                   the resolved configuration
  interactions/v000000.jsonl    one file per policy version, named by the version that was served
  feedback/ verdicts/ samples/  when the line was *written*; a `closed` line ends a file
  episodes/                     attempts at environments' tasks, where there are any
  updates.jsonl                 the ledger
  weights/v000001/              safetensors and meta.json
  checkpoints/  metrics.jsonl  report.md  *.png  logs/*.log
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from pydantic import TypeAdapter

from clawrl.errors import RecordError, UserError
from clawrl.records.jsonl import JsonlFile, Position, Reader, read
from clawrl.records.nouns import (
    Closed,
    Episode,
    Feedback,
    Interaction,
    LedgerLine,
    Line,
    Remainder,
    Retired,
    Sample,
    Update,
    Verdict,
)

R = TypeVar("R", bound=Line)
_CLOSED_LINE = b'{"schema_version":1,"closed":true'
_FILE = re.compile(r"v(\d{6,})\.jsonl")
LEDGER_LINES: TypeAdapter[LedgerLine] = TypeAdapter(LedgerLine)


class Stream(Generic[R]):
    """One kind of record of a run: a folder of files, one per policy version."""

    def __init__(self, folder: Path, noun: type[R]) -> None:
        self.folder = folder
        self.noun = noun

    def path(self, version: int) -> Path:
        """The file of a version."""
        return self.folder / f"v{version:06d}.jsonl"

    def files(self) -> list[Path]:
        """The files that exist, oldest version first."""
        found = [path for path in self.folder.glob("v*.jsonl") if _FILE.fullmatch(path.name)]
        return sorted(found, key=lambda path: int(path.stem[1:]))

    def read(self) -> Iterator[R]:
        """Every whole record, oldest first. Raises RecordError for a bad line."""
        for path in self.files():
            yield from read(path, self.noun)

    def follow(self, at: Position | None = None) -> StreamReader[R]:
        """A reader that starts at `at` (default: the beginning) and can be polled for ever."""
        return StreamReader(self, at)

    def writer(self, version: int) -> StreamWriter[R]:
        """The stream's one writer, beginning in the file of `version`."""
        return StreamWriter(self, version)


class StreamReader(Generic[R]):
    """Follows a stream from file to file. `position` is where it stands, to go on from later."""

    def __init__(self, stream: Stream[R], at: Position | None) -> None:
        self._stream = stream
        self._reader: Reader[R] | None = self._reader_at(at or Position())

    @property
    def position(self) -> Position:
        """Where the next record will be read."""
        return self._reader.position if self._reader else Position()

    def poll(self) -> list[R]:
        """The records written since the last call, over as many files as there are.

        Raises:
            RecordError: as `Reader.poll`. The position stays where it was, so that the records
                before the bad line are not lost.
        """
        records: list[R] = []
        start = self.position
        try:
            while True:
                following = self._next_file()
                if self._reader is not None:
                    records.extend(self._reader.poll())
                if following is None:
                    return records
                self._reader = Reader(following, self._stream.noun)
        except RecordError:
            self._reader = self._reader_at(start)
            raise

    def _reader_at(self, at: Position) -> Reader[R] | None:
        if not at.file:
            return None
        return Reader(self._stream.folder / at.file, self._stream.noun, at=at)

    def _next_file(self) -> Path | None:
        files = self._stream.files()
        if self._reader is None:
            return files[0] if files else None
        here = int(self._reader.path.stem[1:])
        return next((path for path in files if int(path.stem[1:]) > here), None)


class StreamWriter(Generic[R]):
    """Appends to the file of the version that is served now.

    It never goes back to an older file: a restart may take versions back, but readers have gone on
    to the newest file by then and would not see a line added to one before it.
    """

    def __init__(self, stream: Stream[R], version: int) -> None:
        self._stream = stream
        newest = [int(path.stem[1:]) for path in stream.files()[-1:]]
        self._version = max([version, *newest])
        self._records = 0
        self._file: JsonlFile | None = None

    def append(self, record: R) -> None:
        """Write one record. Raises OSError when it cannot be written."""
        self._opened().append(record)
        self._records += 1

    def roll(self, version: int) -> None:
        """End the file of the last version; what follows goes into the file of `version`.

        Raises OSError when the file's last line cannot be written; then nothing has changed.
        """
        if version <= self._version:
            return
        if self._stream.path(self._version).exists():
            file = self._opened()
            file.append(Closed(records=self._records))
            file.close()
        self._version, self._file = version, None

    def close(self) -> None:
        """Close the file without ending it: a resumed run may go on in it."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _opened(self) -> JsonlFile:
        if self._file is None:
            path = self._stream.path(self._version)
            self._file = JsonlFile(path)
            self._records = _count_records(path)
        return self._file


def _count_records(path: Path) -> int:
    """The lines that hold a record: what an earlier process wrote into the file counts too."""
    with path.open("rb") as file:
        return sum(not line.startswith(_CLOSED_LINE) for line in file)


def surviving(lines: Iterable[LedgerLine]) -> list[Update]:
    """The updates that no restart took back, in order of version."""
    updates: dict[int, Update] = {}
    for line in lines:
        if isinstance(line, Update):
            updates[line.version] = line
        elif isinstance(line, Retired):
            updates.pop(line.version, None)
    return [updates[version] for version in sorted(updates)]


@dataclass(frozen=True)
class RunFolder:
    """The paths and streams of one run."""

    root: Path

    @classmethod
    def open(cls, root: Path) -> RunFolder:
        """An existing run. Raises UserError when `root` is none."""
        if not (root / "config.yaml").is_file():
            raise UserError(f"{root}: not a run folder (it has no config.yaml)")
        return cls(root.resolve())

    @property
    def interactions(self) -> Stream[Interaction]:
        """Every reply served, main and side."""
        return Stream(self.root / "interactions", Interaction)

    @property
    def feedback(self) -> Stream[Feedback]:
        """The next state of each main turn."""
        return Stream(self.root / "feedback", Feedback)

    @property
    def verdicts(self) -> Stream[Verdict]:
        """Votes, score and hint of each next state."""
        return Stream(self.root / "verdicts", Verdict)

    @property
    def samples(self) -> Stream[Sample]:
        """What the learner reads, accepted or rejected."""
        return Stream(self.root / "samples", Sample)

    @property
    def episodes(self) -> Stream[Episode]:
        """Attempts at environments' tasks, with their outcomes."""
        return Stream(self.root / "episodes", Episode)

    @property
    def ledger(self) -> Path:
        """Which samples made which weights."""
        return self.root / "updates.jsonl"

    @property
    def config(self) -> Path:
        """The resolved configuration."""
        return self.root / "config.yaml"

    @property
    def metrics(self) -> Path:
        """One line of numbers per event."""
        return self.root / "metrics.jsonl"

    @property
    def weights(self) -> Path:
        """Numbered versions."""
        return self.root / "weights"

    @property
    def checkpoints(self) -> Path:
        """What a resumed learner starts from."""
        return self.root / "checkpoints"

    @property
    def activity(self) -> Path:
        """Touched at each request of a live user; empty."""
        return self.root / "activity"

    @property
    def logs(self) -> Path:
        """One file per process."""
        return self.root / "logs"

    def surviving_updates(self) -> list[Update]:
        """The ledger without what a restart took back, in order of version."""
        return surviving(self.ledger_lines())

    def ledger_lines(self) -> list[LedgerLine]:
        """Every line of the ledger, as written."""
        return list(read(self.ledger, LEDGER_LINES)) if self.ledger.exists() else []

    def remainder(self) -> list[str]:
        """The accepted samples that the run ended without using, if it has ended."""
        ends = [line for line in self.ledger_lines() if isinstance(line, Remainder)]
        return ends[-1].sample_ids if ends else []
