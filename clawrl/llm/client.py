"""A language model that is asked for its opinion, behind any OpenAI-compatible endpoint.

The judge and the persona that scores consult one. Every way in which a call can fail is one error,
which they turn into an abstention.
"""

from __future__ import annotations

import asyncio
import logging

import openai
from openai.types.chat import ChatCompletion

from clawrl.errors import JudgeError
from clawrl.records.nouns import Cost

log = logging.getLogger(__name__)


class LlmClient:
    """Asks at most `concurrent` questions at a time, each within `timeout_s`."""

    def __init__(
        self,
        *,
        base_url: str | None,
        model: str,
        api_key: str | None,
        temperature: float,
        max_tokens: int,
        timeout_s: float,
        concurrent: int,
    ) -> None:
        """Prepare the client; nothing is sent yet.

        Args:
            base_url: of the endpoint, with its `/v1`.
            model: as the endpoint names it.
            api_key: sent to the endpoint; None sends no secret, also not one of the environment.
            temperature: of its sampling.
            max_tokens: of one answer.
            timeout_s: of one call, its retries included.
            concurrent: calls in flight.
        """
        self._model = model
        self._temperature, self._max_tokens = temperature, max_tokens
        self._timeout_s = timeout_s
        self._slots = asyncio.Semaphore(concurrent)
        self._client = openai.AsyncOpenAI(
            base_url=base_url, api_key=api_key or "none", timeout=timeout_s, max_retries=2
        )

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.close()

    async def ask(self, instruction: str, turn: str) -> tuple[str, Cost]:
        """Its answer, and what the call cost. Raises JudgeError for every way to fail."""
        try:
            async with self._slots, asyncio.timeout(self._timeout_s):
                answer = await self._client.chat.completions.create(
                    model=self._model,
                    messages=[
                        {"role": "system", "content": instruction},
                        {"role": "user", "content": turn},
                    ],
                    temperature=self._temperature,
                    max_tokens=self._max_tokens,
                )
        except (openai.OpenAIError, TimeoutError, ValueError) as error:
            # ValueError: a body that is no JSON. The message may quote the turn: only its kind
            # is recorded.
            log.debug("call failed: %s", error)
            raise JudgeError(type(error).__name__) from error
        return _read(answer)


def _read(answer: object) -> tuple[str, Cost]:
    # Typed as object: an endpoint that answers with something else gives a plain string.
    if not isinstance(answer, ChatCompletion) or not answer.choices:
        raise JudgeError("no_completion")
    usage = answer.usage
    cost = Cost(
        calls=1,
        prompt_tokens=usage.prompt_tokens if usage else 0,
        completion_tokens=usage.completion_tokens if usage else 0,
    )
    return answer.choices[0].message.content or "", cost
