"""A program in a terminal of its own, and somebody who reads it and types."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import re
import struct
import termios
from pathlib import Path

_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07]*\x07|[@-Z\\-_])")
_SIZE = struct.pack("HHHH", 50, 500, 0, 0)  # so wide that no question is broken over two lines


class Terminal:
    """Started by `start`, ended by `close`."""

    def __init__(self) -> None:
        self._read = ""
        self._more = asyncio.Event()
        self._ended = False

    async def start(self, *command: str | Path, cwd: Path, env: dict[str, str]) -> None:
        """Run a program in it."""
        self._master, slave = os.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, _SIZE)
        self._process = await asyncio.create_subprocess_exec(
            *command, cwd=cwd, env=env, stdin=slave, stdout=slave, stderr=slave
        )
        os.close(slave)
        asyncio.get_running_loop().add_reader(self._master, self._take)

    def _take(self) -> None:
        try:
            raw = os.read(self._master, 65536)
        except OSError:  # the program has ended
            raw = b""
        if not raw:
            asyncio.get_running_loop().remove_reader(self._master)
        self._ended = not raw
        self._read += raw.decode(errors="replace")
        self._more.set()

    async def until(self, *questions: str, limit_s: float) -> tuple[str, str]:
        """Read up to one of some questions: which one, and what was said before it.

        Raises:
            AssertionError: the program ended, or said none of them in time.
        """
        pattern = re.compile("|".join(re.escape(question) for question in questions))
        try:
            async with asyncio.timeout(limit_s):
                while True:
                    text = _ESCAPES.sub("", self._read)
                    if match := pattern.search(text):
                        self._read = text[match.end() :]
                        return match.group(), text[: match.start()]
                    assert not self._ended, f"the program ended:\n{text[-4000:]}"
                    self._more.clear()
                    await self._more.wait()
        except TimeoutError:
            raise AssertionError(f"none of {questions} in {limit_s} s:\n{text[-4000:]}") from None

    async def type(self, line: str) -> None:
        """Type a line and press Enter."""
        await asyncio.sleep(0.3)  # the prompt is drawn before the keys are read
        os.write(self._master, f"{line}\r".encode())

    async def close(self) -> None:
        """Wait a while for the program to end, then end it."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(15):
                await self._process.wait()
        if self._process.returncode is None:
            self._process.kill()
            await self._process.wait()
        asyncio.get_running_loop().remove_reader(self._master)
        os.close(self._master)
