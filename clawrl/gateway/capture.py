"""What the engine sent, kept for the record; and what of it the client gets to see."""

from __future__ import annotations

import math
import uuid
from dataclasses import dataclass, field
from typing import Any

from clawrl.records.nouns import Usage

_REASONING = ("reasoning_content", "reasoning")
_EXACT = ("prompt_token_ids", "prompt_text", "prompt_logprobs")


class CallIds:
    """Gives the tool calls of one reply ids that no other call has, whatever a client cuts off.

    The session of a later request is known by them; engines count their calls, or shorten ids.
    """

    def __init__(self) -> None:
        self._minted: dict[str, str] = {}

    def mint(self, part: dict[str, Any]) -> dict[str, Any]:
        """A chunk or completion with our ids in place of the engine's."""
        choices = part.get("choices") or ()
        if not any(_calls(choice) for choice in choices):
            return part
        return {**part, "choices": [self._choice(choice) for choice in choices]}

    def _choice(self, choice: dict[str, Any]) -> dict[str, Any]:
        name = "delta" if choice.get("delta") else "message"
        calls = [self._call(call) for call in _calls(choice)]
        return {**choice, name: {**choice[name], "tool_calls": calls}} if calls else choice

    def _call(self, call: dict[str, Any]) -> dict[str, Any]:
        if not call.get("id"):
            return call
        fresh = f"call{uuid.uuid4().hex[:24]}"
        return {**call, "id": self._minted.setdefault(call["id"], fresh)}


def _calls(choice: dict[str, Any]) -> list[dict[str, Any]]:
    return (choice.get("delta") or choice.get("message") or {}).get("tool_calls") or []


@dataclass(slots=True)
class Capture:
    """Collects one reply, by chunks or whole. The first choice alone: only it can be a sample."""

    content: str = ""
    reasoning: str = ""
    tool_calls: dict[int, dict[str, Any]] = field(default_factory=dict)
    prompt_ids: list[int] = field(default_factory=list)
    reply_ids: list[int] = field(default_factory=list)
    logp: list[float] = field(default_factory=list)
    """Nats, under the sampling temperature."""
    finish_reason: str | None = None
    usage: Usage | None = None

    def add_chunk(self, chunk: dict[str, Any]) -> None:
        """Take in one chunk of a stream."""
        self._add_common(chunk)
        for choice in chunk.get("choices") or ():
            if choice.get("index", 0) == 0:
                self._add_choice(choice, choice.get("delta") or {})

    def add_completion(self, completion: dict[str, Any]) -> None:
        """Take in a whole reply."""
        self._add_common(completion)
        for choice in completion.get("choices") or ():
            if choice.get("index", 0) == 0:
                self._add_choice(choice, choice.get("message") or {})

    @property
    def reply(self) -> dict[str, Any]:
        """The assistant message so far."""
        message: dict[str, Any] = {"role": "assistant", "content": self.content}
        if self.reasoning:
            message["reasoning_content"] = self.reasoning
        if self.tool_calls:
            message["tool_calls"] = [self.tool_calls[index] for index in sorted(self.tool_calls)]
        return message

    def problem(self) -> str | None:
        """Why the reply's ids and log-probabilities cannot be trained on; None: they are exact."""
        if not self.prompt_ids:
            return "no_prompt_ids"
        if not self.reply_ids:
            return "no_reply_ids"
        if not self.logp:
            return "no_logprobs"
        spent = self.usage.completion_tokens if self.usage else None
        if not len(self.reply_ids) == len(self.logp) == spent:
            return f"counts_differ:{len(self.reply_ids)}_ids,{len(self.logp)}_logprobs,{spent}_used"
        if not all(math.isfinite(value) for value in self.logp):
            return "logprobs_not_finite"
        return None

    def _add_common(self, part: dict[str, Any]) -> None:
        if part.get("prompt_token_ids") is not None:
            self.prompt_ids = part["prompt_token_ids"]
        usage = part.get("usage")
        if usage:
            self.usage = Usage(
                prompt_tokens=usage.get("prompt_tokens") or 0,
                completion_tokens=usage.get("completion_tokens") or 0,
            )

    def _add_choice(self, choice: dict[str, Any], message: dict[str, Any]) -> None:
        self.content += message.get("content") or ""
        self.reasoning += next((message[key] for key in _REASONING if message.get(key)), "")
        for position, call in enumerate(message.get("tool_calls") or ()):
            self._add_call(call.get("index", position), call)
        self.reply_ids.extend(choice.get("token_ids") or ())
        tokens = (choice.get("logprobs") or {}).get("content") or ()
        self.logp.extend(token["logprob"] for token in tokens)
        self.finish_reason = choice.get("finish_reason") or self.finish_reason

    def _add_call(self, index: int, part: dict[str, Any]) -> None:
        call = self.tool_calls.setdefault(
            index, {"id": None, "type": "function", "function": {"name": "", "arguments": ""}}
        )
        call["id"] = part.get("id") or call["id"]
        function = part.get("function") or {}
        call["function"]["name"] += function.get("name") or ""
        call["function"]["arguments"] += function.get("arguments") or ""


@dataclass(frozen=True, slots=True)
class View:
    """The client's part of what the engine sent: our id; token ids and log-probs if asked for."""

    interaction_id: str
    model_name: str
    logprobs: bool
    ids: bool
    usage: bool

    def completion(self, completion: dict[str, Any]) -> dict[str, Any]:
        """A whole reply."""
        return self._shown(completion)

    def chunk(self, chunk: dict[str, Any]) -> dict[str, Any] | None:
        """One chunk; None when it holds only what the client did not ask for."""
        if not chunk.get("choices") and not self.usage:
            return None
        shown = self._shown(chunk)
        if not self.usage:
            shown.pop("usage", None)
        return shown

    def _shown(self, part: dict[str, Any]) -> dict[str, Any]:
        hidden = () if self.ids else _EXACT
        shown = {key: value for key, value in part.items() if key not in hidden}
        shown["choices"] = [self._choice(choice) for choice in part.get("choices") or ()]
        return {**shown, "id": self.interaction_id, "model": self.model_name}

    def _choice(self, choice: dict[str, Any]) -> dict[str, Any]:
        shown = dict(choice)
        if not self.ids:
            shown.pop("token_ids", None)
        if not self.logprobs:
            shown["logprobs"] = None
        return shown
