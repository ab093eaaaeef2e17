"""Messages as they are compared: without what clients add, drop and write anew. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from clawrl.gateway.resolving.rules import Rules, SideRule

Message = Mapping[str, Any]
Calls = tuple[tuple[str, str], ...]
_THINKING = re.compile(r"\A.*</think>", re.DOTALL)
_STRONG_ID = 16
_NOT_ALPHANUMERIC = re.compile(r"[^A-Za-z0-9]")
_ROLES: dict[str, Literal["system", "user", "assistant", "tool"]] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
    "function": "tool",
}


@dataclass(frozen=True, slots=True)
class Signature:
    """What makes two assistant messages the same reply: the words and the calls."""

    words: str
    calls: Calls = ()


@dataclass(frozen=True, slots=True)
class Said:
    """One message of a history."""

    role: Literal["system", "user", "assistant", "tool"]
    text: str
    """For people and judges: as it was written, without the rules' noise."""
    words: str
    """For comparing: the text with single spaces, without thinking."""
    calls: Calls = ()
    call_ids: tuple[str, ...] = ()
    """Of its calls, or of the call that it answers; letters and digits alone, and only such as are
    long enough to be nobody else's."""
    side: SideRule | None = None
    """A user message by which an errand is known."""
    machine: bool = False
    """A user message that no human wrote."""
    person: bool = False
    """A user message by which a framework passes on what a human said to a tool's call."""

    @property
    def signature(self) -> Signature:
        """The reply that it is."""
        return Signature(self.words, self.calls)


def normalised(messages: Sequence[Message], rules: Rules) -> list[Said]:
    """A history without ephemeral messages and messages of no known role.

    Args:
        messages: chat messages, of any form whatever.
        rules: what is ephemeral, and what is noise.
    """
    said: list[Said] = []
    for message in messages:
        role = _ROLES.get(str(message.get("role")))
        if role is None:
            continue
        text = text_of(message.get("content"))
        if role == "user" and any(rule.search(text) for rule in rules.ephemeral):
            continue
        said.append(_said(role, message, text, rules))
    return said


def _said(
    role: Literal["system", "user", "assistant", "tool"], message: Message, text: str, rules: Rules
) -> Said:
    if role == "assistant":
        signature = signature_of(message)
        return Said(role, text, signature.words, signature.calls, strong_ids(message))
    if role == "tool":
        answered = plain_id(message.get("tool_call_id"))
        known = len(answered) >= _STRONG_ID
        return Said(role, text, words_of(text), call_ids=(answered,) if known else ())
    if role == "user":
        text = _without_noise(text, rules)
        side = next((rule for rule in rules.side.user if rule.like.search(text)), None)
        machine = any(rule.search(text) for rule in rules.machine)
        passed_on = next(filter(None, (rule.search(text) for rule in rules.person)), None)
        text = text[passed_on.end() :] if passed_on else text
        person = passed_on is not None
        return Said(role, text, words_of(text), side=side, machine=machine, person=person)
    return Said(role, text, words_of(text))


def _without_noise(text: str, rules: Rules) -> str:
    for rule in rules.noise:
        text, found = rule.subn("", text)
        text = text.strip("\n") if found else text
    return _unwrapped(text)


def _unwrapped(text: str) -> str:
    """A message that a client put into quotes as a whole, as a command line's, without them."""
    inner = text.strip()[1:-1]
    if text.strip() != f'"{inner}"' or '"' in inner.replace('\\"', ""):
        return text
    return inner.replace('\\"', '"')


def signature_of(message: Message) -> Signature:
    """The words without thinking, and the calls however their arguments are spaced and ordered."""
    calls = message.get("tool_calls")
    listed = calls if isinstance(calls, list) else []
    words = words_of(_THINKING.sub("", text_of(message.get("content"))))
    return Signature(words, tuple(_call(call) for call in listed))


def words_of(text: str) -> str:
    """A text with its white space made single spaces."""
    return " ".join(text.split())


def text_of(content: object) -> str:
    """The text of a message's content: a string, a list of parts, or nothing."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    parts = [part.get("text") for part in content if isinstance(part, dict)]
    return "\n".join(text for text in parts if isinstance(text, str))


def plain_id(identity: object) -> str:
    """A call's id as far as every client keeps it: its letters and digits."""
    return _NOT_ALPHANUMERIC.sub("", identity) if isinstance(identity, str) else ""


def strong_ids(message: Message) -> tuple[str, ...]:
    """The ids of a message's calls that are long enough to be no other call's."""
    return tuple(identity for identity in _call_ids(message) if len(identity) >= _STRONG_ID)


def _call_ids(message: Message) -> tuple[str, ...]:
    calls = message.get("tool_calls")
    listed = calls if isinstance(calls, list) else []
    plain = (plain_id(call.get("id")) for call in listed if isinstance(call, dict))
    return tuple(identity for identity in plain if identity)


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
            return words_of(str(arguments))
    return json.dumps(arguments, sort_keys=True)
