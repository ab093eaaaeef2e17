"""vLLM's answers as our nouns: pure functions over decoded JSON, and the reader of event streams.

Counts are checked here: an answer with fewer log-probabilities than ids is an error, for a missing
one must never pass for a probability.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from typing import Any

import httpx

from clawrl.errors import EngineError, RequestError
from clawrl.protocols import Generation
from clawrl.records.nouns import Sampling

DONE = "[DONE]"


def sampling_params(sampling: Sampling) -> dict[str, Any]:
    """The parameters of `/inference/v1/generate`, log-probabilities asked for."""
    params: dict[str, Any] = {
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "top_k": sampling.top_k,
        "logprobs": 0,  # of the drawn token, and no others
    }
    if sampling.max_tokens is not None:
        params["max_tokens"] = sampling.max_tokens
    if sampling.seed is not None:
        params["seed"] = sampling.seed
    return params


def as_generation(answer: dict[str, Any]) -> Generation:
    """The reply out of `/inference/v1/generate`'s answer, in its text mode.

    Raises:
        EngineError: ids and log-probabilities do not go together.
    """
    choice = answer["choices"][0]
    ids: list[int] = choice.get("token_ids") or []
    content = (choice.get("logprobs") or {}).get("content") or []
    logp = [float(token["logprob"]) for token in content]
    if len(ids) != len(logp):
        raise EngineError(f"the engine gave {len(ids)} ids and {len(logp)} log-probabilities")
    return Generation(
        ids=ids,
        logp=logp,
        finish_reason=choice.get("finish_reason") or "unknown",
        text=choice.get("text") or "",
    )


def as_scores(answer: dict[str, Any], reply_ids: list[int], *, start: int) -> list[float]:
    """Log-probabilities [T] of the ids from position `start` on, in nats.

    Raises:
        EngineError: a position is missing or holds another id.
    """
    positions = (answer.get("prompt_logprobs") or [])[start:]
    if len(positions) != len(reply_ids):
        raise EngineError(f"asked to score {len(reply_ids)} ids, got {len(positions)}")
    scores: list[float] = []
    for token, position in zip(reply_ids, positions, strict=True):
        entry = (position or {}).get(str(token))
        if entry is None:
            raise EngineError(f"the engine gave no log-probability for id {token}")
        scores.append(float(entry["logprob"]))
    return scores


def error_from(path: str, status: int, content: bytes) -> EngineError:
    """A refusal as `RequestError` with the server's words, a failure as `EngineError`."""
    message, kind = _said(content)
    if 400 <= status < 500:
        return RequestError(status, message or f"the engine answered {status} to {path}", kind)
    return EngineError(f"the engine answered {status} to {path}: {message}")


def _said(content: bytes) -> tuple[str, str]:
    """Message and kind of an error in OpenAI's format, or the plain text."""
    try:
        error = json.loads(content)["error"]
    except (ValueError, KeyError, TypeError):
        return content.decode(errors="replace").strip()[:500], "invalid_request_error"
    if isinstance(error, dict):
        return str(error.get("message", "")), "invalid_request_error"
    return str(error), "invalid_request_error"


async def events(response: httpx.Response) -> AsyncGenerator[dict[str, Any]]:
    """The chunks of a server-sent event stream, until `[DONE]`.

    Raises:
        EngineError: the stream holds an error or what is no JSON, or ends without `[DONE]`.
    """
    async for line in _lines(response):
        if not line.startswith("data:"):
            continue  # blank lines and keep-alive comments
        data = line.removeprefix("data:").strip()
        if data == DONE:
            return
        try:
            chunk = json.loads(data)
        except ValueError:
            raise EngineError(f"the engine's stream holds no JSON: {data[:200]}") from None
        if "error" in chunk:
            code = chunk["error"].get("code") if isinstance(chunk["error"], dict) else None
            status = code if isinstance(code, int) else 500
            raise error_from("the stream", status, data.encode())
        yield chunk
    raise EngineError("the engine's stream ended before its end")


async def _lines(response: httpx.Response) -> AsyncGenerator[str]:
    """Lines as event streams have them. httpx ends one also at U+2028 and others, inside a text."""
    rest = b""
    async for received in response.aiter_bytes():
        *whole, rest = (rest + received).split(b"\n")
        for line in whole:
            yield line.decode()
    if rest:
        yield rest.decode()
