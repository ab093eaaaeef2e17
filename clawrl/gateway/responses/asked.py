"""A request to `/v1/responses` as the chat completion that asks for the same. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from clawrl.gateway.errors import ApiError

Json = dict[str, Any]
_SAME_KEYS = (
    "model",
    "stream",
    "temperature",
    "top_p",
    "parallel_tool_calls",
    "chat_template_kwargs",
    "seed",
    "session_id",
    "turn_type",
    "session_done",
)
_TEXT_PARTS = ("input_text", "output_text", "text", "summary_text", "refusal")
_FREE_FORM = {
    "type": "object",
    "properties": {"input": {"type": "string"}},
    "required": ["input"],
}


@dataclass(frozen=True, slots=True)
class Translated:
    """The chat body, and what is needed to answer in the other API's form."""

    chat: Json
    namespaces: Mapping[str, str] = field(default_factory=dict)
    """Of tools that the client keeps in groups, by the tool's name."""
    free_form: frozenset[str] = frozenset()
    """Tools whose argument is a text, not an object."""


def to_chat(body: Mapping[str, Any], before: Sequence[Json] = ()) -> Translated:
    """Translate a request.

    Args:
        body: the request's JSON object.
        before: the chat messages of the response that `previous_response_id` names, its reply
            included.

    Raises:
        ApiError: 400, the input is neither a text nor a list of items.
    """
    chat: Json = {key: body[key] for key in _SAME_KEYS if body.get(key) is not None}
    chat["messages"] = _messages(body, before)
    tools, namespaces, free_form = _tools(body.get("tools"))
    if tools:
        chat["tools"] = tools
    choice = body.get("tool_choice")
    named = choice.get("name") if isinstance(choice, Mapping) else None
    if named is not None:
        choice = {"type": "function", "function": {"name": named}}
    if choice is not None and tools:
        chat["tool_choice"] = choice
    if body.get("max_output_tokens") is not None:
        chat["max_tokens"] = body["max_output_tokens"]
    text = body.get("text")
    form = text.get("format") if isinstance(text, dict) else None
    if isinstance(form, dict) and form.get("type") not in (None, "text"):
        chat["response_format"] = _response_format(form)
    return Translated(chat, namespaces, frozenset(free_form))


def _messages(body: Mapping[str, Any], before: Sequence[Json]) -> list[Json]:
    asked = body.get("input")
    if isinstance(asked, str):
        asked = [{"type": "message", "role": "user", "content": asked}]
    if not isinstance(asked, list) or not asked:
        raise ApiError(400, "input must be a text or a list of items", param="input")
    messages: list[Json] = []
    if isinstance(body.get("instructions"), str) and body["instructions"]:
        messages.append({"role": "system", "content": body["instructions"]})
    ruled = bool(messages)
    messages.extend(one for one in before if not ruled or one.get("role") != "system")
    items: list[Any] = asked
    for index, item in enumerate(items):
        if not isinstance(item, dict):
            raise ApiError(400, f"input.{index} must be an object", param=f"input.{index}")
        _add_item(messages, item)
    if not messages:
        raise ApiError(400, "input holds no message", param="input")
    return messages


def _add_item(messages: list[Json], item: Json) -> None:
    """One item more; a reply's words and calls are several items and one message."""
    kind = item.get("type", "message")
    if kind == "message":
        role = item.get("role")
        message = {"role": role if isinstance(role, str) else "user"}
        messages.append({**message, "content": _content(item.get("content"))})
    elif kind in ("function_call", "custom_tool_call"):
        call = {
            "id": _text(item.get("call_id") or item.get("id")),
            "type": "function",
            "function": {"name": _text(item.get("name")), "arguments": _arguments(item)},
        }
        if not messages or messages[-1].get("role") != "assistant":
            messages.append({"role": "assistant", "content": None})
        messages[-1].setdefault("tool_calls", []).append(call)
    elif kind in ("function_call_output", "custom_tool_call_output"):
        output = item.get("output")
        content = output if isinstance(output, str) else _content(output)
        messages.append(
            {"role": "tool", "tool_call_id": _text(item.get("call_id")), "content": content or ""}
        )
    # Reasoning comes back encrypted or summarised, and other items are tools of another server.


def _content(content: object) -> Any:
    if not isinstance(content, list):
        return content if isinstance(content, str) else ""
    parts: list[Json] = []
    for part in content:
        if not isinstance(part, dict):
            continue
        if part.get("type") in _TEXT_PARTS:
            text = part.get("text") or part.get("refusal") or ""
            parts.append({"type": "text", "text": _text(text)})
        elif part.get("type") == "input_image" and part.get("image_url"):
            parts.append({"type": "image_url", "image_url": {"url": part["image_url"]}})
    if all(part["type"] == "text" for part in parts):
        return "\n".join(part["text"] for part in parts)
    return parts


def _arguments(item: Json) -> str:
    if item.get("type") == "custom_tool_call":
        return json.dumps({"input": _text(item.get("input"))})
    return _text(item.get("arguments"))


def _tools(given: object) -> tuple[list[Json], dict[str, str], list[str]]:
    tools: list[Json] = []
    namespaces: dict[str, str] = {}
    free_form: list[str] = []
    for tool in given if isinstance(given, list) else ():
        if not isinstance(tool, dict):
            continue
        if tool.get("type") == "namespace":
            inner, _, inner_free = _tools(tool.get("tools"))
            tools.extend(inner)
            free_form.extend(inner_free)
            namespaces.update({one["function"]["name"]: _text(tool.get("name")) for one in inner})
        elif tool.get("type") in ("function", "custom") and isinstance(tool.get("name"), str):
            custom = tool["type"] == "custom"
            if custom:
                free_form.append(tool["name"])
            function = {
                "name": tool["name"],
                "description": _text(tool.get("description")),
                "parameters": _FREE_FORM if custom else tool.get("parameters") or {},
            }
            tools.append({"type": "function", "function": function})
    return tools, namespaces, free_form


def _response_format(form: Json) -> Json:
    if form.get("type") != "json_schema":
        return {"type": form.get("type")}
    schema = {key: form[key] for key in ("name", "schema", "strict") if key in form}
    return {"type": "json_schema", "json_schema": schema}


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
