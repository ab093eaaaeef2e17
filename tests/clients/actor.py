"""An engine that acts like a model that is fluent in its client's tools, without being one."""

from __future__ import annotations

import itertools
import json
from typing import Any

from clawrl.samples.render import PromptRenderer
from tests.stub_engine import StubEngine

DONE = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
_SHELLS = {
    "bash": lambda command: {"command": command, "description": "Look around"},
    "exec": lambda command: {"command": command},
    "exec_command": lambda command: {"cmd": command},
    "shell_command": lambda command: {"command": command},
}


class Actor(StubEngine):
    """Runs one command for each thing a person says, then answers in words.

    A client that takes nothing but calls gets the call that ends its task instead of the words.
    """

    def __init__(self, renderer: PromptRenderer, *, only_calls: bool = False) -> None:
        super().__init__()
        self._renderer = renderer
        self._only_calls = only_calls
        self._count = itertools.count(1)

    def text(self, body: dict[str, Any]) -> str:
        # Each reply is another one, as a model's are; a session is also known by its replies.
        return f"This is reply number {next(self._count)} of mine."

    def calls(self, body: dict[str, Any]) -> list[dict[str, Any]] | None:
        names = [tool["function"]["name"] for tool in body.get("tools") or ()]
        shell = next((name for name in names if name in _SHELLS), None)
        if shell is None or body.get("tool_choice") == "none":
            return None
        answered = _last_role(body["messages"]) == "tool"
        if answered and not self._only_calls:
            return None
        command = DONE if answered else "echo hello"
        arguments = json.dumps(_SHELLS[shell](command))
        function = {"name": shell, "arguments": arguments}
        return [{"index": 0, "id": "call_0", "type": "function", "function": function}]

    def prompt_ids(self, body: dict[str, Any]) -> list[int]:
        return self._renderer.render(
            body["messages"],
            tools=body.get("tools"),
            template_kwargs=body.get("chat_template_kwargs") or {},
        )

    def _finish(self, calls: list[dict[str, Any]] | None) -> str | None:
        return "tool_calls" if calls else "stop"


def _last_role(messages: list[dict[str, Any]]) -> str:
    """Of the last message that is not a client's own note."""
    spoken = [one for one in messages if "INTERNAL_CONTEXT>>>" not in str(one.get("content"))]
    return spoken[-1]["role"] if spoken else "user"
