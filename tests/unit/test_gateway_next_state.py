"""Which words of a later history answer a reply."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawrl.gateway.next_state import NextState, next_state, text_of
from clawrl.records.nouns import Interaction, Sampling, Weights

ASKED = [{"role": "user", "content": "What is 2+2?"}]


def pending(
    content: str | None = "It is 4.",
    *,
    messages: list[dict[str, Any]] | None = None,
    tool_calls: list[dict[str, Any]] | None = None,
) -> Interaction:
    reply: dict[str, Any] = {"role": "assistant", "content": content}
    if tool_calls is not None:
        reply["tool_calls"] = tool_calls
    return Interaction(
        interaction_id="chatcmpl-1",
        session_id="s",
        turn=0,
        turn_type="main",
        created=0.0,
        messages=ASKED if messages is None else messages,
        sampling=Sampling(),
        reply=reply,
        weights=Weights(version_first=0, version_last=0, digest=""),
    )


def said(role: str, content: Any, **more: Any) -> dict[str, Any]:
    return {"role": role, "content": content, **more}


def call(name: str, arguments: Any, identity: str = "call_1") -> dict[str, Any]:
    function = {"name": name, "arguments": arguments}
    return {"id": identity, "type": "function", "function": function}


def test_the_user_s_next_words_are_the_next_state() -> None:
    history = [*ASKED, said("assistant", "It is 4."), said("user", "no lists please")]
    assert next_state(pending(), history) == NextState("user", "no lists please")


@pytest.mark.parametrize(
    "echo", ["  It is\n4. ", [{"type": "text", "text": "It is 4."}], "<think>hm</think>It is 4."]
)
def test_the_reply_is_found_however_the_client_writes_it(echo: Any) -> None:
    history = [*ASKED, said("assistant", echo), said("user", "thanks")]
    assert next_state(pending(), history) == NextState("user", "thanks")


def test_a_reply_whose_thinking_the_client_cut_out_is_found() -> None:
    history = [*ASKED, said("assistant", "It is 4."), said("user", "thanks")]
    assert next_state(pending("two and two\n</think>\n\nIt is 4."), history) is not None


def test_several_messages_after_the_reply_are_joined_by_blank_lines() -> None:
    history = [
        *ASKED,
        said("assistant", "It is 4."),
        said("user", "hm"),
        said("user", [{"type": "text", "text": "shorter"}, {"type": "image_url"}]),
    ]
    assert next_state(pending(), history) == NextState("user", "hm\n\nshorter")


def test_system_messages_between_reply_and_next_state_are_passed_over() -> None:
    history = [
        *ASKED,
        said("assistant", "It is 4."),
        said("system", "reminder"),
        said("user", "ok"),
        said("developer", "reminder"),
        said("user", "next"),
    ]
    assert next_state(pending(), history) == NextState("user", "ok\n\nnext")


def test_tool_results_are_the_next_state_of_a_tool_call() -> None:
    turn = pending(None, tool_calls=[call("run", '{"cmd": "ls", "in": "/"}')])
    history = [
        *ASKED,
        said("assistant", "", tool_calls=[call("run", '{"in":"/","cmd":"ls"}', "call1")]),
        said("tool", "bin etc", tool_call_id="call1"),
        said("tool", "", tool_call_id="call2"),
        said("user", "go on"),
    ]
    assert next_state(turn, history) == NextState("tool", "bin etc\n\n\n\ngo on")


@pytest.mark.parametrize(
    "other",
    [
        [call("run", '{"cmd": "rm"}')],
        [call("read", '{"cmd": "ls"}')],
        [call("run", '{"cmd": "ls"}'), call("run", '{"cmd": "ls"}')],
        [],
        None,
        ["nonsense"],
    ],
)
def test_another_tool_call_is_another_reply(other: Any) -> None:
    turn = pending("", tool_calls=[call("run", '{"cmd": "ls"}')])
    history = [*ASKED, said("assistant", "", tool_calls=other), said("tool", "x")]
    assert next_state(turn, history) is None


def test_arguments_that_are_not_json_are_compared_as_text() -> None:
    turn = pending("", tool_calls=[call("run", "ls  -l")])
    history = [*ASKED, said("assistant", "", tool_calls=[call("run", "ls -l")]), said("tool", "x")]
    assert next_state(turn, history) == NextState("tool", "x")


@pytest.mark.parametrize(
    "history",
    [
        [*ASKED],
        [*ASKED, said("assistant", "It is 4.")],
        [*ASKED, said("assistant", "It is 5."), said("user", "no")],
        [*ASKED, said("user", "It is 4."), said("user", "no")],
        [*ASKED, said("assistant", "It is 4."), said("assistant", "Or 5?"), said("user", "no")],
        [],
    ],
)
def test_without_own_reply_or_words_after_it_there_is_no_next_state(
    history: list[dict[str, Any]],
) -> None:
    assert next_state(pending(), history) is None


def test_an_equal_older_reply_is_not_taken_for_the_one_that_was_taken_back() -> None:
    asked = [*ASKED, said("assistant", "OK"), said("user", "continue")]
    turn = pending("OK", messages=asked)
    assert next_state(turn, [*ASKED, said("assistant", "OK"), said("user", "stop")]) is None
    assert next_state(turn, [*asked, said("assistant", "OK"), said("user", "stop")]) == NextState(
        "user", "stop"
    )


@pytest.mark.parametrize("content", [None, 3, [], [{"type": "image_url"}], ["x"], [{"text": 3}]])
def test_content_without_text_is_empty(content: object) -> None:
    assert text_of(content) == ""


WORDS = st.text(st.characters(codec="utf-8"), max_size=20)
MESSAGES = st.lists(
    st.builds(said, st.sampled_from(["user", "assistant", "tool", "system"]), WORDS), max_size=6
)


@given(MESSAGES, WORDS, WORDS)
def test_an_appended_reply_and_answer_are_always_found(
    asked: list[dict[str, Any]], reply: str, answer: str
) -> None:
    turn = pending(reply, messages=asked)
    history = [*asked, turn.reply, said("user", answer)]
    assert next_state(turn, history) == NextState("user", answer)


@given(MESSAGES, WORDS)
def test_the_same_request_again_holds_no_next_state(
    asked: list[dict[str, Any]], reply: str
) -> None:
    assert next_state(pending(reply, messages=asked), asked) is None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=8,
)


MESSY = st.fixed_dictionaries(
    {},
    optional={
        "role": st.sampled_from(["user", "assistant", 3]),
        "content": JSON,
        "tool_calls": JSON,
    },
)


@given(st.lists(MESSY))
def test_no_history_of_any_form_makes_it_fail(history: list[dict[str, Any]]) -> None:
    state = next_state(pending(), history)
    assert state is None or state.role in ("user", "tool")
