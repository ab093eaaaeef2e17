"""Who may talk to the gateway. A web page must not be able to teach the model.

A browser sends any page's POST to 127.0.0.1; what tells such a request from a program's is its
Origin, its Host (a page that rebinds its own name to 127.0.0.1 keeps that name there), and that
without asking first it cannot send `application/json`.
"""

from __future__ import annotations

import hmac
import json
from typing import Any
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect, Request

from clawrl.config import schema
from clawrl.gateway.errors import ApiError


class AccessCheck:
    """Checks requests before anything of them is used. Every check raises ApiError."""

    def __init__(self, config: schema.Gateway) -> None:
        keys: list[tuple[str | None, str]] = [*config.keys.items()]
        if config.api_key is not None:
            keys.append((None, config.api_key))
        self._keys = keys
        self._body_limit = int(config.max_body_mib * 2**20)
        self._loopback_only = schema.is_loopback(config.host)

    def check_origin(self, headers: Headers) -> None:
        """The request was sent to this host by its name, and by no page of another one (403)."""
        host = headers.get("host", "")
        if not self._known(_hostname(host)):
            raise ApiError(
                403,
                f"Host '{host}' is not this gateway's; use its address, or set gateway.host and "
                "gateway.api_key to serve under other names",
                code="host_refused",
            )
        origin = headers.get("origin")
        if origin is not None and urlsplit(origin).netloc.lower() != host.lower():
            raise ApiError(403, f"requests from {origin} are refused", code="origin_refused")

    def check_key(self, headers: Headers) -> str | None:
        """The bearer token is a configured key, compared in constant time (401).

        Returns:
            The name of the user whose key it is; None for the key without a name, and where no
            keys are configured.
        """
        if not self._keys:
            return None
        scheme, _, token = headers.get("authorization", "").partition(" ")
        given = token.strip().encode()
        # Every key is compared, so that the time does not tell whose it is.
        names = [name for name, key in self._keys if hmac.compare_digest(given, key.encode())]
        if scheme.lower() != "bearer" or not names:
            raise ApiError(
                401,
                "wrong or missing API key: send `Authorization: Bearer KEY`",
                code="invalid_api_key",
            )
        return names[0]

    def user_of(self, key: str) -> tuple[bool, str | None]:
        """Whether a key lets somebody in, and as whom; for the page, which asks for it itself."""
        try:
            return True, self.check_key(Headers({"authorization": f"Bearer {key}"}))
        except ApiError:
            return False, None

    async def read_json(self, request: Request) -> dict[str, Any]:
        """The body as an object: of type JSON (415), not too large (413), well formed (400)."""
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json":
            raise ApiError(415, f"content type '{kind}' is refused: send application/json")
        raw = bytearray()
        try:
            async for piece in request.stream():
                raw += piece
                if len(raw) > self._body_limit:
                    raise ApiError(
                        413,
                        f"the body is larger than {self._body_limit} bytes (gateway.max_body_mib)",
                    )
        except ClientDisconnect:  # nobody reads the answer
            raise ApiError(400, "the client left before its request was whole") from None
        return _object(bytes(raw))

    def _known(self, name: str) -> bool:
        # A page can rebind its own name to this machine. Where others may come under any name, it
        # does not know the key that they must have.
        return schema.is_loopback(name) or not self._loopback_only


def _object(raw: bytes) -> dict[str, Any]:
    try:
        body = json.loads(raw, parse_constant=_refuse_constant)
        if b"\\ud" in raw.lower():  # half a surrogate pair is no text, and no file can hold it
            json.dumps(body, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise ApiError(400, f"the body is not valid JSON: {error}") from None
    if not isinstance(body, dict):
        raise ApiError(400, "the body must be a JSON object")
    return body


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not JSON")


def _hostname(host: str) -> str:
    try:
        return (urlsplit(f"//{host}").hostname or "").lower()
    except ValueError:
        return ""
