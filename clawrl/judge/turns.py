"""Messages in OpenAI's format as plain text for a judge."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any


def text_of(content: object) -> str:
    """A message's content as text; parts that are not text are named in brackets."""
    if content is None:
        return ""
    if isinstance(content, list):
        return "\n".join(_part_text(part) for part in content)
    return str(content)


def last_request(messages: Sequence[dict[str, Any]]) -> str:
    """The last user message's text, empty where there is none."""
    for message in reversed(messages):
        if message.get("role") == "user":
            return text_of(message.get("content"))
    return ""


def reply_text(reply: dict[str, Any]) -> str:
    """An assistant message as text: what it says, then each tool call as one line of JSON."""
    lines = [text_of(reply.get("content"))]
    for call in reply.get("tool_calls") or []:
        lines.append("tool call: " + json.dumps(call.get("function", call), ensure_ascii=False))
    return "\n".join(line for line in lines if line)


def _part_text(part: object) -> str:
    if not isinstance(part, dict):
        return str(part)
    return str(part["text"]) if "text" in part else f"[{part.get('type', 'part')}]"
