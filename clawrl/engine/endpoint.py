"""Somebody else's OpenAI-compatible server as an engine: chat, and nothing that needs token ids."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from types import TracebackType
from typing import Any
from urllib.parse import urlsplit

import openai
from openai.types.chat import ChatCompletion

from clawrl.errors import EngineError, RequestError, UserError, nearest
from clawrl.protocols import Engine, Generation
from clawrl.records.nouns import Sampling

_TRIES = 3
_EXTRA = ("chat_template_kwargs",)
"""What vLLM takes beyond OpenAI's own parameters."""


class Endpoint(Engine):
    """One model of a server at a URL. An async context manager."""

    def __init__(
        self, url: str, *, model: str, api_key: str | None, request_timeout_s: float
    ) -> None:
        """No connection is made yet.

        Args:
            url: of the server; without a path it is taken to serve at `/v1`.
            model: as the server names it.
            api_key: sent to the server; None sends no secret, also not one of the environment.
            request_timeout_s: limit of one request, its retries included.
        """
        self._url, self._model = url, model
        self._timeout_s = request_timeout_s
        self._client = openai.AsyncOpenAI(
            base_url=base_url(url),
            api_key=api_key or "none",
            timeout=request_timeout_s,
            max_retries=_TRIES - 1,
        )

    async def __aenter__(self) -> Endpoint:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._client.close()

    async def chat(self, body: dict[str, Any]) -> dict[str, Any]:
        """See `Engine.chat`; the answer has no token ids."""
        extra = {key: body[key] for key in _EXTRA if key in body}
        asked: dict[str, Any] = {key: value for key, value in body.items() if key not in extra}
        try:
            completion: object = await self._client.chat.completions.create(
                model=self._model, extra_body=extra or None, **asked
            )
        except openai.APIStatusError as error:
            raise _status_error(self._url, error) from None
        except openai.OpenAIError as error:
            raise EngineError(f"{self._url}: {_said(error)}") from None
        except ValueError:  # a body that is no JSON
            raise EngineError(f"{self._url}: the answer is not JSON; is it an API?") from None
        if not isinstance(completion, ChatCompletion):
            raise EngineError(f"{self._url}: the answer is no chat completion")
        return completion.model_dump()

    async def chat_stream(self, body: dict[str, Any]) -> AsyncGenerator[dict[str, Any]]:
        """The whole reply as one chunk. Raises as `chat`."""
        yield await self.chat(body)

    async def generate(self, prompt_ids: list[int], sampling: Sampling) -> Generation:
        """Raises EngineError: no OpenAI-compatible server takes token ids."""
        raise EngineError(f"{self._url}: an endpoint takes no token ids")

    async def score(self, prompt_ids: list[int], reply_ids: list[int]) -> list[float]:
        """Raises EngineError, as `generate`."""
        raise EngineError(f"{self._url}: an endpoint takes no token ids")

    async def health(self) -> bool:
        """Whether it lists its models."""
        try:
            await self._client.models.list()
        except (openai.OpenAIError, ValueError):
            return False
        return True


def is_url(name: str) -> bool:
    """Whether a model's name is the address of a server."""
    return name.startswith(("http://", "https://"))


def base_url(url: str) -> str:
    """`http://host:8000` as `http://host:8000/v1`; an address with a path stays as it is."""
    return f"{url.rstrip('/')}/v1" if urlsplit(url).path in ("", "/") else url


async def served_model(
    url: str, wanted: str | None, *, api_key: str | None, timeout_s: float
) -> tuple[str, int | None]:
    """The model of a server that is meant, and the longest context that the server states for it.

    Args:
        url: of the server.
        wanted: the model's name; None: the only one.
        api_key: as for `Endpoint`.
        timeout_s: of the question.

    Raises:
        UserError: it does not answer, serves not exactly one model and none is named, or not that
            one. A server that has no list is believed to serve the one that is named.
    """
    contexts = await _contexts(url, api_key, timeout_s)
    if wanted is None:
        if contexts is None or len(contexts) != 1:
            names = f" ({', '.join(sorted(contexts))})" if contexts else ""
            raise UserError(f"{url}: name one of its models with model.name=NAME{names}")
        wanted = next(iter(contexts))
    if contexts is None:
        return wanted, None
    if wanted not in contexts:
        raise UserError(f"{url}: it does not serve '{wanted}'{nearest(wanted, contexts)}")
    return wanted, contexts[wanted]


async def _contexts(
    url: str, api_key: str | None, timeout_s: float
) -> dict[str, int | None] | None:
    """The longest context of each model, where it is stated; None: the server has no list."""
    client = openai.AsyncOpenAI(
        base_url=base_url(url), api_key=api_key or "none", timeout=timeout_s, max_retries=0
    )
    try:
        async with client:
            answer: object = await client.models.list()
    except openai.NotFoundError:
        return None
    except (openai.OpenAIError, ValueError) as error:
        raise UserError(
            f"{url}: cannot list its models: {_said(error)}{_key_hint(error)}"
        ) from None
    listed: Any = getattr(answer, "data", None) or []
    found: dict[str, int | None] = {}
    for model in listed:
        context = getattr(model, "max_model_len", None)
        found[str(model.id)] = context if isinstance(context, int) else None
    return found


def _status_error(url: str, error: openai.APIStatusError) -> EngineError:
    said = f"{url}: {_said(error)}{_key_hint(error)}"
    if 400 <= error.status_code < 500:
        return RequestError(error.status_code, said)
    return EngineError(said)


def _said(error: Exception) -> str:
    return " ".join(str(error).split())[:500] or type(error).__name__


def _key_hint(error: Exception) -> str:
    refused = isinstance(error, openai.AuthenticationError | openai.PermissionDeniedError)
    return "; set its key in CLAWRL_API_KEY" if refused else ""
