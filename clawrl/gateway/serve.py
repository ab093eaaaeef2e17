"""Runs the gateway in the supervisor's own event loop."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Generator
from contextlib import contextmanager
from types import TracebackType

import uvicorn
from starlette.types import ASGIApp

from clawrl.errors import MachineError

_SHUTDOWN_S = 5
_KEEP_ALIVE_S = 75
"""Longer than clients keep idle connections, so that none sends into one that is being closed."""
_BACKLOG = 2048


class _Server(uvicorn.Server):
    """Uvicorn without its signal handlers: the supervisor decides what Ctrl-C means."""

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        yield


class GatewayServer:
    """An application listening on a port, from entering the context until leaving it."""

    def __init__(self, app: ASGIApp, host: str, port: int) -> None:
        """Nothing is opened yet; `port` 0 means any free one."""
        self._host = host
        self._port = port
        self._socket: socket.socket | None = None
        self._serving: asyncio.Task[None] | None = None
        config = uvicorn.Config(
            app,
            lifespan="off",
            ws="none",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            backlog=_BACKLOG,
            timeout_keep_alive=_KEEP_ALIVE_S,
            timeout_graceful_shutdown=_SHUTDOWN_S,
        )
        self._server = _Server(config)

    @property
    def base_url(self) -> str:
        """Where this machine reaches it, without `/v1`."""
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self._host, self._host)
        return f"http://[{host}]:{self._port}" if ":" in host else f"http://{host}:{self._port}"

    async def __aenter__(self) -> GatewayServer:
        """Start to listen.

        Raises:
            MachineError: the port is in use, or the host is none of this machine's.
        """
        self._socket = await asyncio.to_thread(_listen, self._host, self._port)
        self._port = self._socket.getsockname()[1]
        self._serving = asyncio.create_task(self._server.serve(sockets=[self._socket]))
        while not self._server.started:
            if self._serving.done():
                self._serving.result()
                raise MachineError(f"gateway: the server on {self.base_url} ended at once")
            await asyncio.sleep(0.01)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Take no more requests; those in flight get a few seconds to end."""
        self._server.should_exit = True
        if self._serving is not None:
            await self._serving
        if self._socket is not None:
            self._socket.close()


def require_free(host: str, port: int) -> None:
    """Raise MachineError now if `GatewayServer` could not listen there."""
    _listen(host, port).close()


def _listen(host: str, port: int) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
    except OSError as error:
        raise MachineError(f"gateway.host: cannot listen on '{host}': {error}") from None
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(_BACKLOG)  # a port in use may show only here
    except OSError as error:
        listener.close()
        raise MachineError(
            f"gateway.port: cannot listen on {host}:{port} ({error.strerror}); choose another with "
            "gateway.port=N, or 0 for any free one"
        ) from None
    listener.setblocking(False)
    return listener
