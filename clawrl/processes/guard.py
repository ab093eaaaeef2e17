"""Runs one command and takes everything that the command started down with it.

`python -m clawrl.processes.guard FD COMMAND...` is what `Child` starts. FD is one end of a socket
pair; the supervisor holds the other. The guard keeps this invariant: when the supervisor is gone
(the kernel closes its end, even after SIGKILL), or the command has ended, no process that descends
from the command is left, and only then the guard ends itself.

How: the guard is a *subreaper*, so that whatever loses its parent becomes its child, in whichever
session it hides (torchrun's ranks, vLLM's workers). It kills children until the kernel says that
there are none. The command itself has PDEATHSIG set, for the case that the guard is killed.

It imports nothing heavy: one guard runs beside each child for the whole run.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import select
import signal
import socket
import sys
import time

import psutil

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
CANNOT_RUN = 127
"""Exit code when the command cannot be executed, as a shell has it."""


def main(arguments: list[str]) -> int:
    """Guard `COMMAND...`; returns its exit code, or dies by the signal that ended it."""
    supervisor = socket.socket(fileno=int(arguments[0]))
    supervisor.set_inheritable(False)
    _prctl(PR_SET_CHILD_SUBREAPER, 1)
    wakeup = _signals_as_bytes()
    command = _start(arguments[1:])
    with contextlib.suppress(OSError):  # the supervisor may be gone already; the loop will see
        supervisor.sendall(f"{command}\n".encode())
    status = _watch(command, supervisor, wakeup)
    leftover = _kill_descendants(command)
    return _end_as(status if status is not None else leftover)


def _signals_as_bytes() -> socket.socket:
    """SIGCHLD and SIGTERM become bytes on a socket, so that one `select` waits for everything."""
    receive, send = socket.socketpair()
    send.setblocking(False)
    signal.set_wakeup_fd(send.detach())
    for number in (signal.SIGCHLD, signal.SIGTERM):
        signal.signal(number, lambda _number, _frame: None)
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # only the supervisor decides
    return receive


def _start(command: list[str]) -> int:
    """Fork and execute; returns the pid. No threads here, so a plain fork is safe."""
    guard = os.getpid()
    pid = os.fork()
    if pid:
        return pid
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGCHLD, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    try:
        if os.getppid() == guard:  # else the guard died before PDEATHSIG was set
            os.setpgid(0, 0)
            os.execvp(command[0], command)
    except OSError as error:
        print(f"clawrl.processes.guard: cannot run {command[0]}: {error.strerror}", file=sys.stderr)
    finally:
        sys.stderr.flush()
        os._exit(CANNOT_RUN)


def _watch(command: int, supervisor: socket.socket, wakeup: socket.socket) -> int | None:
    """Wait for the command's end (returns its wait status) or the supervisor's (returns None)."""
    while True:
        ready, _, _ = select.select([supervisor, wakeup], [], [])
        if wakeup in ready and signal.SIGTERM in wakeup.recv(4096):
            # Only to the command: it knows in which order its own children are to stop.
            with contextlib.suppress(ProcessLookupError):
                os.kill(command, signal.SIGTERM)
        status = _reap(command)
        if status is not None:
            return status
        if supervisor in ready and not _still_there(supervisor):
            return None


def _still_there(supervisor: socket.socket) -> bool:
    try:
        return bool(supervisor.recv(64))
    except ConnectionError:
        return False


def _reap(command: int) -> int | None:
    """Collect every ended child; the command's wait status if it is among them."""
    found = None
    with contextlib.suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                break
            if pid == command:
                found = status
    return found


def _kill_descendants(command: int) -> int:
    """SIGKILL until no child is left; returns the command's wait status if it was among them."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(command, signal.SIGKILL)
    found = signal.SIGKILL.value
    while True:
        for process in psutil.Process().children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return found
        if pid == command:
            found = status
        if pid == 0:
            time.sleep(0.01)


def _end_as(status: int) -> int:
    """The exit code of a wait status; ends this process by the signal if it names one."""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # the command's core is enough
        if number != signal.SIGKILL:
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    return os.waitstatus_to_exitcode(status)


def _prctl(option: int, value: int) -> None:
    """Linux only; elsewhere the process group is all that is taken down."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
