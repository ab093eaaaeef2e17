"""What a request says outright about where it belongs and what it is for. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from clawrl.gateway.errors import ApiError
from clawrl.gateway.resolving.normal import Message, text_of
from clawrl.gateway.resolving.rules import FieldRule, Rules
from clawrl.records.nouns import TurnType

_LONGEST_ID = 256
_SWITCH = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
OWN_FIELDS = ("session_id", "turn_type", "session_done")
"""Keys of the body that are for the gateway alone."""


@dataclass(frozen=True, slots=True)
class Marks:
    """What a request says; None where it says nothing."""

    session_id: str | None = None
    placed_by: str = ""
    """Which mark named the session: a header, a field, or `runtime_line`."""
    turn_type: TurnType | None = None
    kind: str | None = None
    """A side turn's errand, where the mark names it."""
    done: bool = False
    """True: the client's last request of this session."""
    trace: str | None = None
    """Of the distributed trace that the request is part of."""


def read_marks(
    headers: Mapping[str, str],
    body: Mapping[str, Any],
    messages: Sequence[Message],
    rules: Rules,
) -> Marks:
    """Read the marks: headers first, then keys of the body, then lines of the prompt.

    Args:
        headers: looked up in lower case; ours are x-session-id, x-turn-type, x-session-done.
        body: ours are session_id, turn_type, session_done.
        messages: the body's history as chat messages.
        rules: which headers, fields and lines clients use.

    Raises:
        ApiError: 400, one of our own marks has a value that means nothing.
    """
    session_id, placed_by = _session(headers, body, messages, rules)
    turn_type = headers.get("x-turn-type", body.get("turn_type")) or None
    if turn_type not in ("main", "side", None):
        raise ApiError(400, "turn_type must be main or side", param="turn_type")
    kind = None
    if turn_type is None:
        turn_type, kind = _told_by_client(headers, rules)
    return Marks(
        session_id, placed_by, turn_type, kind, _done(headers, body), _trace(headers, rules)
    )


def _session(
    headers: Mapping[str, str],
    body: Mapping[str, Any],
    messages: Sequence[Message],
    rules: Rules,
) -> tuple[str | None, str]:
    own = body.get("session_id")
    if own is not None and not isinstance(own, str):
        raise ApiError(400, "session_id must be a string", param="session_id")
    for given in (own, headers.get("x-session-id")):
        if len(given or "") > _LONGEST_ID:
            raise ApiError(400, f"session_id is longer than {_LONGEST_ID}", param="session_id")
    for found, placed_by in _named(headers, body, messages, rules):
        errand = any(rule.search(found) for rule in rules.not_sessions)
        if found and len(found) <= _LONGEST_ID and not errand:
            return found, placed_by
    return None, ""


def _named(
    headers: Mapping[str, str],
    body: Mapping[str, Any],
    messages: Sequence[Message],
    rules: Rules,
) -> Iterable[tuple[str, str]]:
    for name in rules.session_headers:
        yield headers.get(name, "").strip(), f"header:{name}"
    for field in rules.session_fields:
        yield _field(body, field), f"field:{field.field}"
    first = next((m for m in messages if m.get("role") == "user"), {})
    systems = (m for m in messages[:2] if m.get("role") in ("system", "developer"))
    for patterns, texts in (
        (rules.session_lines, [text_of(first.get("content"))]),
        (rules.session_lines_in_system, [text_of(m.get("content")) for m in systems]),
    ):
        for pattern in patterns:
            for text in texts:
                match = pattern.search(text)
                if match:
                    yield match["id"], "runtime_line"


def _field(body: Mapping[str, Any], rule: FieldRule) -> str:
    value: Any = body
    for name in rule.field.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    if not isinstance(value, str):
        return ""
    if rule.without is not None:
        value = rule.without.sub("", value)
    return value if rule.like is None or rule.like.search(value) else ""


def _told_by_client(headers: Mapping[str, str], rules: Rules) -> tuple[TurnType | None, str | None]:
    told: TurnType | None = None
    for rule in rules.metadata:
        try:
            values = json.loads(headers.get(rule.header, "null"))
        except (ValueError, RecursionError):
            continue
        value = values.get(rule.field) if isinstance(values, dict) else None
        if not isinstance(value, str):
            continue
        if value not in rule.main:
            return "side", value
        told = "main"
    if any(headers.get(name) for name in rules.parent_headers):
        return "side", "subagent"
    return told, None


def _trace(headers: Mapping[str, str], rules: Rules) -> str | None:
    traces = (headers.get(name, "").split("-") for name in rules.trace_headers)
    return next((parts[1] for parts in traces if len(parts) == 4 and parts[1].strip("0")), None)


def _done(headers: Mapping[str, str], body: Mapping[str, Any]) -> bool:
    done = headers.get("x-session-done", body.get("session_done"))
    if isinstance(done, str):
        done = _SWITCH.get(done.strip().lower())
        if done is None:
            raise ApiError(400, "session_done must be true or false", param="session_done")
    if done is not None and not isinstance(done, bool):
        raise ApiError(400, "session_done must be a boolean", param="session_done")
    return bool(done)
