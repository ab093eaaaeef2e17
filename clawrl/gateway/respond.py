"""Answers a turn over ASGI and stops it when the client leaves.

Written out here, not with Starlette's StreamingResponse, for two reasons: the status is known only
when the engine has taken the request (too long a context is a 400, not a broken stream), and a
client that leaves must end the turn at once and in order, so that what it got is recorded.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from starlette.responses import JSONResponse
from starlette.types import Receive, Scope, Send

from clawrl.errors import EngineError
from clawrl.gateway.errors import from_engine
from clawrl.gateway.turn import Turn
from clawrl.gateway.wire import Wire

_STREAM_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
]


class TurnResponse:
    """An ASGI application that serves one turn, as one JSON body or as a stream of events."""

    def __init__(self, turn: Turn, wire: Wire, *, stream: bool) -> None:
        self._turn = turn
        self._wire = wire
        self._stream = stream

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve it; returns early when the client leaves."""
        serve = (
            self._serve_stream(send) if self._stream else self._serve_whole(scope, receive, send)
        )
        await _while_connected(serve, receive)

    async def _serve_whole(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            answer = self._wire.whole(await self._turn.complete())
            response = JSONResponse(answer, headers=self._turn.headers)
        except EngineError as error:
            response = from_engine(error).response()
        await response(scope, receive, send)

    async def _serve_stream(self, send: Send) -> None:
        events = _Events(send, self._wire, self._turn.headers)
        try:
            await self._turn.stream(events.send)
        except EngineError as error:
            await events.fail(error)
        else:
            await events.end()


class _Events:
    """Server-sent events; the status line goes out with the first of them."""

    def __init__(self, send: Send, wire: Wire, headers: dict[str, str]) -> None:
        self._send = send
        self._wire = wire
        self._headers = [(name.encode(), value.encode()) for name, value in headers.items()]
        self._started = False

    async def send(self, event: dict[str, Any]) -> None:
        await self._write(self._wire.part(event), more=True)

    async def end(self) -> None:
        await self._write(self._wire.end(), more=False)

    async def fail(self, error: EngineError) -> None:
        """An error: as the answer if nothing was sent yet, else as the stream's last event."""
        problem = from_engine(error)
        if self._started:
            await self._write(self._wire.failure(problem), more=False)
            return
        response = problem.response()
        await self._start(problem.status, response.raw_headers)
        await self._write(bytes(response.body), more=False)

    async def _write(self, body: bytes, *, more: bool) -> None:
        if not self._started:
            await self._start(200, [*_STREAM_HEADERS, *self._headers])
        await self._send({"type": "http.response.body", "body": body, "more_body": more})

    async def _start(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        self._started = True
        await self._send({"type": "http.response.start", "status": status, "headers": headers})


async def _while_connected(work: Coroutine[Any, Any, None], receive: Receive) -> None:
    """Run `work`, and cancel it when the client leaves first; either way both have ended after."""
    serving = asyncio.ensure_future(work)
    leaving = asyncio.ensure_future(_client_leaves(receive))
    try:
        await asyncio.wait({serving, leaving}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        ended = serving.done()
        serving.cancel()
        leaving.cancel()
        await asyncio.gather(serving, leaving, return_exceptions=True)
    if ended:
        serving.result()


async def _client_leaves(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
