"""One sandbox: a persistent shell behind bubblewrap, driven from an event loop.

Whatever a command does, `run` returns within its time limit and a few seconds, the next command
finds a shell, and leaving the context leaves nothing running.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import time
from collections.abc import Generator
from types import TracebackType

from clawrl.environments.sandbox import files
from clawrl.environments.sandbox.output import Capture
from clawrl.environments.sandbox.process import Pipe, SandboxError, SandboxProcess
from clawrl.environments.sandbox.shell import command_line, prelude
from clawrl.environments.sandbox.spec import CommandResult, SandboxSpec

CHUNK = 65536
START_S = 30.0
"""For a shell to be there: copying the fresh directories included."""
SETTLE_S = 0.5
"""After its descendants were killed, a shell that is well prints its token within this time."""
RESTART_S = 10.0
WRITE_S = 30.0
MAX_COMMAND_BYTES = 2**18


class Sandbox:
    """`async with Sandbox(spec) as box: await box.run("ls", timeout_s=10)`."""

    def __init__(self, spec: SandboxSpec) -> None:
        """Nothing runs before the context is entered."""
        self.spec = spec
        self.name = secrets.token_hex(6)
        self._process = SandboxProcess(spec, self.name)
        self._turn = asyncio.Lock()
        self._changed = asyncio.Event()
        self._ended: int | None = None
        self._dead = False
        self._shell_pid = 0
        self._directory = spec.workdir
        self._root_fd = -1
        self.start_s = 0.0
        """How long the start took."""

    async def __aenter__(self) -> Sandbox:
        """Start it. The thread must outlive it: see `clawrl.environments.sandbox.process`."""
        began = time.monotonic()
        try:
            await self._process.start()
            asyncio.get_running_loop().add_reader(self._process.report.ours, self._reported)
            await self._begin_shell(START_S)
            self._root_fd = os.open(self._process.root, os.O_PATH | os.O_DIRECTORY)
            self.start_s = time.monotonic() - began
        except BaseException:
            await self.aclose()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Kill all that is left."""
        await self.aclose()

    async def aclose(self) -> None:
        """Kill all that is left; may be called more than once."""
        loop = asyncio.get_running_loop()
        for pipe in (self._process.stdin, *self._streams, self._process.report):
            if pipe.ours >= 0:
                loop.remove_reader(pipe.ours)
                loop.remove_writer(pipe.ours)
        if self._root_fd >= 0:
            os.close(self._root_fd)
            self._root_fd = -1
        await self._process.stop()

    @property
    def alive(self) -> bool:
        """True until it is closed or lost."""
        return self._process.alive

    @property
    def host_uid(self) -> int | None:
        """The user that it runs as on this machine; None: the one who runs clawrl."""
        return self._process.host_uid

    async def run(self, command: str, timeout_s: float) -> CommandResult:
        """Run a command in the shell, after the commands before it.

        Args:
            command: any text that bash reads, of several lines too.
            timeout_s: after this time it and all that it started are killed.

        Raises:
            SandboxError: the sandbox is gone. Nothing that a command does raises.
            ValueError: the command holds a NUL or is longer than 256 KiB.
        """
        if "\0" in command or len(command.encode(errors="surrogateescape")) > MAX_COMMAND_BYTES:
            raise ValueError("a command holds no NUL and at most 256 KiB")
        async with self._turn:
            self._require_alive()
            return await self._run(command, timeout_s)

    async def new_shell(self) -> None:
        """Kill everything but the sandbox, and start a shell with nothing of the old one's."""
        async with self._turn:
            self._require_alive()
            self._directory = self.spec.workdir
            self._process.kill(self._shell_pid)
            await self._replace_shell()

    async def read(self, path: str, limit: int = 2**20) -> bytes:
        """The first `limit` bytes of a file; no link in its path is followed.

        Raises:
            SandboxError: there is no such regular file.
        """
        return await asyncio.to_thread(
            files.read_file, self._root_fd, path, uid=self._process.host_uid, limit=limit
        )

    async def write(self, path: str, data: bytes, mode: int = 0o644) -> None:
        """Make or replace a file; no link in its path is followed.

        Raises:
            SandboxError: it cannot be written.
        """
        await asyncio.to_thread(
            files.write_file, self._root_fd, path, data, uid=self._process.host_uid, mode=mode
        )

    def process_count(self) -> int:
        """Processes that run inside now, the shell and process 1 among them."""
        return max(0, len(self._process.processes()) - 1)

    def _require_alive(self) -> None:
        if not self.alive:
            raise SandboxError(f"sandbox {self.name} is closed")

    async def _run(self, command: str, timeout_s: float) -> CommandResult:
        token = secrets.token_hex(12)
        out, err = self._capture(token), self._capture(token)
        started = time.monotonic()
        ended_by_us = False
        with self._reading(out, err):
            await self._write(command_line(command, token))
            try:
                async with asyncio.timeout(timeout_s):
                    await self._finished(out, err)
            except TimeoutError:
                ended_by_us = True
            flooded = self._flooded(out, err)
            if ended_by_us or flooded:
                self._process.kill_descendants(self._shell_pid)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(SETTLE_S):
                        await self._finished(out, err, any_size=True)
                if out.trailer is None and self._ended is None:
                    self._process.kill(self._shell_pid)
        seconds = time.monotonic() - started
        lost = out.trailer is None or err.trailer is None
        code = self._ended
        if lost:
            await self._replace_shell()
        elif out.trailer is not None:
            code = self._read_trailer(out.trailer)
        return CommandResult(
            stdout=out.text(),
            stderr=err.text(),
            exit_code=None if ended_by_us or flooded else code,
            timed_out=ended_by_us and not flooded,
            seconds=seconds,
            flooded=flooded,
            shell_ended=lost,
        )

    async def _begin_shell(self, timeout_s: float) -> None:
        """Send the prelude and wait until the shell answers."""
        self._ended = None
        token = secrets.token_hex(12)
        out, err = self._capture(token), self._capture(token)
        try:
            with self._reading(out, err):
                async with asyncio.timeout(timeout_s):
                    await self._write(prelude(self._directory, self.spec.workdir))
                    await self._write(command_line(":", token))
                    await self._finished(out, err, any_size=True)
        except TimeoutError:
            raise SandboxError(f"sandbox {self.name}: no shell in {timeout_s:.0f} s") from None
        if out.trailer is None:
            what = err.text().strip()[-500:] or f"it ended with {self._ended}"
            raise SandboxError(f"sandbox {self.name}: no shell: {what}")
        self._read_trailer(out.trailer)

    async def _replace_shell(self) -> None:
        """Wait for the keeper's word that the old shell has ended; begin with the next one."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(RESTART_S):
                while self._ended is None and not self._dead:
                    self._changed.clear()
                    await self._changed.wait()
        if self._ended is None:
            await self.aclose()
            raise SandboxError(f"sandbox {self.name} has died")
        await self._begin_shell(RESTART_S)

    def _read_trailer(self, trailer: bytes) -> int | None:
        code, pid, directory = trailer.decode(errors="surrogateescape").split(" ", 2)
        self._shell_pid, self._directory = int(pid), directory
        return int(code)

    def _capture(self, token: str) -> Capture:
        spec = self.spec
        return Capture(token.encode(), head_bytes=spec.head_bytes, tail_bytes=spec.tail_bytes)

    def _flooded(self, out: Capture, err: Capture) -> bool:
        return out.total + err.total > self.spec.flood_bytes

    async def _finished(self, out: Capture, err: Capture, *, any_size: bool = False) -> None:
        """Returns at both tokens, at the shell's end, or when there is too much output."""
        while out.trailer is None or err.trailer is None:
            over = self._dead or self._ended is not None
            if over or (self._flooded(out, err) and not any_size):
                return
            self._changed.clear()
            await self._changed.wait()

    @property
    def _streams(self) -> tuple[Pipe, Pipe]:
        return self._process.stdout, self._process.stderr

    @contextlib.contextmanager
    def _reading(self, out: Capture, err: Capture) -> Generator[None]:
        """Between commands nobody reads: what runs in the background waits on a full pipe."""
        loop = asyncio.get_running_loop()
        pairs = list(zip(self._streams, (out, err), strict=True))
        for pipe, capture in pairs:
            loop.add_reader(pipe.ours, self._readable, pipe.ours, capture)
        try:
            yield
        finally:
            for pipe, capture in pairs:
                if pipe.ours >= 0:  # else the sandbox was closed meanwhile
                    loop.remove_reader(pipe.ours)
                    self._readable(pipe.ours, capture)

    def _readable(self, fd: int, capture: Capture) -> None:
        with contextlib.suppress(BlockingIOError):
            data = os.read(fd, CHUNK)
            capture.feed(data)
            if not data:
                asyncio.get_running_loop().remove_reader(fd)
        self._changed.set()

    def _reported(self) -> None:
        """The keeper's line: the exit code of a shell that has ended. Its end: all is dead."""
        with contextlib.suppress(BlockingIOError, ValueError, IndexError):
            data = os.read(self._process.report.ours, 64)
            if not data:
                self._dead = True
                asyncio.get_running_loop().remove_reader(self._process.report.ours)
            self._ended = int(data.split()[-1]) if data else self._ended
        self._changed.set()

    async def _write(self, text: str) -> None:
        """All of it, though a pipe holds 64 KiB: half a line would spoil the next."""
        try:
            async with asyncio.timeout(WRITE_S):
                await self._write_all(memoryview(text.encode(errors="surrogateescape")))
        except (BrokenPipeError, TimeoutError):
            await self.aclose()
            raise SandboxError(f"sandbox {self.name} reads no commands any more") from None

    async def _write_all(self, data: memoryview) -> None:
        loop = asyncio.get_running_loop()
        fd = self._process.stdin.ours
        while data:
            try:
                data = data[os.write(fd, data) :]
            except BlockingIOError:
                ready = asyncio.Event()
                loop.add_writer(fd, ready.set)
                try:
                    await ready.wait()
                finally:
                    loop.remove_writer(fd)
