"""Renders a conversation into prompt ids with the model's own chat template.

The engine renders every served prompt itself. This is for the one prompt that was never served, the
hinted one; `assemble` uses it only where rendering without the hint gives back the served ids.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from clawrl.errors import ClawRLError

Message = dict[str, Any]

HINT_HEADING = "\n\n[user's hint / instruction]\n"
"""Stands between the last user message and the hint. Source: arXiv:2603.10165."""


class RenderError(ClawRLError):
    """A conversation that cannot be rendered; the message is one word that says why."""


class PromptRenderer:
    """The chat template and tokenizer of one model folder."""

    def __init__(self, model_path: Path) -> None:
        from transformers import AutoTokenizer  # slow to import: only where something is rendered

        self._tokenizer: Any = AutoTokenizer.from_pretrained(model_path)

    def render(
        self,
        messages: Sequence[Message],
        *,
        tools: list[dict[str, Any]] | None,
        template_kwargs: dict[str, Any],
    ) -> list[int]:
        """Token ids of the prompt, up to where the assistant begins to write.

        Args:
            messages: in OpenAI's format, system messages included.
            tools: as they were served.
            template_kwargs: extra arguments of the chat template, as they were served.

        Raises:
            RenderError: the template refuses these messages.
        """
        try:
            return list(
                self._tokenizer.apply_chat_template(
                    [_for_template(message) for message in messages],
                    tools=tools,
                    add_generation_prompt=True,
                    tokenize=True,
                    return_dict=False,
                    **template_kwargs,
                )
            )
        except Exception as error:  # whatever the code in a template raises
            raise RenderError("render_failed") from error


def hinted(messages: Sequence[Message], hint: str) -> list[Message]:
    """A copy of the messages with the hint at the end of the last user message.

    Args:
        messages: in OpenAI's format; left as they are.
        hint: instruction text.

    Raises:
        RenderError: there is no user message.
    """
    changed = copy.deepcopy(list(messages))
    for message in reversed(changed):
        if message.get("role") == "user":
            message["content"] = _with_suffix(message.get("content"), HINT_HEADING + hint)
            return changed
    raise RenderError("no_user_message")


def _with_suffix(content: Any, suffix: str) -> str | list[Any]:
    if not isinstance(content, list):
        return f"{content or ''}{suffix}"
    if content and _is_text(content[-1]):
        return [*content[:-1], {**content[-1], "text": content[-1]["text"] + suffix}]
    return [*content, {"type": "text", "text": suffix.lstrip("\n")}]


def _for_template(message: Message) -> Message:
    """The message as the engine hands it to the template: flat text, tool arguments as objects."""
    changed = dict(message)
    content = changed.get("content")
    if content is None:
        changed["content"] = ""
    if isinstance(content, list) and all(_is_text(part) for part in content):
        changed["content"] = "\n".join(part["text"] for part in content)
    calls = changed.pop("tool_calls", None)
    if calls:
        changed["tool_calls"] = [_with_parsed_arguments(call) for call in calls]
    return changed


def _with_parsed_arguments(call: dict[str, Any]) -> dict[str, Any]:
    function = dict(call.get("function") or {})
    if isinstance(function.get("arguments"), str):
        function["arguments"] = json.loads(function["arguments"] or "{}")
    return {**call, "function": function}


def _is_text(part: object) -> bool:
    return isinstance(part, dict) and part.get("type") == "text" and "text" in part
