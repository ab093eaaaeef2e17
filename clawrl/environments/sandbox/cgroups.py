"""Memory and process limits for all of a sandbox together, where this machine lets us set them.

cgroup v1, v2 and none are all ordinary: a container often has none that can be written. What
rlimits cap for each process, a cgroup caps for the sum, files in memory included.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

PREFIX = "clawrl-"


@dataclass(frozen=True, slots=True)
class Parents:
    """Where cgroups can be made here; None: that limit cannot be enforced for the sum."""

    version: Literal["v1", "v2", "none"]
    memory: Path | None = None
    pids: Path | None = None


@cache
def usable(
    root: Path = Path("/sys/fs/cgroup"), membership: Path = Path("/proc/self/cgroup")
) -> Parents:
    """What was found by trying: a child is made, and removed again, in each candidate."""
    try:
        own = dict(_memberships(membership.read_text()))
    except OSError:
        return Parents("none")
    if (root / "cgroup.controllers").exists():
        for parent in _candidates(root, own.get("")):
            with contextlib.suppress(OSError):
                (parent / "cgroup.subtree_control").write_text("+memory +pids")
            if _works(parent, "memory.max"):
                _sweep(parent)
                return Parents("v2", parent, parent if _works(parent, "pids.max") else None)
        return Parents("none")
    memory = _first(root / "memory", own.get("memory"), "memory.limit_in_bytes")
    pids = _first(root / "pids", own.get("pids"), "pids.max")
    return Parents("v1" if memory or pids else "none", memory, pids)


class Cgroup:
    """The limits of one sandbox. Must be removed after its last process has ended."""

    def __init__(self, name: str, parents: Parents, *, memory_bytes: int, processes: int) -> None:
        """Make the directories and set the limits.

        Raises:
            OSError: what worked when it was tried does not work now.
        """
        self._paths: list[Path] = []
        names = {"v1": "memory.limit_in_bytes", "v2": "memory.max", "none": ""}
        for parent, file, value in (
            (parents.memory, names[parents.version], memory_bytes),
            (parents.pids, "pids.max", processes),
        ):
            if parent is None:
                continue
            path = parent / f"{PREFIX}{os.getpid()}-{name}"
            path.mkdir(exist_ok=True)
            if path not in self._paths:
                self._paths.append(path)
            (path / file).write_text(str(value))

    def add(self, pid: int) -> None:
        """Limit this process and all that it will start."""
        for path in self._paths:
            (path / "cgroup.procs").write_text(str(pid))

    def remove(self) -> None:
        """Delete the directories; one in which something still dies is left for the next sweep."""
        for path in self._paths:
            with contextlib.suppress(OSError):
                path.rmdir()


def _memberships(text: str) -> list[tuple[str, str]]:
    """(controller, path) of each line `5:cpu,memory:/path`; v2 has the controller ''."""
    rows: list[tuple[str, str]] = []
    for line in text.splitlines():
        _, controllers, path = line.split(":", 2)
        rows += [(controller, path) for controller in controllers.split(",")]
    return rows


def _candidates(root: Path, own: str | None) -> list[Path]:
    """The cgroup of this process first: its own limits then hold for its sandboxes too."""
    inner = [root / own.lstrip("/")] if own and own != "/" else []
    return [path for path in (*inner, root) if path.is_dir()]


def _first(root: Path, own: str | None, file: str) -> Path | None:
    found = next((path for path in _candidates(root, own) if _works(path, file)), None)
    if found is not None:
        _sweep(found)
    return found


def _works(parent: Path, file: str) -> bool:
    trial = parent / f"{PREFIX}{os.getpid()}-trial"
    try:
        trial.mkdir(exist_ok=True)
    except OSError:
        return False
    try:
        (trial / file).write_text(str(2**30 if "memory" in file else 64))
    except OSError:
        return False
    else:
        return True
    finally:
        with contextlib.suppress(OSError):
            trial.rmdir()


def _sweep(parent: Path) -> None:
    """Remove what processes that were killed left behind."""
    for path in parent.glob(f"{PREFIX}*-*"):
        pid = path.name.removeprefix(PREFIX).partition("-")[0]
        if pid.isdecimal() and not Path(f"/proc/{pid}").exists():
            with contextlib.suppress(OSError):
                path.rmdir()
