"""Stands between a client and the gateway, passes every byte on, and writes down what was sent."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import httpx
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from clawrl.gateway.serve import GatewayServer
from clawrl.records.folder import RunFolder

_HOP = {"host", "content-length", "connection", "transfer-encoding", "accept-encoding"}
_SECRET = {"authorization", "x-api-key"}


@dataclass
class Row:
    """One request, in the form of the captures beside the workplace."""

    client: str
    scenario: str
    t: float
    path: str
    headers: dict[str, str]
    body: dict[str, Any]
    expect: dict[str, Any]
    response_message: dict[str, Any] = field(default_factory=dict)
    interaction_id: str = ""
    status: int = 0


class Recorder:
    """A server of its own; `base_url` is what the client is given."""

    def __init__(self, upstream: str) -> None:
        self.rows: list[Row] = []
        self.client = ""
        self.conversation = ""
        """Which conversation the requests belong to that come now."""
        self.errand: Callable[[dict[str, Any]], str | None] = lambda body: None
        """The client's own housekeeping, by what the request says; None: the agent's work."""
        self._http = httpx.AsyncClient(base_url=upstream, timeout=900)
        route = Route("/{path:path}", self._pass_on, methods=["GET", "POST"])
        self._server = GatewayServer(Starlette(routes=[route]), "127.0.0.1", 0)

    @property
    def base_url(self) -> str:
        return f"{self._server.base_url}/v1"

    async def __aenter__(self) -> Recorder:
        await self._server.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> None:
        await self._server.__aexit__(None, None, None)
        await self._http.aclose()

    async def _pass_on(self, request: Request) -> Response:
        raw = await request.body()
        headers = {name: value for name, value in request.headers.items() if name not in _HOP}
        row = self._row(request, headers, raw) if request.method == "POST" else None
        asked = self._http.build_request(
            request.method, request.url.path, content=raw, headers=headers
        )
        answer = await self._http.send(asked, stream=True)
        if row is not None:
            row.status = answer.status_code
            row.interaction_id = answer.headers.get("x-clawrl-interaction-id", "")
        shown = {name: value for name, value in answer.headers.items() if name not in _HOP}
        return StreamingResponse(_body(answer), status_code=answer.status_code, headers=shown)

    def _row(self, request: Request, headers: dict[str, str], raw: bytes) -> Row:
        body = json.loads(raw)
        kind = self.errand(body)
        row = Row(
            client=self.client,
            scenario=self.conversation,
            t=time.time(),
            path=request.url.path,
            headers={name: value for name, value in headers.items() if name not in _SECRET},
            body=body,
            expect={
                "session": self.conversation,
                "turn": "side" if kind else "main",
                "kind": kind or "user",
            },
        )
        self.rows.append(row)
        return row

    def save(self, folder: Path, run: RunFolder) -> None:
        """Write the rows with the replies that the gateway recorded, one file for the client."""
        replies = {turn.interaction_id: turn.reply for turn in run.interactions.read()}
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / f"{self.client}.jsonl").open("w") as file:
            for row in self.rows:
                row.response_message = replies.get(row.interaction_id, {})
                file.write(json.dumps(asdict(row)) + "\n")


async def _body(answer: httpx.Response) -> AsyncIterator[bytes]:
    try:
        async for chunk in answer.aiter_raw():
            yield chunk
    finally:
        await answer.aclose()
