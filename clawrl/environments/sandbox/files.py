"""Reading and writing a sandbox's files from outside, without its shell.

The model may have replaced anything by a symbolic link, a pipe or a directory, so no component of a
path is followed: each is opened below the one before it. As root, the thread takes on the sandbox's
user for the time, so that the kernel checks what the user itself might do.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import stat
from collections.abc import Generator
from pathlib import PurePosixPath

from clawrl.environments.sandbox.process import SandboxError


def read_file(root_fd: int, path: str, *, uid: int | None, limit: int) -> bytes:
    """The first `limit` bytes of a regular file.

    Raises:
        SandboxError: there is none, or a component of the path is a link.
    """
    with _as_user(uid), _below(root_fd, path) as (folder, name):
        fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
        with os.fdopen(fd, "rb") as file:
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                raise SandboxError(f"{path}: not a regular file")
            return file.read(limit)


def write_file(root_fd: int, path: str, data: bytes, *, uid: int | None, mode: int) -> None:
    """Make or replace a file; its directory exists.

    Raises:
        SandboxError: it cannot be written, or a component of the path is a link.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_NONBLOCK
    with (
        _as_user(uid),
        _below(root_fd, path) as (folder, name),
        os.fdopen(os.open(name, flags, mode, dir_fd=folder), "wb") as file,
    ):
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise SandboxError(f"{path}: not a regular file")
        file.write(data)
        os.fchmod(file.fileno(), mode)


@contextlib.contextmanager
def _below(root_fd: int, path: str) -> Generator[tuple[int, str]]:
    """The opened directory of `path` and the last name."""
    *folders, name = PurePosixPath(path).relative_to("/").parts or ("",)
    if not name or ".." in (*folders, name):
        raise SandboxError(f"{path}: not the path of a file")
    fd = os.dup(root_fd)
    try:
        for folder in folders:
            below = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=fd)
            os.close(fd)
            fd = below
        yield fd, name
    except OSError as error:
        raise SandboxError(f"{path}: {error.strerror}") from None
    finally:
        os.close(fd)


@contextlib.contextmanager
def _as_user(uid: int | None) -> Generator[None]:
    """This thread's file accesses are the sandbox's user's; other threads stay who they are."""
    if uid is None:
        yield
        return
    libc = ctypes.CDLL(None)
    libc.setfsgid(uid)
    libc.setfsuid(uid)
    try:
        yield
    finally:
        libc.setfsuid(os.geteuid())
        libc.setfsgid(os.getegid())
