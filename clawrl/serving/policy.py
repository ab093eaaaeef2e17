"""Which weights the engine serves now, and the gate that holds requests while they change.

The gateway stamps each reply with it; whoever publishes weights moves it. Both live in one event
loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager


class ServedPolicy:
    """The version and digest in service. New requests wait in `wait_ready` during a change."""

    def __init__(self, version: int, digest: str) -> None:
        self.version = version
        self.digest = digest
        self._open = asyncio.Event()
        self._open.set()
        self._changes = asyncio.Lock()
        self._announced = 0

    @property
    def changing(self) -> bool:
        """True while requests wait."""
        return not self._open.is_set()

    async def wait_ready(self) -> None:
        """Return when the engine takes requests."""
        await self._open.wait()

    @asynccontextmanager
    async def closed(self) -> AsyncGenerator[None]:
        """Hold new requests; one change at a time.

        Opens again however the change ends, unless another one waits: between an update that failed
        because the engine died, and the restart, no request may slip through.
        """
        self._announced += 1
        self._open.clear()
        try:
            async with self._changes:
                yield
        finally:
            self._announced -= 1
            if self._announced == 0:
                self._open.set()

    def moved_to(self, version: int, digest: str) -> None:
        """The engine serves `version` from now on."""
        self.version, self.digest = version, digest
