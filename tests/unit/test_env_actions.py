"""A reply becomes one action, or a next state that says what was expected; never an error."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawrl.environments.actions import Call, read_block, read_call
from clawrl.environments.states import (
    Finished,
    Malformed,
    Refused,
    TerminalState,
    ToolState,
    ends_kept,
    state_of,
)
from clawrl.protocols import Action, ToolCall

EXPECTED = "Write one bash block."
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "run",
            "parameters": {
                "type": "object",
                "properties": {"command": {"type": "string"}, "times": {"type": "integer"}},
                "required": ["command"],
            },
        },
    }
]


def block(text):
    return read_block(Action(text=text), ("bash", "sh"), EXPECTED)


def call(name, arguments):
    return read_call(Action(calls=(ToolCall(name=name, arguments=arguments),)), TOOLS)


@pytest.mark.parametrize(
    "text",
    [
        "```bash\nls\n```",
        "I look first.\n\n```sh\nls\n```\nThen I go on.",
        "```\nls\n```",
        "~~~bash\nls\n~~~",
        "<think>```bash\nrm x\n```</think>```bash\nls\n```",
        "For example:\n```python\nprint(1)\n```\n```bash\nls\n```",
    ],
)
def test_the_one_block_of_a_reply_is_its_action(text):
    assert block(text) == "ls"


def test_a_block_may_hold_a_shorter_fence():
    assert block("````bash\ncat <<'E'\n```\nE\n````") == "cat <<'E'\n```\nE"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "no block"),
        ("I would list the files.", "no block"),
        ("```bash\nls", "not closed"),
        ("```bash\nls\n```\n```bash\npwd\n```", "2 blocks"),
        ("```bash\n\n```", "empty"),
        ("```python\nprint(1)\n```", "no block"),
    ],
)
def test_a_reply_without_exactly_one_block_is_told_what_was_expected(text, problem):
    state = block(text)
    assert isinstance(state, Malformed)
    assert problem in state.problem
    assert EXPECTED in state.text()


@given(st.text(alphabet=st.sampled_from(list('`~\n abs{}<>/"\\')), max_size=80))
def test_no_reply_makes_reading_fail(text):
    assert isinstance(block(text), str | Malformed)
    action = Action(text=f"<tool_call>{text}</tool_call>")
    assert isinstance(read_call(action, TOOLS), Call | Malformed)


def test_a_tool_call_is_read_with_its_arguments():
    assert call("run", '{"command": "ls", "times": 2}') == Call(
        "run", {"command": "ls", "times": 2}
    )


def test_a_call_left_in_the_text_is_read_as_well():
    text = '<tool_call>\n{"name": "run", "arguments": {"command": "echo {}"}}\n</tool_call>'
    assert read_call(Action(text=text), TOOLS) == Call("run", {"command": "echo {}"})


@pytest.mark.parametrize(
    ("name", "arguments", "problem"),
    [
        ("walk", "{}", "no tool 'walk'"),
        ("run", "{", "no JSON"),
        ("run", "[" * 100_000, "no JSON"),
        ("run", "[]", "must be an object"),
        ("run", "{}", "'command' is missing"),
        ("run", '{"command": 5}', "'command' must be of type string"),
        ("run", '{"command": "ls", "times": true}', "'times' must be of type integer"),
        ("run", '{"command": "ls", "x": 1}', "no argument 'x'"),
    ],
)
def test_a_wrong_call_is_told_what_was_expected(name, arguments, problem):
    state = call(name, arguments)
    assert isinstance(state, Malformed)
    assert problem in state.text()
    assert "run" in state.expected


def test_two_calls_at_once_and_none_are_malformed():
    one = ToolCall(name="run", arguments='{"command": "ls"}')
    assert "2 tools" in read_call(Action(calls=(one, one)), TOOLS).text()
    assert "no tool" in read_call(Action(text="I am done."), TOOLS).text()


def test_what_a_command_prints_cannot_stand_after_the_exit_code():
    state = TerminalState(stdout="[exit code 0]\n", stderr="", exit_code=1)
    assert state.text() == "[exit code 0]\n[exit code 1]"


def test_a_terminal_state_tells_streams_and_ending_apart():
    state = TerminalState(stdout="out\n", stderr="err\n", exit_code=3)
    assert state.text() == "out\n[stderr]\nerr\n[exit code 3]"
    late = TerminalState(stdout="", stderr="", exit_code=None, timed_out=True, seconds=10)
    assert late.text() == "(no output)\n[timed out after 10 s and was killed]"


@pytest.mark.parametrize(
    "state",
    [
        Malformed(problem="p", expected="e"),
        Refused(reason="r"),
        Finished(done=True),
        TerminalState(stdout="o", stderr="e", exit_code=None, timed_out=True, seconds=1.5),
        ToolState(tool="t", status="error", error="boom"),
    ],
)
def test_a_state_comes_back_from_the_wire_as_it_was(state):
    assert state_of(json.loads(state.model_dump_json())) == state


def test_long_text_keeps_head_and_tail():
    kept = ends_kept("a" * 500 + "b" * 500, 100)
    assert kept.startswith("a" * 50 + "\n")
    assert kept.endswith("\n" + "b" * 50)
    assert "900 characters left out" in kept
    assert ends_kept("short", 100) == "short"
