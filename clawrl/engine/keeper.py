"""Brings a crashed engine back, with the weights that it served.

Requests in flight at the crash fail (the gateway reports them); new ones wait at the gate until the
engine is back.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

from clawrl.engine.client import VllmEngine
from clawrl.engine.server import EngineServer
from clawrl.errors import EngineError
from clawrl.serving.policy import ServedPolicy

log = logging.getLogger(__name__)


class EngineKeeper:
    """Watches one server for as long as `run` runs."""

    def __init__(
        self,
        server: EngineServer,
        client: VllmEngine,
        *,
        max_restarts: int,
        current: Callable[[], tuple[Path, int]],
        served: ServedPolicy,
    ) -> None:
        """Nothing is watched yet.

        Args:
            server: a started server.
            client: the one that everybody uses; it must learn that its adapters are gone.
            max_restarts: how often it is started again before the run fails.
            current: folder and number of the version that is to be served.
            served: the gate at which requests wait.
        """
        self.restarts = 0
        self._server = server
        self._client = client
        self._max_restarts = max_restarts
        self._current = current
        self._served = served

    async def run(self) -> None:
        """Return when the server is stopped on purpose.

        Raises:
            EngineError: it crashed once more than `max_restarts`.
        """
        while True:
            code = await self._server.child.wait()
            if self._server.stopping:
                return
            async with self._served.closed():
                await self._bring_back(code)

    async def _bring_back(self, code: int) -> None:
        problem: EngineError | None = None
        while self.restarts < self._max_restarts:
            self.restarts += 1
            log.warning(
                "engine ended exit=%s restart=%s/%s", code, self.restarts, self._max_restarts
            )
            try:
                await self._server.start(lambda line: log.info("%s", line))
                self._client.forget_adapters()
                path, version = self._current()
                await self._client.update_weights(path, version)
            except EngineError as error:
                problem = error
                log.warning("engine did not come back: %s", error)
                await self._server.stop()
            else:
                return
        raise problem or EngineError(
            f"the engine ended with exit code {code} after {self.restarts} restarts "
            f"(engine.max_restarts); see {self._server.log}"
        )
