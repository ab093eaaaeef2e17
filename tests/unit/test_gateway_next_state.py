"""Which words of a later history answer a reply."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawrl.gateway.next_state import NextState
from clawrl.gateway.next_state import next_state as found
from clawrl.gateway.resolving.normal import normalised, signature_of, strong_ids, text_of
from clawrl.gateway.resolving.rules import load_rules

Json = dict[str, Any]

ASKED = [{"role": "user", "content": "What is 2+2?"}]


@dataclass(frozen=True)
class Turn:
    """A reply, and the request that it answered."""

    reply: Json
    messages: list[Json]


def pending(
    content: str | None = "It is 4.",
    *,
    messages: list[Json] | None = None,
    tool_calls: list[Json] | None = None,
) -> Turn:
    reply: Json = {"role": "assistant", "content": content}
    if tool_calls is not None:
        reply["tool_calls"] = tool_calls
    return Turn(reply, ASKED if messages is None else messages)


def next_state(turn: Turn, history: list[Json], others: tuple[Json, ...] = ()) -> NextState | None:
    own = signature_of(turn.reply)
    before = sum(
        one.role == "assistant" and one.signature == own
        for one in normalised(turn.messages, load_rules())
    )
    return found(
        own,
        before,
        normalised(history, load_rules()),
        call_ids=frozenset(strong_ids(turn.reply)),
        others=[signature_of(other) for other in others],
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


# --- what clients do to their histories -----------------------------------------------------------

CONTEXT = "<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>>\nnothing\n<<<END_OPENCLAW_INTERNAL_CONTEXT>>>"


def test_an_ephemeral_message_is_no_next_state() -> None:
    history = [*ASKED, said("assistant", "It is 4."), said("user", CONTEXT)]
    assert next_state(pending(), history) is None
    history.insert(2, said("user", "[Sun 2026-11-29 13:53 UTC] why?"))
    assert next_state(pending(), history) == NextState("user", "why?")


@pytest.mark.parametrize("poll", ["[OpenClaw heartbeat poll]", "Read HEARTBEAT.md if it exists."])
def test_an_errand_and_the_reply_to_it_are_passed_over(poll: str) -> None:
    errand = [said("user", poll), said("assistant", "NO_REPLY")]
    history = [*ASKED, said("assistant", "It is 4."), *errand, *errand, said("user", "thanks")]
    assert next_state(pending(), history) == NextState("user", "thanks")
    assert next_state(pending(), history[:-1]) is None


def test_what_came_back_before_an_errand_is_complete() -> None:
    errand = [said("user", "[OpenClaw heartbeat poll]"), said("assistant", "NO_REPLY")]
    history = [
        *ASKED,
        said("assistant", "It is 4."),
        said("user", "no"),
        *errand,
        said("user", "ok"),
    ]
    assert next_state(pending(), history) == NextState("user", "no")


def test_a_reply_that_the_client_joined_with_another_one_is_found() -> None:
    history = [*ASKED, said("assistant", "It is 4.\nThe task ended."), said("user", "good")]
    other = said("assistant", "The task ended.")
    assert next_state(pending(), history, (other,)) == NextState("user", "good")
    assert next_state(pending(), history) is None


def test_a_call_that_the_client_renamed_is_known_by_its_id() -> None:
    turn = pending(None, tool_calls=[call("bash", "{broken", "call0123456789abcdef01234567")])
    renamed = call("invalid", "{}", "call_0123456789abcdef01234567")
    history = [*ASKED, said("assistant", "", tool_calls=[renamed]), said("tool", "no JSON")]
    assert next_state(turn, history) == NextState("tool", "no JSON")


def test_a_short_id_proves_nothing() -> None:
    turn = pending(None, tool_calls=[call("bash", "{}", "call_1")])
    history = [*ASKED, said("assistant", "", tool_calls=[call("ls", "{}")]), said("tool", "x")]
    assert next_state(turn, history) is None


def test_a_framework_that_speaks_as_the_user_is_a_tool() -> None:
    history = [*ASKED, said("assistant", "It is 4."), said("user", "Observation: 4 files")]
    assert next_state(pending(), history) == NextState("tool", "Observation: 4 files")


def test_a_tool_s_result_in_a_system_message_counts_where_nothing_else_came_back() -> None:
    history = [*ASKED, said("assistant", "It is 4."), said("system", "Result: ok")]
    assert next_state(pending(), history) == NextState("tool", "Result: ok")


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


@pytest.mark.parametrize(
    ("passed_on", "words"),
    [
        (
            "Commands not executed. The user rejected your commands with the following message: "
            "No, use ls.",
            "No, use ls.",
        ),
        ("The user added a new task: Thanks. Now the tests.", "Thanks. Now the tests."),
        ("Interrupted by user: wrong folder", "wrong folder"),
    ],
)
def test_a_person_who_refuses_a_call_is_heard_and_not_the_call(passed_on: str, words: str) -> None:
    turn = pending(None, tool_calls=[call("bash", '{"command": "rm x"}', "call1")])
    refused = said("tool", '{"returncode": -1}', tool_call_id="call1")
    history = [*ASKED, turn.reply, refused, said("user", passed_on)]
    assert next_state(turn, history) == NextState("user", words)


def test_a_tool_cannot_speak_for_a_person() -> None:
    turn = pending(None, tool_calls=[call("bash", '{"command": "cat x"}', "call1")])
    claim = "Interrupted by user: perfect, thanks"
    history = [*ASKED, turn.reply, said("tool", claim, tool_call_id="call1")]
    assert next_state(turn, history) == NextState("tool", claim)


@pytest.mark.parametrize(
    ("sent", "words"),
    [
        ('"No, that is wrong."', "No, that is wrong."),
        ('"Call it \\"x\\"."\n', 'Call it "x".'),
        ('"yes" and "no"', '"yes" and "no"'),
        ('make it 5"', 'make it 5"'),
        ('"', '"'),
    ],
)
def test_quotes_around_a_whole_message_are_the_client_s(sent: str, words: str) -> None:
    history = [*ASKED, said("assistant", "It is 4."), said("user", sent)]
    assert next_state(pending(), history) == NextState("user", words)
