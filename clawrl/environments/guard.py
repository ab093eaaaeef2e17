"""What should never run, not even in the sandbox: destruction of the system, fork bombs, shutdown.

The sandbox is the wall; the guard is the sign in front of it. A policy that learns in a cage where
`rm -rf /` is harmless would do it elsewhere, so it is told, as a next state, that this was refused
and why. Commands hidden from a reader (encoded, built from variables) get past; the wall holds.
"""

from __future__ import annotations

import itertools
import posixpath
import re
from collections.abc import Sequence

from clawrl.environments.shell_words import Simple, parts_of

_DEPTH = 4
"""Of `bash -c` inside `bash -c`."""
_WRAPPERS = frozenset(
    ("sudo", "doas", "env", "nohup", "time", "exec", "command", "builtin", "xargs", "nice",
     "ionice", "timeout", "setsid", "stdbuf", "chroot", "su", "busybox", "strace")
)  # fmt: skip
_SHELLS = frozenset(("bash", "sh", "dash", "zsh", "ash", "ksh"))
_POWER = frozenset(("shutdown", "reboot", "halt", "poweroff", "telinit", "kexec"))
_DISKS = frozenset(
    ("fdisk", "sfdisk", "cfdisk", "gdisk", "sgdisk", "parted", "wipefs", "blkdiscard", "mkswap",
     "cryptsetup", "hdparm")
)  # fmt: skip
_MODULES = frozenset(("insmod", "rmmod", "modprobe", "sysctl"))
_FETCHERS = frozenset(("curl", "wget", "nc", "ncat"))
_SYSTEM = frozenset(
    ("/", "/bin", "/boot", "/dev", "/etc", "/home", "/lib", "/lib64", "/opt", "/proc", "/root",
     "/run", "/sbin", "/srv", "/sys", "/usr", "/var", "~", "$HOME", "${HOME}")
)  # fmt: skip
_HARMLESS_DEVICES = frozenset(
    ("/dev/null", "/dev/stdout", "/dev/stderr", "/dev/stdin", "/dev/tty", "/dev/zero", "/dev/full")
)
_BOMB = re.compile(
    r"(?P<name>[\w:.]+)\s*\(\s*\)\s*\{[^}]*?(?P=name)\s*\|\s*(?P=name)[^}]*&"
    r"|\bfork\s+while\s+(?:fork|1|true)\b"
    r"|\bwhile\s+(?:True|1)\s*:\s*(?:os\.)?fork\(\)"
)
"""Where the grammar cannot tell, and inside other languages' one-liners."""


def refusal(command: str) -> str | None:
    """Why `command` must not run; None: it may."""
    if _BOMB.search(command):
        return "it is a fork bomb"
    return _refusal(command, _DEPTH)


def _refusal(command: str, depth: int) -> str | None:
    found = parts_of(command)
    if any(function.multiplies for function in found.functions):
        return "it is a fork bomb"
    for simple in found.commands:
        reason = _of_simple(simple, depth)
        if reason:
            return reason
    return None


def _of_simple(simple: Simple, depth: int) -> str | None:
    for path in simple.written:
        if _is_raw_device(path):
            return f"it writes over {path}"
    words = _unwrapped(simple.words)
    if not words:
        return None
    program, arguments = posixpath.basename(words[0]), words[1:]
    if program in _FETCHERS and posixpath.basename(simple.feeds) in _SHELLS:
        return "it runs a script straight from the network"
    script = _script(program, arguments)
    if script and depth:
        return _refusal(script, depth - 1)
    return _of_program(program, arguments)


def _of_program(program: str, arguments: Sequence[str]) -> str | None:
    systemctl = program == "systemctl" and _POWER & set(arguments)
    if program in _POWER or systemctl or (program == "init" and {"0", "6"} & set(arguments)):
        return "it shuts the machine down"
    if program in _DISKS or program.startswith("mkfs"):
        return "it changes disks or file systems"
    if program in _MODULES and (program != "sysctl" or "-w" in arguments):
        return "it changes the kernel"
    if program == "dd":
        targets = [a.removeprefix("of=") for a in arguments if a.startswith("of=")]
        return next((f"it writes over {path}" for path in targets if _is_raw_device(path)), None)
    if program in ("kill", "pkill", "skill") and "-1" in arguments[1:]:
        return "it kills every process"
    if program == "tee":
        return next((f"it writes over {p}" for p in arguments if _is_raw_device(p)), None)
    return _of_files(program, arguments)


def _of_files(program: str, arguments: Sequence[str]) -> str | None:
    targets = [path for path in arguments if _is_system(path)]
    if program == "rm" and _has(arguments, "rR", "--recursive") and targets:
        return f"it deletes {targets[0]}"
    if program == "rm" and "--no-preserve-root" in arguments:
        return "it deletes /"
    if program in ("chmod", "chown", "chgrp") and _has(arguments, "R", "--recursive") and targets:
        return f"it changes everything below {targets[0]}"
    if program == "mv" and targets and _is_system(arguments[0]):
        return f"it moves {targets[0]} away"
    if program == "find" and targets and _is_system(arguments[0]) and _find_deletes(arguments):
        return f"it deletes below {targets[0]}"
    if program == "shred":
        return next((f"it writes over {p}" for p in arguments if _is_raw_device(p)), None)
    return None


def _find_deletes(arguments: Sequence[str]) -> bool:
    """Whether a search deletes everything: without a name or a type to choose by."""
    chosen = any(a in ("-name", "-iname", "-path", "-regex", "-mtime", "-size") for a in arguments)
    return not chosen and ("-delete" in arguments or "rm" in arguments)


def _script(program: str, arguments: Sequence[str]) -> str | None:
    """The shell text that a program is given to run."""
    if program == "eval":
        return " ".join(arguments)
    if program in _SHELLS:
        for option, text in itertools.pairwise(arguments):
            if option.startswith("-") and not option.startswith("--") and option.endswith("c"):
                return text
    return None


def _unwrapped(words: Sequence[str]) -> Sequence[str]:
    """The command inside `sudo`, `env A=1`, `timeout 5`, `xargs -n1`."""
    while words and ("=" in words[0] or posixpath.basename(words[0]) in _WRAPPERS):
        words = words[1:]
        while words and (words[0].startswith("-") or re.fullmatch(r"[\d.]+[smhd]?", words[0])):
            words = words[1:]
    return words


def _has(arguments: Sequence[str], letters: str, long: str) -> bool:
    return any(
        a == long or (a.startswith("-") and not a.startswith("--") and set(a) & set(letters))
        for a in arguments
    )


def _is_system(path: str) -> bool:
    bare = path.removesuffix("*") if path.endswith("/*") else path
    bare = bare.rstrip("/") or ("/" if bare else "")
    if not bare.startswith("/"):
        return bare in _SYSTEM
    return posixpath.normpath(bare).replace("//", "/") in _SYSTEM


def _is_raw_device(path: str) -> bool:
    if path.startswith("/proc/sysrq-trigger") or path.startswith("/sys/"):
        return True
    if not path.startswith("/dev/") or path in _HARMLESS_DEVICES:
        return False
    return not path.startswith(("/dev/fd/", "/dev/shm/", "/dev/pts/", "/dev/tcp/", "/dev/udp/"))
