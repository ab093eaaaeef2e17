"""The process tree of one sandbox, as this side sees it: started, reached by pipes, killed.

bwrap dies with the *thread* that started it (PR_SET_PDEATHSIG), so `start` must be called in the
event loop's own thread, never in one of a pool that closes.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
from pathlib import Path

import psutil

from clawrl.environments.sandbox import bwrap
from clawrl.environments.sandbox.cgroups import Cgroup, usable
from clawrl.environments.sandbox.shell import keeper_script
from clawrl.environments.sandbox.spec import SandboxSpec
from clawrl.errors import ClawRLError, MachineError

START_TIMEOUT_S = 60.0
DEATH_TIMEOUT_S = 30.0


class SandboxError(ClawRLError):
    """A sandbox is gone or does not answer: its episode is lost, and nothing else."""


class Pipe:
    """One pipe of which this side keeps an end, without blocking, and the child the other."""

    def __init__(self, *, child_reads: bool) -> None:
        reading, writing = os.pipe()
        self.ours, self.theirs = (writing, reading) if child_reads else (reading, writing)
        os.set_blocking(self.ours, False)

    def started(self) -> None:
        """The child has its end: close it here."""
        self._close("theirs")

    def close(self) -> None:
        """Close both ends, as far as they are open."""
        self._close("theirs")
        self._close("ours")

    def _close(self, name: str) -> None:
        fd: int = getattr(self, name)
        if fd >= 0:
            os.close(fd)
            setattr(self, name, -1)


class SandboxProcess:
    """bwrap, process 1 inside, and their pipes."""

    def __init__(self, spec: SandboxSpec, name: str) -> None:
        """Nothing runs before `start`."""
        self._spec = spec
        self._name = name
        self._bwrap: subprocess.Popen[bytes] | None = None
        self._cgroup: Cgroup | None = None
        self._keeper: psutil.Process | None = None
        self._resources = bwrap.Resources()
        self.host_uid = bwrap.host_uid()
        self.stdin = Pipe(child_reads=True)
        self.stdout = Pipe(child_reads=False)
        self.stderr = Pipe(child_reads=False)
        self.report = Pipe(child_reads=False)
        """The keeper writes a shell's exit code here when it ends."""

    async def start(self) -> None:
        """Returns when process 1 runs under its limits.

        Raises:
            MachineError: bwrap cannot make the sandbox; the message holds its reason.
        """
        info, gate = Pipe(child_reads=False), Pipe(child_reads=True)
        try:
            self._spawn(info, gate)
            async with asyncio.timeout(START_TIMEOUT_S):
                pid = json.loads(await _read_to_end(info.ours) or "{}").get("child-pid")
            if pid is None:
                raise MachineError(f"the sandbox does not start: {await self._complaint()}")
            self._keeper = psutil.Process(pid)
            self._limit(pid)
            os.write(gate.ours, b"1")
        except TimeoutError:
            raise MachineError(f"bwrap did not start in {START_TIMEOUT_S:.0f} s") from None
        except (psutil.NoSuchProcess, ProcessLookupError, BrokenPipeError):
            raise MachineError(f"the sandbox ended: {await self._complaint()}") from None
        finally:
            info.close()
            gate.close()

    def _spawn(self, info: Pipe, gate: Pipe) -> None:
        files = self._resources
        pipes = (self.stdin, self.stdout, self.stderr, self.report, info, gate)
        try:
            words = [
                *bwrap.arguments(self._spec, files),
                *("--info-fd", str(info.theirs), "--block-fd", str(gate.theirs)),
            ]
            arguments = files.data(b"".join(word.encode() + b"\0" for word in words))
            script = keeper_script(self._spec, self.report.theirs)
            self._bwrap = subprocess.Popen(
                [bwrap.binary(), "--args", arguments, "--", "bash", "-c", script],
                stdin=self.stdin.theirs,
                stdout=self.stdout.theirs,
                stderr=self.stderr.theirs,
                pass_fds=(*files.fds, self.report.theirs, info.theirs, gate.theirs),
                env={"PATH": bwrap.VARIABLES["PATH"]},  # bwrap's own is seen by nobody inside
                cwd="/",
                user=self.host_uid,
                group=self.host_uid,
                extra_groups=None if self.host_uid is None else [],
                start_new_session=True,
            )
        finally:
            files.close_fds()
            for pipe in pipes:
                pipe.started()

    def _limit(self, pid: int) -> None:
        parents = usable()
        if parents.version == "none":
            return
        self._cgroup = Cgroup(
            self._name,
            parents,
            memory_bytes=self._spec.memory_mib * 2**20,
            processes=self._spec.processes + 8,  # the rlimit speaks first: bash then says why
        )
        self._cgroup.add(pid)

    async def _complaint(self) -> str:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(5):
                text = await _read_to_end(self.stderr.ours)
                return " ".join(text.decode(errors="replace").split()) or "bwrap said nothing"
        return "bwrap said nothing"

    @property
    def alive(self) -> bool:
        """True while process 1 is there."""
        return self._keeper is not None and self._keeper.is_running() and self._running()

    def _running(self) -> bool:
        return self._bwrap is not None and self._bwrap.poll() is None

    @property
    def root(self) -> Path:
        """The sandbox's `/`, as a path of this side. To be opened, never walked by name."""
        if self._keeper is None:
            raise SandboxError("the sandbox was not started")
        return Path(f"/proc/{self._keeper.pid}/root")

    def kill_descendants(self, pid: int) -> None:
        """SIGKILL to all that the process with this number *inside* has started."""
        found = self._inside(pid)
        for _ in range(5):  # what forks while we look is found in the next round
            try:
                children = found.children(recursive=True) if found else []
            except psutil.NoSuchProcess:
                return
            for child in children:
                with contextlib.suppress(psutil.NoSuchProcess):
                    child.kill()
            if not children:
                return

    def kill(self, pid: int) -> None:
        """SIGKILL to the process with this number inside; nothing if there is none."""
        found = self._inside(pid)
        if found is not None:
            with contextlib.suppress(psutil.NoSuchProcess):
                found.kill()

    def _inside(self, pid: int) -> psutil.Process | None:
        """The keeper's child that has this number in the sandbox's own numbering."""
        if self._keeper is None or pid == 1:
            return None
        with contextlib.suppress(psutil.NoSuchProcess):
            for child in self._keeper.children():
                if _number_inside(child.pid) == pid:
                    return child
        return None

    def processes(self) -> list[psutil.Process]:
        """All of the sandbox, bwrap and process 1 among them."""
        if self._bwrap is None:
            return []
        try:
            outer = psutil.Process(self._bwrap.pid)
            return [outer, *outer.children(recursive=True)]
        except psutil.NoSuchProcess:
            return []

    async def _kill_half_started(self, half: subprocess.Popen[bytes]) -> None:
        """Its child may not have asked yet to die with it; once stopped, it makes no other."""
        half.send_signal(signal.SIGSTOP)
        with contextlib.suppress(psutil.NoSuchProcess):  # it has ended and was waited for
            outer = psutil.Process(half.pid)
            while outer.status() not in (  # noqa: ASYNC110 - a state of a process is no event
                psutil.STATUS_STOPPED,
                psutil.STATUS_ZOMBIE,
            ):
                await asyncio.sleep(0.001)
        for process in reversed(self.processes()):
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()

    async def stop(self) -> None:
        """Kill everything and wait until nothing of it is left.

        Raises:
            SandboxError: something survives SIGKILL (a hung file system, for instance).
        """
        try:
            if self._keeper is not None:
                with contextlib.suppress(psutil.NoSuchProcess):
                    self._keeper.kill()  # bwrap ends when the last process of the namespace has
            elif self._bwrap is not None:
                await self._kill_half_started(self._bwrap)
            if self._bwrap is not None:
                await asyncio.to_thread(self._bwrap.wait, DEATH_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            raise SandboxError(f"sandbox {self._name} does not die") from None
        finally:
            for pipe in (self.stdin, self.stdout, self.stderr, self.report):
                pipe.close()
            self._resources.remove_copies()
            if self._cgroup is not None:
                self._cgroup.remove()


def _number_inside(pid: int) -> int | None:
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("NSpid:"):
                return int(line.split()[-1])
    return None


async def _read_to_end(fd: int) -> bytes:
    """All that comes until the other side closes; bwrap writes a few hundred bytes at most."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[None] = loop.create_future()
    found = bytearray()

    def readable() -> None:
        data = os.read(fd, 65536)
        found.extend(data)
        if not data and not done.done():
            done.set_result(None)

    loop.add_reader(fd, readable)
    try:
        await done
    finally:
        loop.remove_reader(fd)
    return bytes(found)
