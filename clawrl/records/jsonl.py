"""Append to, read and follow files of one JSON record a line.

One writer per file. A record is one `write` of one line, so that a reader sees it whole or not at
all; a line that a crash tore is cut off when the file is opened again, and a bad line in the middle
is an error that names file and line, for then something other than a crash has happened.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Generic, TypeVar

from pydantic import TypeAdapter, ValidationError

from clawrl.errors import RecordError
from clawrl.records.nouns import SCHEMA_VERSION, Closed, Line

R = TypeVar("R", bound=Line)


class JsonlFile:
    """The one writer of one file. Opening it cuts off a torn last line."""

    def __init__(self, path: Path, *, durable: bool = False) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path
        self._durable = durable
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        self._size = _cut_torn_tail(self._fd)

    def append(self, record: Line) -> None:
        """Write one line. On failure (a full disk) the file is as it was before.

        Raises:
            OSError: the line could not be written whole.
        """
        line = record.model_dump_json().encode() + b"\n"
        try:
            written = os.write(self._fd, line)
            while written < len(line):
                written += os.write(self._fd, line[written:])
            if self._durable:
                os.fsync(self._fd)
        except OSError:
            os.ftruncate(self._fd, self._size)
            raise
        self._size += len(line)

    def close(self) -> None:
        """Close the file; it may be opened again."""
        os.close(self._fd)

    def __enter__(self) -> JsonlFile:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _cut_torn_tail(fd: int) -> int:
    """Truncate after the last newline; returns the size in bytes."""
    size = os.fstat(fd).st_size
    end, block = size, 1 << 16
    while end > 0:
        start = max(0, end - block)
        newline = os.pread(fd, end - start, start).rfind(b"\n")
        if newline >= 0:
            end = start + newline + 1
            break
        end = start
    if end != size:
        os.ftruncate(fd, end)
    return end


@dataclass(slots=True)
class Position:
    """Where a reader stands: the file's name, the byte offset and the line number in it."""

    file: str = ""
    offset: int = 0
    line: int = 0


class Reader(Generic[R]):
    """Reads one file, whole lines only; call `poll` again to follow it as it grows."""

    def __init__(
        self, path: Path, noun: type[R] | TypeAdapter[R], *, at: Position | None = None
    ) -> None:
        self.path = path
        self.position = replace(at) if at else Position(file=path.name)
        """Where the next record will be read; replaced, never changed, so it may be kept."""
        self.closed = False
        """True once the file's `closed` line was read."""
        self._adapter: TypeAdapter[R] = noun if isinstance(noun, TypeAdapter) else TypeAdapter(noun)

    def poll(self) -> list[R]:
        """The records that were added since the last call.

        Raises:
            RecordError: a whole line is not a record of this kind. The position stays where it was,
                so that the next call meets the same line.
        """
        try:
            with self.path.open("rb") as file:
                file.seek(self.position.offset)
                data = file.read()
        except FileNotFoundError:
            return []
        at = replace(self.position)
        records: list[R] = []
        for raw in data[: data.rfind(b"\n") + 1].split(b"\n")[:-1]:
            at.line += 1
            record = self._parse(raw, at.line)
            if record is not None:
                records.append(record)
            at.offset += len(raw) + 1
        self.position = at
        return records

    def _parse(self, raw: bytes, line: int) -> R | None:
        try:
            if raw.startswith(b"{") and b'"closed"' in raw:
                fields = json.loads(raw)
                if fields.get("closed") is True:
                    Closed.model_validate(fields)
                    self.closed = True
                    return None
            return self._adapter.validate_json(raw)
        except (ValidationError, ValueError) as error:
            raise RecordError(self.path, line, _why(raw, error)) from None


def _why(raw: bytes, error: ValueError) -> str:
    try:
        fields = json.loads(raw)
    except ValueError:
        return "not JSON; remove the line or restore the file from a copy"
    if isinstance(fields, dict) and fields.get("schema_version") not in (None, SCHEMA_VERSION):
        return f"schema_version {fields['schema_version']}, this clawrl reads {SCHEMA_VERSION}"
    if isinstance(error, ValidationError):
        first = error.errors()[0]
        return f"{'.'.join(str(part) for part in first['loc'])}: {first['msg']}"
    return str(error)


def read(path: Path, noun: type[R] | TypeAdapter[R]) -> Iterator[R]:
    """All whole records of a file, from its start. Raises RecordError as `Reader.poll`."""
    yield from Reader(path, noun).poll()
