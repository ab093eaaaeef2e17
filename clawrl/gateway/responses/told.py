"""A chat completion as a response, whole or as the events of a stream. Pure."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator
from typing import Any

from clawrl.gateway.responses.asked import Translated

Json = dict[str, Any]
_REASONING = ("reasoning_content", "reasoning")
_CUT = ("length", "content_filter")


class ResponseTeller:
    """Builds one response; events come in the order in which clients expect them."""

    def __init__(self, asked: Translated, response_id: str, model: str) -> None:
        self._asked = asked
        self._response_id = response_id
        self._model = model
        self._created = int(time.time())
        self._items: list[Json] = []
        self._open: Json | None = None
        """The item that is being written; the last of `_items`."""
        self._call: int | None = None
        """Index, in the chat stream, of the call that is being written."""
        self._finish: str | None = None
        self._usage: Json = {}
        self._number = 0
        self._began = False

    def whole(self, completion: Json) -> Json:
        """A response that was not streamed."""
        for _ in self.chunk(completion):
            pass
        for _ in self._close():
            pass
        return self._response(self._status())

    def chunk(self, part: Json) -> Iterator[Json]:
        """The events of one chunk, or of a whole completion."""
        if not self._began:
            self._began = True
            yield self._event("response.created", response=self._response("in_progress"))
            yield self._event("response.in_progress", response=self._response("in_progress"))
        self._usage = part.get("usage") or self._usage
        for choice in part.get("choices") or ():
            delta = choice.get("delta") or choice.get("message") or {}
            thought = next((delta[key] for key in _REASONING if delta.get(key)), "")
            if thought:
                yield from self._text("reasoning", thought)
            if delta.get("content"):
                yield from self._text("message", delta["content"])
            for position, call in enumerate(delta.get("tool_calls") or ()):
                yield from self._called(call.get("index", position), call)
            self._finish = choice.get("finish_reason") or self._finish

    def end(self) -> Iterator[Json]:
        """The last events."""
        yield from self._close()
        status = self._status()
        yield self._event(f"response.{status}", response=self._response(status))

    def failure(self, error: Json) -> Json:
        """The last event of a stream that broke."""
        response = {**self._response("failed"), "error": error}
        return self._event("response.failed", response=response)

    def _text(self, kind: str, text: str) -> Iterator[Json]:
        part_kind = "output_text" if kind == "message" else "reasoning_text"
        if self._open is None or self._open["type"] != kind:
            yield from self._close()
            part: Json = {"type": part_kind, "text": ""}
            if kind == "message":
                part["annotations"] = []
                item: Json = {"role": "assistant", "content": []}
            else:
                item = {"summary": [], "content": []}
            yield from self._begin(kind, "msg" if kind == "message" else "rs", item)
            self._items[-1]["content"].append(part)
            yield self._part_event("response.content_part.added", part=dict(part))
        self._items[-1]["content"][0]["text"] += text
        yield self._part_event(f"response.{part_kind}.delta", delta=text)

    def _called(self, index: int, call: Json) -> Iterator[Json]:
        function = call.get("function") or {}
        writing = self._open is not None and self._open["type"] == "function_call"
        if not writing or self._call != index:
            yield from self._close()
            self._call = index
            name = function.get("name") or ""
            item = {"call_id": call.get("id") or "", "name": name, "arguments": ""}
            if name in self._asked.namespaces:
                item["namespace"] = self._asked.namespaces[name]
            yield from self._begin("function_call", "fc", item)
        arguments = function.get("arguments") or ""
        self._items[-1]["arguments"] += arguments
        if arguments and not self._is_free_form(self._items[-1]):
            yield self._item_event("response.function_call_arguments.delta", delta=arguments)

    def _begin(self, kind: str, prefix: str, item: Json) -> Iterator[Json]:
        identity = f"{prefix}_{uuid.uuid4().hex}"
        self._open = {"type": kind, "id": identity, "status": "in_progress", **item}
        self._items.append(self._open)
        if not self._is_free_form(self._open):
            yield self._index_event("response.output_item.added", item=_copy(self._open))

    def _close(self) -> Iterator[Json]:
        item, self._open = self._open, None
        if item is None:
            return
        item["status"] = "completed"
        if item["type"] == "function_call":
            if self._is_free_form(item):
                self._make_free_form(item)
                yield self._index_event("response.output_item.added", item=_copy(item))
            else:
                yield self._item_event(
                    "response.function_call_arguments.done", arguments=item["arguments"]
                )
        else:
            part = item["content"][0]
            yield self._part_event(f"response.{part['type']}.done", text=part["text"])
            yield self._part_event("response.content_part.done", part=dict(part))
        yield self._index_event("response.output_item.done", item=_copy(item))

    def _is_free_form(self, item: Json) -> bool:
        return item.get("name") in self._asked.free_form

    def _make_free_form(self, item: Json) -> None:
        item["type"] = "custom_tool_call"
        arguments = item.pop("arguments")
        try:
            item["input"] = str(json.loads(arguments)["input"])
        except (ValueError, KeyError, TypeError, RecursionError):
            item["input"] = arguments

    def _status(self) -> str:
        return "incomplete" if self._finish in _CUT else "completed"

    def _response(self, status: str) -> Json:
        cut = {"reason": "max_output_tokens"} if status == "incomplete" else None
        return {
            "id": self._response_id,
            "object": "response",
            "created_at": self._created,
            "status": status,
            "model": self._model,
            "output": [_copy(item) for item in self._items],
            "error": None,
            "incomplete_details": cut,
            "instructions": None,
            "metadata": {},
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
            "usage": _usage(self._usage) if self._usage else None,
        }

    def _event(self, kind: str, **fields: Any) -> Json:
        self._number += 1
        return {"type": kind, "sequence_number": self._number - 1, **fields}

    def _index_event(self, kind: str, **fields: Any) -> Json:
        return self._event(kind, output_index=len(self._items) - 1, **fields)

    def _item_event(self, kind: str, **fields: Any) -> Json:
        return self._index_event(kind, item_id=self._items[-1]["id"], **fields)

    def _part_event(self, kind: str, **fields: Any) -> Json:
        return self._item_event(kind, content_index=0, **fields)


def _copy(item: Json) -> Json:
    copy = dict(item)
    if "content" in copy:
        copy["content"] = [dict(part) for part in copy["content"]]
    return copy


def _usage(usage: Json) -> Json:
    asked, told = usage.get("prompt_tokens") or 0, usage.get("completion_tokens") or 0
    return {
        "input_tokens": asked,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": told,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": asked + told,
    }
