"""An engine without a model: replies are scripted, in the form in which vLLM sends them."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable
from typing import Any

from clawrl.protocols import Engine, Generation
from clawrl.records.nouns import Sampling

PROMPT_IDS = [1, 2, 3]


class StubEngine(Engine):
    """Says the scripted replies in turn, word by word; one token a word."""

    def __init__(self, *replies: str) -> None:
        self.replies = itertools.cycle(replies or ("The answer is 4.",))
        self.bodies: list[dict[str, Any]] = []
        self.error: Exception | None = None
        """Raised instead of a reply."""
        self.error_after: int | None = None
        """With `error`: words that are streamed before it."""
        self.gate: asyncio.Event | None = None
        """Requests that start while there is one wait for it before their second word."""
        self.entered = asyncio.Event()
        """Set once a request is in the engine."""
        self.tool_calls: list[dict[str, Any]] | None = None
        self.finish_reason: str | None = "stop"
        self.change: Callable[[dict[str, Any]], dict[str, Any]] = lambda part: part
        """Last word on each chunk or completion: makes broken ones."""
        self.running = 0
        """Requests that are in the engine now."""

    async def chat(self, body: dict[str, Any]) -> dict[str, Any]:
        self.bodies.append(body)
        if self.error is not None:
            raise self.error
        self._enter()
        try:
            if self.gate is not None:
                await self.gate.wait()
        finally:
            self.running -= 1
        words, calls = self._words(body), self.calls(body)
        message: dict[str, Any] = {"role": "assistant", "content": "".join(words)}
        if calls:
            message["tool_calls"] = calls
        choice = {
            "index": 0,
            "message": message,
            "logprobs": _logprobs(words),
            "finish_reason": self._finish(calls),
            "token_ids": list(range(10, 10 + len(words))),
        }
        return self.change(
            {
                "id": "chatcmpl-engine",
                "object": "chat.completion",
                "created": 1,
                "model": "policy",
                "choices": [choice],
                "usage": _usage(words),
                "prompt_token_ids": self.prompt_ids(body),
                "prompt_text": None,
            }
        )

    async def chat_stream(self, body: dict[str, Any]) -> AsyncIterator[dict[str, Any]]:
        self.bodies.append(body)
        if self.error is not None and self.error_after is None:
            raise self.error
        self._enter()
        try:
            async for chunk in self._chunks(body):
                yield self.change(chunk)
        finally:
            self.running -= 1

    async def _chunks(self, body: dict[str, Any]) -> AsyncIterator[dict[str, Any]]:
        words, tool_calls, gate = self._words(body), self.calls(body), self.gate
        first = _chunk({"role": "assistant", "content": ""})
        yield {**first, "prompt_token_ids": self.prompt_ids(body), "prompt_text": None}
        for index, word in enumerate(words):
            if index == 1 and gate is not None:
                await gate.wait()
            if self.error is not None and index == self.error_after:
                raise self.error
            last = index == len(words) - 1
            finish = self._finish(tool_calls) if last else None
            calls = {"tool_calls": tool_calls} if last and tool_calls else {}
            chunk = _chunk({"content": word, **calls}, finish)
            chunk["choices"][0] |= {"token_ids": [10 + index], "logprobs": _logprobs([word])}
            yield chunk
        yield {**_chunk({}), "choices": [], "usage": _usage(words)}

    def _enter(self) -> None:
        self.running += 1
        self.entered.set()

    def text(self, body: dict[str, Any]) -> str:
        """What is said to a request."""
        return next(self.replies)

    def calls(self, body: dict[str, Any]) -> list[dict[str, Any]] | None:
        """The tools that are called with it."""
        return self.tool_calls

    def prompt_ids(self, body: dict[str, Any]) -> list[int]:
        """The ids that the request was rendered to."""
        return PROMPT_IDS

    def _finish(self, calls: list[dict[str, Any]] | None) -> str | None:
        return self.finish_reason

    def _words(self, body: dict[str, Any]) -> list[str]:
        words = self.text(body).split(" ")
        return [word if index == 0 else f" {word}" for index, word in enumerate(words)]

    async def generate(self, prompt_ids: list[int], sampling: Sampling) -> Generation:
        return Generation(ids=[10], logp=[-0.5], finish_reason="stop", text="4")

    async def score(self, prompt_ids: list[int], reply_ids: list[int]) -> list[float]:
        return [-0.5] * len(reply_ids)

    async def health(self) -> bool:
        return self.error is None


def _logprobs(words: list[str]) -> dict[str, Any]:
    return {"content": [{"token": word, "logprob": -0.5, "top_logprobs": []} for word in words]}


def _usage(words: list[str]) -> dict[str, int]:
    return {
        "prompt_tokens": len(PROMPT_IDS),
        "completion_tokens": len(words),
        "total_tokens": len(PROMPT_IDS) + len(words),
    }


def _chunk(delta: dict[str, Any], finish_reason: str | None = None) -> dict[str, Any]:
    return {
        "id": "chatcmpl-engine",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "policy",
        "choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}],
    }
