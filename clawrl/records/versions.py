"""Numbered weights on the disk: `weights/v000001/` holds safetensors and `meta.json`.

A version appears by one rename, whole and durable, or not at all. Its digest names the bytes of its
tensors, so that two runs can show that they hold the same weights.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import shutil
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from pydantic import ValidationError

from clawrl.errors import WeightsError
from clawrl.records.nouns import Record

META = "meta.json"
_VERSION = re.compile(r"v(\d{6,})")
_BLOCK = 1 << 22
_FULL_BYTES = 1 << 20
"""With less room than this, a failed write is put down to the full disk."""


class VersionMeta(Record):
    """What a version is: `meta.json` beside its tensors."""

    version: int
    parent: int
    digest: str
    kind: Literal["full", "lora"]
    """`lora`: an adapter for the base model, not a model of its own."""
    dtype: str
    created: float
    """Unix seconds."""


def version_folder(weights_root: Path, version: int) -> Path:
    """Where a version is kept."""
    return weights_root / f"v{version:06d}"


def versions(weights_root: Path) -> list[int]:
    """The versions that are on the disk, oldest first."""
    found = (_VERSION.fullmatch(path.name) for path in weights_root.glob("v*"))
    return sorted(int(match[1]) for match in found if match)


def digest_of(folder: Path) -> str:
    """Sha256 (hex) over the bytes of the folder's `*.safetensors`, in order of their names.

    Raises:
        WeightsError: there are none.
    """
    tensors = sorted(folder.glob("*.safetensors"))
    if not tensors:
        raise WeightsError(f"{folder}: no *.safetensors in it")
    sha = hashlib.sha256()
    for path in tensors:
        with path.open("rb") as file:
            while block := file.read(_BLOCK):
                sha.update(block)
    return sha.hexdigest()


def read_meta(folder: Path) -> VersionMeta:
    """The version's meta data. Raises WeightsError when it is missing or not what we wrote."""
    try:
        return VersionMeta.model_validate_json((folder / META).read_bytes())
    except FileNotFoundError:
        raise WeightsError(f"{folder}: no {META}: not a version that clawrl wrote") from None
    except ValidationError as error:
        raise WeightsError(f"{folder / META}: {error.errors()[0]['msg']}") from None


def write_version(
    weights_root: Path,
    *,
    version: int,
    parent: int,
    kind: Literal["full", "lora"],
    dtype: str,
    write: Callable[[Path], None],
) -> VersionMeta:
    """Let `write` fill a folder, then make it version `version` by one rename.

    A folder of the same number, left over from a step that a crash took back, is replaced.

    Raises:
        OSError: the disk is full; nothing appears.
    """
    target = version_folder(weights_root, version)
    with atomic_folder(target) as folder:
        write(folder)
        meta = VersionMeta(
            version=version,
            parent=parent,
            digest=digest_of(folder),
            kind=kind,
            dtype=dtype,
            created=time.time(),
        )
        (folder / META).write_text(meta.model_dump_json(indent=2) + "\n")
    return meta


@contextmanager
def atomic_folder(target: Path) -> Generator[Path]:
    """A new folder that takes the name `target` only when the block ends well.

    Every file in it is synced before the rename and the parent after it; on an error nothing stays.

    Raises:
        OSError: it cannot be written; also where a library reports a full disk in its own words.
    """
    partial = target.with_name(f".{target.name}.partial")
    old = target.with_name(f".{target.name}.old")
    for leftover in (partial, old):
        shutil.rmtree(leftover, ignore_errors=True)
    partial.mkdir(parents=True)
    try:
        yield partial
        for path in (*partial.rglob("*"), partial):
            sync(path)
        if target.exists():
            target.rename(old)  # a folder that is not empty cannot be renamed over
        partial.rename(target)
    except BaseException as error:
        full = shutil.disk_usage(partial).free < _FULL_BYTES
        shutil.rmtree(partial, ignore_errors=True)
        if full and isinstance(error, Exception) and not isinstance(error, OSError):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(target)) from error
        raise
    sync(target.parent)
    shutil.rmtree(old, ignore_errors=True)


def sync(path: Path) -> None:
    """Make a file's or folder's content survive a power cut."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def prune(weights_root: Path, *, keep: int, protect: set[int]) -> list[int]:
    """Delete all but the newest `keep` versions and those in `protect`; returns the deleted."""
    held = versions(weights_root)
    doomed = [version for version in held[: max(0, len(held) - keep)] if version not in protect]
    for version in doomed:
        shutil.rmtree(version_folder(weights_root, version), ignore_errors=True)
    return doomed
