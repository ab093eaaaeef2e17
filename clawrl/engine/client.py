"""The client of one vLLM server: chat, generate, score, and new weights under running requests.

A request that is wrong is a `RequestError` with the server's own words; everything else that goes
wrong is an `EngineError`. Every call ends within its time limit. An update always resumes the
engine, however it ends.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncGenerator, Generator
from contextlib import aclosing, asynccontextmanager, contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from clawrl.engine.transport import CONNECT_TIMEOUT_S, Transport
from clawrl.engine.wire import as_generation, as_scores, sampling_params
from clawrl.errors import EngineError
from clawrl.protocols import Engine, Generation, WeightSink
from clawrl.records.nouns import Sampling

RESUME_TIMEOUT_S = 30.0
RESUME_TRIES = 3


class VllmEngine(Engine, WeightSink):
    """Talks to a server that `clawrl.engine.server` has started. An async context manager."""

    def __init__(
        self,
        base_url: str,
        *,
        model: str,
        request_timeout_s: float,
        update_timeout_s: float,
        lora: bool = False,
    ) -> None:
        """No connection is made yet.

        Args:
            base_url: such as `http://127.0.0.1:41234`.
            model: the name under which the server serves the base model.
            request_timeout_s: limit of one request, from its start to its last token.
            update_timeout_s: limit of one weight update.
            lora: True: a version is an adapter, served under a name of its own.
        """
        self._base_model = self._model = model
        self._update_timeout_s = update_timeout_s
        self._lora = lora
        self._in_flight: Counter[str] = Counter()
        self._adapters: set[str] = set()
        self._updates = asyncio.Lock()
        self._transport = Transport(base_url, request_timeout_s=request_timeout_s)

    async def __aenter__(self) -> VllmEngine:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._transport.close()

    async def chat(self, body: dict[str, Any]) -> dict[str, Any]:
        """See `Engine.chat`. `model`, `logprobs` and `return_token_ids` are set here."""
        with self._request() as model:
            asked = _chat_body(body, model, stream=False)
            return await self._transport.post("/v1/chat/completions", asked)

    async def chat_stream(self, body: dict[str, Any]) -> AsyncGenerator[dict[str, Any]]:
        """See `Engine.chat_stream`. Closing the iterator early aborts the request in the engine."""
        with self._request() as model:
            asked = _chat_body(body, model, stream=True)
            async with aclosing(self._transport.chunks("/v1/chat/completions", asked)) as chunks:
                async for chunk in chunks:
                    yield chunk

    async def generate(self, prompt_ids: list[int], sampling: Sampling) -> Generation:
        """See `Engine.generate`. The reply's ids include the one that ended it."""
        asked: dict[str, Any] = {
            "token_ids": prompt_ids,
            "sampling_params": sampling_params(sampling),
            "output_mode": "text",
        }
        with self._request() as model:
            asked["model"] = model
            answer = await self._transport.post("/inference/v1/generate", asked)
        return as_generation(answer)

    async def score(self, prompt_ids: list[int], reply_ids: list[int]) -> list[float]:
        """See `Engine.score`. Prompt and reply together must leave one token of the context free.

        Raises:
            ValueError: the prompt is empty: the first id would have nothing to follow.
        """
        if not prompt_ids:
            raise ValueError("an empty prompt: the first reply id would have nothing to follow")
        asked: dict[str, Any] = {
            "token_ids": [*prompt_ids, *reply_ids],
            # One token must be drawn, and is thrown away. Prompt log-probs ignore the temperature.
            "sampling_params": {"max_tokens": 1, "prompt_logprobs": 0, "temperature": 1.0},
        }
        with self._request() as model:
            asked["model"] = model
            answer = await self._transport.post("/inference/v1/generate", asked)
        return as_scores(answer, reply_ids, start=len(prompt_ids))

    @property
    def in_flight(self) -> int:
        """Requests that have not ended yet."""
        return self._in_flight.total()

    async def health(self) -> bool:
        """See `Engine.health`."""
        return await self._transport.healthy()

    async def served_version(self) -> str:
        """The label of the weights in the server, `v3` after an update to version 3."""
        answer = await self._transport.control("GET", "/weight_info", limit_s=CONNECT_TIMEOUT_S)
        return str(answer["weight_version"])

    async def update_weights(self, path: Path, version: int) -> float:
        """See `WeightSink.update_weights`. Returns the seconds in which no token was drawn.

        For version 0 `path` is the base model's folder. With adapters nothing pauses: requests in
        flight end under the adapter they began with.

        Raises:
            EngineError: a step failed or the whole took too long. It takes requests again; but a
                reload that fails half-way leaves vLLM without weights, and it ends at its next
                token. `EngineKeeper` then brings it back with the current ones.
        """
        if not await asyncio.to_thread(_holds_weights, path):
            raise EngineError(f"version {version}: no *.safetensors in {path}")
        async with self._updates:
            began = time.monotonic()
            await (self._adopt if self._lora else self._reload)(path, version)
            return time.monotonic() - began

    async def _reload(self, path: Path, version: int) -> None:
        async with self._paused(), self._update_limit(version):
            reload = {"method": "take_over_weights", "kwargs": {"weights_path": str(path)}}
            await self._step("/collective_rpc", reload)
            # Keys and values of the old weights. (The pause has sent running requests back to
            # their prefill, so that no block is held.)
            if (await self._step("/reset_prefix_cache")).get("success") is not True:
                raise EngineError(f"version {version}: the engine kept its old prefix cache")
            await self._step("/update_weight_version", {"new_version": f"v{version}"})

    @asynccontextmanager
    async def _paused(self) -> AsyncGenerator[None]:
        """Running requests are held meanwhile. The engine resumes however the block ends."""
        try:
            await self._step("/pause", params={"mode": "keep"})
            yield
        except BaseException:
            with suppress(EngineError):  # the first error says more
                await self._resume()
            raise
        await self._resume()

    async def _resume(self) -> None:
        """Tried more than once: an engine that stays paused is worse than a crashed one."""
        for _ in range(RESUME_TRIES - 1):
            with suppress(EngineError):
                await self._transport.control("POST", "/resume", limit_s=RESUME_TIMEOUT_S)
                return
        await self._transport.control("POST", "/resume", limit_s=RESUME_TIMEOUT_S)

    @asynccontextmanager
    async def _update_limit(self, version: int) -> AsyncGenerator[None]:
        try:
            async with asyncio.timeout(self._update_timeout_s):
                yield
        except TimeoutError:
            raise EngineError(
                f"version {version}: the weight update took more than "
                f"{self._update_timeout_s:g} s (engine.update_timeout_s)"
            ) from None

    async def _adopt(self, path: Path, version: int) -> None:
        """Serve an adapter under a new name, and drop those that no request uses any more."""
        async with self._update_limit(version):
            name = self._base_model if version == 0 else f"{self._base_model}-v{version}"
            if version > 0:
                await self._unload(name)  # a retired version's number returns with other weights
                adapter = {"lora_name": name, "lora_path": str(path)}
                await self._step("/v1/load_lora_adapter", adapter)
                self._adapters.add(name)
            self._model = name
            for unused in self._adapters - {name} - set(self._in_flight):
                await self._unload(unused)

    async def _unload(self, name: str) -> None:
        if name in self._adapters:
            await self._step("/v1/unload_lora_adapter", {"lora_name": name})
            self._adapters.discard(name)

    def forget_adapters(self) -> None:
        """The server was started anew and holds no adapter; the next update loads one."""
        self._adapters.clear()
        self._model = self._base_model

    async def _step(
        self, path: str, body: dict[str, Any] | None = None, params: dict[str, str] | None = None
    ) -> dict[str, Any]:
        return await self._transport.control(
            "POST", path, body, limit_s=self._update_timeout_s, params=params
        )

    @contextmanager
    def _request(self) -> Generator[str]:
        """The model's name for one request, which keeps the adapter of that name loaded."""
        name = self._model
        self._in_flight[name] += 1
        try:
            yield name
        finally:
            self._in_flight[name] -= 1
            if not self._in_flight[name]:
                del self._in_flight[name]


def _chat_body(body: dict[str, Any], model: str, *, stream: bool) -> dict[str, Any]:
    own = {"model": model, "logprobs": True, "return_token_ids": True, "stream": stream}
    if not stream:  # vLLM refuses the options of a stream without one
        body = {key: value for key, value in body.items() if key != "stream_options"}
    return {**body, **own}


def _holds_weights(folder: Path) -> bool:
    return any(folder.glob("*.safetensors"))
