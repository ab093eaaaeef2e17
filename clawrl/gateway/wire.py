"""The forms in which a turn is told to a client: the one API's, or the other's."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from typing import Any

from clawrl.gateway.errors import ApiError
from clawrl.gateway.responses.told import ResponseTeller

Json = dict[str, Any]


class Wire(ABC):
    """Writes one answer."""

    @abstractmethod
    def whole(self, completion: Json) -> Json:
        """The body of an answer that is not streamed."""

    @abstractmethod
    def part(self, chunk: Json) -> bytes:
        """The events of one chunk."""

    @abstractmethod
    def end(self) -> bytes:
        """The last events."""

    @abstractmethod
    def failure(self, error: ApiError) -> bytes:
        """The last event of a stream that broke."""


class ChatWire(Wire):
    """`/v1/chat/completions`: the engine's own form."""

    def whole(self, completion: Json) -> Json:
        """As it is."""
        return completion

    def part(self, chunk: Json) -> bytes:
        """As it is."""
        return f"data: {_text(chunk)}\n\n".encode()

    def end(self) -> bytes:
        """OpenAI's end of a stream."""
        return b"data: [DONE]\n\n"

    def failure(self, error: ApiError) -> bytes:
        """The error in place of a chunk."""
        return f"data: {_text(error.payload())}\n\n".encode()


class ResponsesWire(Wire):
    """`/v1/responses`: events that build up items."""

    def __init__(self, teller: ResponseTeller) -> None:
        self._teller = teller

    def whole(self, completion: Json) -> Json:
        """One response object."""
        return self._teller.whole(completion)

    def part(self, chunk: Json) -> bytes:
        """None, one or several events."""
        return b"".join(map(_event, self._teller.chunk(chunk)))

    def end(self) -> bytes:
        """The open item's end, then the response's."""
        return b"".join(map(_event, self._teller.end()))

    def failure(self, error: ApiError) -> bytes:
        """`response.failed`, with the error."""
        told = {"code": error.code or error.kind, "message": str(error)}
        return _event(self._teller.failure(told))


def _event(event: Json) -> bytes:
    return f"event: {event['type']}\ndata: {_text(event)}\n\n".encode()


def _text(value: Json) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
