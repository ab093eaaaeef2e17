"""One request to the measured model, and what a task needs of its answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from clawrl.errors import EngineError
from clawrl.eval.tasks.task import Setting


@dataclass(frozen=True, slots=True)
class Reply:
    """What the model said."""

    text: str
    finish_reason: str | None
    tokens: int
    """0 where the server does not say."""


async def ask(setting: Setting, messages: Sequence[dict[str, str]], *, seed: int) -> Reply:
    """Draw one reply. Raises EngineError as `Engine.chat`, or where the answer is no completion."""
    body: dict[str, Any] = {
        "messages": list(messages),
        "temperature": setting.sampling.temperature,
        "top_p": 1.0,
        "max_tokens": setting.sampling.max_tokens,
        "seed": seed,
    }
    if setting.template_kwargs:
        body["chat_template_kwargs"] = setting.template_kwargs
    return reply_of(await setting.engine.chat(body))


def reply_of(completion: dict[str, Any]) -> Reply:
    """The reply in a chat completion. Raises EngineError where there is none."""
    try:
        choice = completion["choices"][0]
        return Reply(
            text=choice["message"].get("content") or "",
            finish_reason=choice.get("finish_reason"),
            tokens=int((completion.get("usage") or {}).get("completion_tokens") or 0),
        )
    except (KeyError, IndexError, TypeError, AttributeError) as error:
        raise EngineError(f"the answer is no chat completion: {error} is missing") from None
