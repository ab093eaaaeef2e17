"""Child processes that cannot outlive their supervisor.

Every child runs under `clawrl.processes.guard`, which holds one end of a socket pair; this end is
closed when the child is to be killed, or by the kernel when this process dies, however it dies.
A child is started in a session of its own (no terminal signal reaches it), logs to its own file,
and is stopped by pid.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections import deque
from pathlib import Path

from clawrl.errors import MachineError

POLL_S = 0.05
START_TIMEOUT_S = 60.0


def free_port() -> int:
    """A TCP port on 127.0.0.1 that nobody uses now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Child:
    """One guarded command.

    It belongs to no event loop: waiting polls the process every 50 ms, so that one child may be
    started in one loop and stopped in another.
    """

    def __init__(
        self, name: str, command: list[str], *, log: Path, env: dict[str, str] | None = None
    ) -> None:
        """Nothing runs before `start`.

        Args:
            name: for messages, such as `policy engine`.
            command: program and arguments.
            log: where its output is appended, stdout and stderr together.
            env: variables that are set beside this process's own.
        """
        self.name = name
        self.command = command
        self.log = log
        self._env = env or {}
        self._guard: subprocess.Popen[bytes] | None = None
        self._lifeline: socket.socket | None = None
        self._pid: int | None = None

    @property
    def pid(self) -> int:
        """Of the command itself. Raises RuntimeError before `start`."""
        if self._pid is None:
            raise RuntimeError(f"{self.name} was not started")
        return self._pid

    @property
    def guard_pid(self) -> int:
        """Of the guard above the command. Raises RuntimeError before `start`."""
        return self._started().pid

    @property
    def returncode(self) -> int | None:
        """The command's exit code, -N for signal N; None while anything of it still runs."""
        return self._guard.poll() if self._guard is not None else None

    async def start(self) -> None:
        """Start the command; returns when its pid is known.

        A child that has ended may be started again.

        Raises:
            MachineError: the guard does not come up.
        """
        if self._guard is not None and self.returncode is None:
            raise RuntimeError(f"{self.name} runs already")
        self._close_lifeline()
        self.log.parent.mkdir(parents=True, exist_ok=True)
        self._lifeline, theirs = socket.socketpair()
        self._lifeline.setblocking(False)
        with theirs:
            self._guard = self._spawn_guard(theirs.fileno())
        self._pid = await self._command_pid(self._lifeline)

    def _spawn_guard(self, fd: int) -> subprocess.Popen[bytes]:
        with self.log.open("ab") as output:
            return subprocess.Popen(
                [sys.executable, "-m", "clawrl.processes.guard", str(fd), *self.command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={**os.environ, **self._env},
                pass_fds=(fd,),
                start_new_session=True,
            )

    async def _command_pid(self, lifeline: socket.socket) -> int:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(START_TIMEOUT_S):
                line = await loop.sock_recv(lifeline, 64)
            return int(line)
        except (TimeoutError, OSError, ValueError):
            await self.stop(grace_s=0)
            raise MachineError(f"{self.name}: its guard did not start; see {self.log}") from None

    async def wait(self) -> int:
        """The command's exit code (-N for signal N), once nothing of it is left."""
        guard = self._started()
        while guard.poll() is None:  # noqa: ASYNC110 - a process is no event of one loop
            await asyncio.sleep(POLL_S)
        self._close_lifeline()
        return guard.returncode

    async def stop(self, grace_s: float = 10) -> None:
        """SIGTERM to the command; after `grace_s` SIGKILL to it and all that it started.

        Returns when nothing is left. Does nothing if it has ended or was never started.
        """
        if self._guard is None:
            return
        if grace_s > 0:
            with contextlib.suppress(ProcessLookupError):
                self._guard.send_signal(signal.SIGTERM)  # the guard passes it on
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(grace_s):
                    await self.wait()
        self._close_lifeline()
        await self.wait()

    def log_tail(self, lines: int = 20) -> str:
        """The log's last lines; empty if there is no log."""
        try:
            with self.log.open(encoding="utf-8", errors="replace") as log:
                return "".join(deque(log, maxlen=lines)).rstrip()
        except FileNotFoundError:
            return ""

    def _started(self) -> subprocess.Popen[bytes]:
        if self._guard is None:
            raise RuntimeError(f"{self.name} was not started")
        return self._guard

    def _close_lifeline(self) -> None:
        """The guard reads end of file and ends whatever still runs."""
        if self._lifeline is not None:
            self._lifeline.close()
            self._lifeline = None
