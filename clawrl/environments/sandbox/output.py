"""Reading one output stream of a command: head and tail are kept, the end is a random token."""

from __future__ import annotations

NUL_SHOWN = "\u2400"
"""Stands for a NUL byte: many programs downstream cut a text there."""


class Capture:
    """The bytes of one stream from a command's start to the token that the shell prints after it.

    The shell writes TOKEN REST TOKEN, and what stands before the first token is the command's.
    """

    def __init__(self, token: bytes, *, head_bytes: int, tail_bytes: int) -> None:
        """Of the command's bytes, the first `head_bytes` and the last `tail_bytes` are kept."""
        self._token = token
        self._head_bytes = head_bytes
        self._tail_bytes = tail_bytes
        self._head = bytearray()
        self._tail = bytearray()
        self._pending = bytearray()
        self._rest: bytearray | None = None
        self.total = 0
        """Bytes that the command wrote."""
        self.trailer: bytes | None = None
        """What stood between the two tokens; None: they have not come yet."""

    def feed(self, data: bytes) -> None:
        """Take what was read."""
        if self._rest is None:
            self._pending += data
            start = self._pending.find(self._token)
            if start < 0:
                self._keep(max(0, len(self._pending) - len(self._token)))
                return
            self._rest = self._pending[start + len(self._token) :]
            self._keep(start)
        else:
            self._rest += data
        end = self._rest.find(self._token)
        if self.trailer is None and end >= 0:
            self.trailer = bytes(self._rest[:end])

    def text(self) -> str:
        """What the command wrote, as far as it was kept."""
        if self._rest is None:
            self._keep(len(self._pending))
        left_out = self.total - len(self._head) - len(self._tail)
        if not left_out:
            return _decode(self._head + self._tail)
        marker = f"\n[... {left_out} bytes left out ...]\n"
        return _decode(self._head) + marker + _decode(self._tail)

    def _keep(self, size: int) -> None:
        """Move the first `size` pending bytes into head and tail."""
        data = self._pending[:size]
        del self._pending[:size]
        self.total += len(data)
        room = self._head_bytes - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        self._tail += data
        if len(self._tail) > self._tail_bytes:
            del self._tail[: len(self._tail) - self._tail_bytes]


def _decode(data: bytearray) -> str:
    return data.decode("utf-8", errors="replace").replace("\x00", NUL_SHOWN)
