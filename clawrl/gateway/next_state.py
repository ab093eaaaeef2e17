"""Find what came back after a reply, in a later request's history. Pure.

Clients rewrite their histories, so positions mean nothing; the reply itself is what is looked for.
When in doubt there is no next state: a turn that is not learned from costs little, a turn that
learns from an answer to something else does harm.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, Literal

from clawrl.records.nouns import Interaction

Message = Mapping[str, Any]
_THINKING = re.compile(r"\A.*</think>", re.DOTALL)
_NEXT_STATE_ROLES = ("user", "tool")


@dataclass(frozen=True, slots=True)
class NextState:
    """What came back: who speaks, and the words."""

    role: Literal["user", "tool"]
    content: str


def next_state(pending: Interaction, messages: Sequence[Message]) -> NextState | None:
    """The first user or tool content after the pending turn's own reply.

    The reply is the last assistant message that says the same up to white space and thinking, with
    the same tool calls. The messages that follow it directly (several tool results, a user who sent
    two messages) are joined by blank lines. The role is that of the first.

    Args:
        pending: a main turn that was served and waits for its next state.
        messages: a later request of the same session.

    Returns:
        None when the reply is not there, was there already in the pending turn's own request, or
        nothing that could be a next state follows it before another reply.
    """
    own = _signature(pending.reply)
    places = [
        index
        for index, message in enumerate(messages)
        if message.get("role") == "assistant" and _signature(message) == own
    ]
    before = sum(
        message.get("role") == "assistant" and _signature(message) == own
        for message in pending.messages
    )
    if len(places) <= before:  # an older reply said the same; this one was taken back
        return None
    after = [m for m in messages[places[-1] + 1 :] if m.get("role") not in ("system", "developer")]
    words = list(takewhile(lambda message: message.get("role") in _NEXT_STATE_ROLES, after))
    if not words:
        return None
    content = "\n\n".join(text_of(message.get("content")) for message in words)
    return NextState(role=words[0]["role"], content=content)


def text_of(content: object) -> str:
    """The text of a message's content: a string, a list of parts, or nothing."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    parts = [part.get("text") for part in content if isinstance(part, dict)]
    return "\n".join(text for text in parts if isinstance(text, str))


def _signature(message: Message) -> tuple[str, tuple[tuple[str, str], ...]]:
    """What makes two assistant messages the same reply: the words and the calls."""
    words = _THINKING.sub("", text_of(message.get("content"))).split()
    calls = message.get("tool_calls")
    listed = calls if isinstance(calls, list) else []
    return " ".join(words), tuple(_call(call) for call in listed)


def _call(call: object) -> tuple[str, str]:
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict):
        return "", ""
    return str(function.get("name")), _canonical(function.get("arguments"))


def _canonical(arguments: object) -> str:
    """Arguments however they are spaced and ordered: clients serialise them again."""
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except (ValueError, RecursionError):
            return " ".join(str(arguments).split())
    return json.dumps(arguments, sort_keys=True)
