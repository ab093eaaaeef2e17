"""Reading an action from a reply: a tool call, or one fenced block where there are no tools.

A reply that holds no action, or several, is a `Malformed` next state that says what was expected.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from clawrl.environments.states import Malformed
from clawrl.protocols import Action, ToolCall

_BLOCK = re.compile(
    r"^(?P<fence>```+|~~~+)[ \t]*(?P<language>[\w+-]*)[^\n]*\n(?P<body>.*?)^(?P=fence)[ \t]*$",
    re.DOTALL | re.MULTILINE,
)
_TOOL_TAG = re.compile(r"<tool_call>\s*(\{.*?\})\s*</tool_call>", re.DOTALL)
_THINKING = re.compile(r"\A.*</think>", re.DOTALL)
_JSON_TYPES: dict[str, type | tuple[type, ...]] = {
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "array": list,
    "object": dict,
}


@dataclass(frozen=True, slots=True)
class Call:
    """A tool's name and arguments, checked against its schema."""

    tool: str
    arguments: Mapping[str, Any]


def read_block(action: Action, languages: Sequence[str], expected: str) -> str | Malformed:
    """The body of the reply's one fenced block.

    Args:
        action: the reply.
        languages: what the fence may name; no name at all is taken too.
        expected: said where there is no such block.
    """
    text = _THINKING.sub("", action.text)
    blocks = [
        match["body"]
        for match in _BLOCK.finditer(text)
        if match["language"].lower() in ("", *languages)
    ]
    if len(blocks) > 1:
        return Malformed(problem=f"the reply has {len(blocks)} blocks", expected=expected)
    if not blocks:
        open_fence = text.count("```") == 1
        problem = "the block is not closed" if open_fence else "the reply has no block"
        return Malformed(problem=problem, expected=expected)
    if not blocks[0].strip():
        return Malformed(problem="the block is empty", expected=expected)
    return blocks[0].strip("\n")


def read_call(action: Action, tools: Sequence[dict[str, Any]]) -> Call | Malformed:
    """The reply's one tool call; `tools` are in OpenAI's format.

    A server without a tool parser leaves the calls in the text, as `<tool_call>{...}</tool_call>`;
    they are read from there too.
    """
    schemas = {tool["function"]["name"]: tool["function"].get("parameters", {}) for tool in tools}
    expected = f"Call one of the tools: {', '.join(schemas)}."
    calls = action.calls or _calls_in(_THINKING.sub("", action.text))
    if len(calls) != 1:
        problem = f"the reply calls {len(calls)} tools" if calls else "the reply calls no tool"
        return Malformed(problem=problem, expected=expected)
    call = calls[0]
    if call.name not in schemas:
        return Malformed(problem=f"there is no tool '{call.name}'", expected=expected)
    try:
        arguments: Any = json.loads(call.arguments or "{}")
    except (ValueError, RecursionError) as error:
        return Malformed(problem=f"the arguments are no JSON ({error})", expected=expected)
    fault = _argument_fault(arguments, schemas[call.name])
    if fault:
        return Malformed(problem=f"{call.name}: {fault}", expected=_signature(call.name, schemas))
    return Call(call.name, arguments)


def _calls_in(text: str) -> tuple[ToolCall, ...]:
    found: list[ToolCall] = []
    for match in _TOOL_TAG.finditer(text):
        try:
            content: Any = json.loads(match[1])
        except (ValueError, RecursionError):
            found.append(ToolCall(name="", arguments=match[1]))
            continue
        found.append(
            ToolCall(
                name=str(content.get("name", "")),
                arguments=json.dumps(content.get("arguments", {})),
            )
        )
    return tuple(found)


def _argument_fault(arguments: Any, schema: Mapping[str, Any]) -> str | None:
    """What is wrong with the arguments; tools take flat objects, so that is all that is checked."""
    if not isinstance(arguments, dict):
        return "the arguments must be an object"
    properties: Mapping[str, Any] = schema.get("properties", {})
    for name in schema.get("required", ()):
        if name not in arguments:
            return f"'{name}' is missing"
    for name, value in arguments.items():
        if name not in properties:
            return f"there is no argument '{name}'"
        wanted = _JSON_TYPES.get(str(properties[name].get("type")))
        is_bool = isinstance(value, bool) and wanted is not bool
        if wanted is not None and (is_bool or not isinstance(value, wanted)):
            return f"'{name}' must be of type {properties[name]['type']}"
    return None


def _signature(name: str, schemas: Mapping[str, Any]) -> str:
    properties: Mapping[str, Any] = schemas[name].get("properties", {})
    arguments = ", ".join(f"{key}: {value.get('type')}" for key, value in properties.items())
    return f"Expected {name}({arguments})."
