"""Requests to `/v1/responses`, translated."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawrl.gateway.errors import ApiError
from clawrl.gateway.responses.asked import to_chat

Json = dict[str, Any]


def messages(items: Any, **more: Any) -> list[Json]:
    return to_chat({"input": items, **more}).chat["messages"]


def test_a_text_is_a_user_s_message() -> None:
    assert messages("hi", instructions="Be kind.") == [
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": "hi"},
    ]


def test_a_reply_s_words_and_calls_are_one_message() -> None:
    items = [
        {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "a"}]},
        {"role": "user", "content": "list"},
        {"type": "reasoning", "encrypted_content": "x"},
        {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "I look."}],
        },
        {"type": "function_call", "call_id": "c1", "name": "ls", "arguments": "{}"},
        {"type": "function_call", "call_id": "c2", "name": "ls", "arguments": '{"in": "/"}'},
        {"type": "function_call_output", "call_id": "c1", "output": "a"},
        {
            "type": "function_call_output",
            "call_id": "c2",
            "output": [{"type": "input_text", "text": "b"}],
        },
    ]
    developer, user, reply, first, second = messages(items)
    assert (developer["role"], developer["content"]) == ("developer", "a")
    assert user == {"role": "user", "content": "list"}
    assert reply["content"] == "I look."
    assert [call["id"] for call in reply["tool_calls"]] == ["c1", "c2"]
    assert first == {"role": "tool", "tool_call_id": "c1", "content": "a"}
    assert second == {"role": "tool", "tool_call_id": "c2", "content": "b"}


def test_an_image_stays_one() -> None:
    parts = [
        {"type": "input_text", "text": "What is it?"},
        {"type": "input_image", "image_url": "data:image/png;base64,AA=="},
    ]
    (message,) = messages([{"role": "user", "content": parts}])
    assert message["content"] == [
        {"type": "text", "text": "What is it?"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}},
    ]


def test_tools_in_groups_and_of_free_form_become_functions() -> None:
    inner = {"type": "function", "name": "close", "parameters": {"type": "object"}}
    asked = to_chat(
        {
            "input": "hi",
            "tools": [
                {"type": "namespace", "name": "agents", "tools": [inner]},
                {"type": "custom", "name": "apply_patch", "description": "Patch."},
                {"type": "web_search"},
            ],
            "tool_choice": {"type": "function", "name": "close"},
        }
    )
    assert [tool["function"]["name"] for tool in asked.chat["tools"]] == ["close", "apply_patch"]
    assert asked.namespaces == {"close": "agents"}
    assert asked.free_form == {"apply_patch"}
    assert asked.chat["tool_choice"] == {"type": "function", "function": {"name": "close"}}


def test_a_free_form_call_is_an_object_with_its_text() -> None:
    items = [{"type": "custom_tool_call", "call_id": "c", "name": "apply_patch", "input": "***"}]
    (message,) = messages(items)
    assert message["tool_calls"][0]["function"]["arguments"] == '{"input": "***"}'


def test_what_both_apis_have_is_kept_under_its_other_name() -> None:
    form = {"type": "json_schema", "name": "n", "schema": {"type": "object"}, "strict": True}
    asked = to_chat(
        {
            "input": "hi",
            "max_output_tokens": 7,
            "temperature": 0.5,
            "stream": True,
            "store": False,
            "text": {"format": form},
        }
    ).chat
    assert (asked["max_tokens"], asked["temperature"], asked["stream"]) == (7, 0.5, True)
    assert asked["response_format"]["json_schema"]["name"] == "n"
    assert "store" not in asked


def test_a_response_goes_on_from_the_one_that_it_names() -> None:
    before = [
        {"role": "system", "content": "old rules"},
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": "Hello!"},
    ]
    asked = to_chat({"input": "more", "instructions": "new rules"}, before).chat["messages"]
    assert [one["content"] for one in asked] == ["new rules", "hi", "Hello!", "more"]
    kept = to_chat({"input": "more"}, before).chat["messages"]
    assert [one["content"] for one in kept] == ["old rules", "hi", "Hello!", "more"]


@pytest.mark.parametrize("items", [None, 3, [], {}, [3], [{"type": "reasoning"}]])
def test_an_input_without_a_message_is_refused(items: Any) -> None:
    with pytest.raises(ApiError, match="input"):
        messages(items)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["type", "role", "content", "text", "name", "tools", "output", "format"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(JSON, JSON, JSON, JSON)
def test_no_form_of_request_makes_it_fail(items: Any, tools: Any, choice: Any, text: Any) -> None:
    body = {"input": items, "tools": tools, "tool_choice": choice, "text": text}
    with suppress(ApiError):
        assert all(isinstance(one["role"], str) for one in to_chat(body).chat["messages"])
