"""An engine that says what it is told, for measurements of everything around a model.

Its n-th reply in a conversation is the n-th line of its script, the last one from then on. Tokens
are bytes, each drawn with certainty; nothing can be learned from them.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Sequence
from typing import Any

from clawrl.errors import ConfigError, EngineError
from clawrl.protocols import Engine, Generation
from clawrl.records.nouns import Sampling

_MODEL = "scripted"


class ScriptedEngine(Engine):
    """Replies at once."""

    def __init__(self, script: Sequence[str]) -> None:
        """Raises ConfigError when there is nothing to say."""
        if not script:
            raise ConfigError("environment.script", "there is no reply in it")
        self._script = list(script)

    async def chat(self, body: dict[str, Any]) -> dict[str, Any]:
        """The next line of the script, as a completion."""
        text = self._next(body)
        ids = list(text.encode())
        logprobs = [{"token": chr(one), "logprob": 0.0, "top_logprobs": []} for one in ids]
        return {
            **self._base("chat.completion"),
            "choices": [
                {
                    "index": 0,
                    "message": {"role": "assistant", "content": text},
                    "logprobs": {"content": logprobs},
                    "finish_reason": "stop",
                    "token_ids": ids,
                }
            ],
            "usage": {"prompt_tokens": 1, "completion_tokens": len(ids), "total_tokens": 1},
            "prompt_token_ids": [0],
        }

    async def chat_stream(self, body: dict[str, Any]) -> AsyncIterator[dict[str, Any]]:
        """The same in one chunk."""
        done = await self.chat(body)
        choice = done["choices"][0]
        choice["delta"] = choice.pop("message")
        yield {**done, "object": "chat.completion.chunk"}

    async def generate(self, prompt_ids: list[int], sampling: Sampling) -> Generation:
        """The script's first line."""
        ids = list(self._script[0].encode())
        return Generation(ids, [0.0] * len(ids), "stop", self._script[0])

    async def score(self, prompt_ids: list[int], reply_ids: list[int]) -> list[float]:
        """Raises EngineError: there is no model."""
        raise EngineError("a script has no probabilities")

    async def health(self) -> bool:
        """It is well."""
        return True

    def _next(self, body: dict[str, Any]) -> str:
        said = sum(message["role"] == "assistant" for message in body["messages"])
        return self._script[min(said, len(self._script) - 1)]

    def _base(self, kind: str) -> dict[str, Any]:
        return {
            "id": "chatcmpl-script",
            "object": kind,
            "created": int(time.time()),
            "model": _MODEL,
        }
