"""HTTP to one engine: time limits, event streams, and failures as our errors."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from typing import Any

import httpx

from clawrl.engine.wire import error_from, events
from clawrl.errors import EngineError

CONNECT_TIMEOUT_S = 10.0


class Transport:
    """JSON in, JSON out. Raises RequestError for a 4xx and EngineError for all other failures."""

    def __init__(self, base_url: str, *, request_timeout_s: float) -> None:
        self._request_timeout_s = request_timeout_s
        self._http = httpx.AsyncClient(
            base_url=base_url,
            timeout=httpx.Timeout(None, connect=CONNECT_TIMEOUT_S),
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=64),
            trust_env=False,  # a proxy for the outside is no way to 127.0.0.1
        )

    async def close(self) -> None:
        """Close all connections."""
        await self._http.aclose()

    async def healthy(self) -> bool:
        """True when the server says so."""
        try:
            return (await self._http.get("/health", timeout=CONNECT_TIMEOUT_S)).is_success
        except httpx.HTTPError:
            return False

    async def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """A request of a user: the limit holds from its start to its answer."""
        try:
            async with asyncio.timeout(self._request_timeout_s):
                return await self._call("POST", path, json=body, timeout=None)
        except TimeoutError:
            raise self._too_slow() from None

    async def control(
        self,
        method: str,
        path: str,
        body: dict[str, Any] | None = None,
        *,
        limit_s: float,
        params: dict[str, str] | None = None,
    ) -> dict[str, Any]:
        """A request about the engine itself.

        Each goes on a connection of its own: after an error inside a route the server closes the
        connection behind its answer, and the next call, the resume, would be lost in it.
        """
        headers = {"connection": "close"}
        return await self._call(
            method, path, json=body, params=params, timeout=limit_s, headers=headers
        )

    async def chunks(self, path: str, body: dict[str, Any]) -> AsyncGenerator[dict[str, Any]]:
        """An event stream's chunks as they come. Closing it early aborts the request."""
        deadline = asyncio.get_running_loop().time() + self._request_timeout_s
        async with (
            self._stream(path, body, deadline) as response,
            aclosing(events(response)) as stream,
        ):
            while (chunk := await self._next(stream, deadline)) is not None:
                yield chunk

    async def _call(self, method: str, path: str, **request: Any) -> dict[str, Any]:
        try:
            response = await self._http.request(method, path, **request)
        except httpx.HTTPError as error:
            raise _no_answer(path, error) from None
        if not response.is_success:
            raise error_from(path, response.status_code, response.content)
        if "json" not in response.headers.get("content-type", ""):
            return {}
        answer = response.json()
        return answer if isinstance(answer, dict) else {}

    @asynccontextmanager
    async def _stream(
        self, path: str, body: dict[str, Any], deadline: float
    ) -> AsyncGenerator[httpx.Response]:
        request = self._http.build_request("POST", path, json=body)
        try:
            async with asyncio.timeout_at(deadline):
                response = await self._http.send(request, stream=True)
        except httpx.HTTPError as error:
            raise _no_answer(path, error) from None
        except TimeoutError:
            raise self._too_slow() from None
        try:
            if not response.is_success:
                raise error_from(path, response.status_code, await response.aread())
            yield response
        finally:
            await response.aclose()

    async def _next(
        self, stream: AsyncGenerator[dict[str, Any]], deadline: float
    ) -> dict[str, Any] | None:
        """The next chunk, or None after the last."""
        try:
            async with asyncio.timeout_at(deadline):
                return await anext(stream, None)
        except TimeoutError:
            raise self._too_slow() from None
        except httpx.HTTPError as error:
            raise _no_answer("the stream", error) from None

    def _too_slow(self) -> EngineError:
        limit = f"{self._request_timeout_s:g} s (engine.request_timeout_s)"
        return EngineError(f"the engine took more than {limit}")


def _no_answer(what: str, error: httpx.HTTPError) -> EngineError:
    said = f"{type(error).__name__} {error}".strip()
    return EngineError(f"the engine gave no answer to {what}: {said}")
