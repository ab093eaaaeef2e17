"""What a sandbox is built from, and what a command in it comes back with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

HOME = "/home/agent"
"""The home of the sandbox's only user."""


def _nothing() -> Mapping[str, Path]:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True)
class SandboxSpec:
    """The limits and the file system of one sandbox. Its network is always off."""

    workdir: str = HOME
    """Where commands start: the home, or a directory that is made for them."""
    read_only: Mapping[str, Path] = field(default_factory=_nothing)
    """Path inside, and the host's file or directory that is shown there, read-only."""
    fresh: Mapping[str, Path] = field(default_factory=_nothing)
    """Path inside, and the host's directory that is copied there: writable, and new each time."""
    writable: tuple[str, ...] = ()
    """Paths inside of further directories that are made, empty, and can be written."""
    hidden: tuple[Path, ...] = ()
    """Directories of the host that must not be seen, even below one that is shown."""
    variables: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """Environment variables beside PATH, HOME, USER, LANG and TERM."""
    processes: int = 64
    """At one time, threads included."""
    memory_mib: int = 512
    """Of one process, and, where a memory cgroup can be made, of all and their files together."""
    disk_mib: int = 64
    """For each of the directories that can be written. They are kept in memory."""
    file_mib: int = 64
    """Of the largest file."""
    open_files: int = 256
    """Of one process."""
    cpu_s: int = 120
    """Of one process."""
    head_bytes: int = 8192
    """Of each output stream of a command, kept from its start."""
    tail_bytes: int = 8192
    """Kept from its end; what lies between is left out, and the text says how much."""
    flood_bytes: int = 16 * 2**20
    """A command that has written more is ended."""

    @property
    def scratch(self) -> tuple[str, ...]:
        """The directories that can be written, each with its own limit of `disk_mib`."""
        return tuple(dict.fromkeys((HOME, "/tmp", self.workdir, *self.writable, *self.fresh)))


@dataclass(frozen=True, slots=True)
class CommandResult:
    """What a command came back with."""

    stdout: str
    stderr: str
    exit_code: int | None
    """None: it was ended before it had one."""
    timed_out: bool
    seconds: float
    flooded: bool = False
    """True: it was ended because it wrote too much."""
    shell_ended: bool = False
    """True: it ended the shell. A new one runs, without its variables and background processes."""
