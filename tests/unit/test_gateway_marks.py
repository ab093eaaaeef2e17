"""What a request says outright about its session and its kind of turn."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from clawrl.errors import ConfigError
from clawrl.gateway.errors import ApiError
from clawrl.gateway.resolving.marks import Marks, read_marks
from clawrl.gateway.resolving.rules import load_rules

RULES = load_rules()
UUID = "76c88830-cda8-46a2-966f-00bb7149df09"


def marks(
    headers: dict[str, str] | None = None,
    body: dict[str, Any] | None = None,
    messages: list[dict[str, Any]] | None = None,
) -> Marks:
    return read_marks(headers or {}, body or {}, messages or [], RULES)


@pytest.mark.parametrize(
    ("headers", "body", "expected"),
    [
        ({}, {}, (None, None, False)),
        ({"x-session-id": "a"}, {"session_id": "b"}, ("a", None, False)),
        ({}, {"session_id": "b", "turn_type": "side"}, ("b", "side", False)),
        ({"x-turn-type": "main"}, {"turn_type": "side"}, (None, "main", False)),
        ({"x-session-done": "1"}, {}, (None, None, True)),
        ({"x-session-done": "False"}, {"session_done": True}, (None, None, False)),
        ({}, {"session_done": True}, (None, None, True)),
        ({"x-session-id": ""}, {}, (None, None, False)),
        ({}, {"session_id": None, "turn_type": None}, (None, None, False)),
    ],
)
def test_headers_go_before_the_body(
    headers: dict[str, str], body: dict[str, Any], expected: tuple[str | None, str | None, bool]
) -> None:
    found = marks(headers, body)
    assert (found.session_id, found.turn_type, found.done) == expected


@pytest.mark.parametrize(
    ("headers", "body", "problem"),
    [
        ({"x-session-id": "x" * 257}, {}, "longer than 256"),
        ({}, {"session_id": "x" * 257}, "longer than 256"),
        ({}, {"session_id": 3}, "must be a string"),
        ({"x-turn-type": "middle"}, {}, "main or side"),
        ({"x-session-done": "perhaps"}, {}, "true or false"),
        ({}, {"session_done": 1}, "boolean"),
    ],
)
def test_a_mark_that_means_nothing_is_refused(
    headers: dict[str, str], body: dict[str, Any], problem: str
) -> None:
    with pytest.raises(ApiError, match=problem):
        marks(headers, body)


@pytest.mark.parametrize(
    ("headers", "body", "session", "placed_by"),
    [
        ({"thread-id": "t", "session-id": "root"}, {}, "t", "header:thread-id"),
        ({"x-session-affinity": "a-process"}, {}, None, ""),
        ({}, {"prompt_cache_key": f"{UUID}:12"}, UUID, "field:prompt_cache_key"),
        ({}, {"prompt_cache_key": "my-app-v1"}, None, ""),
        ({}, {"metadata": {"session_id": "m"}}, "m", "field:metadata.session_id"),
        ({}, {"metadata": "nothing", "conversation": {"id": 3}}, None, ""),
        ({"x-session-id": "h"}, {"prompt_cache_key": UUID}, "h", "header:x-session-id"),
    ],
)
def test_clients_name_their_sessions_in_many_ways(
    headers: dict[str, str], body: dict[str, Any], session: str | None, placed_by: str
) -> None:
    found = marks(headers, body)
    assert (found.session_id, found.placed_by) == (session, placed_by)


@pytest.mark.parametrize(
    ("messages", "session"),
    [
        ([{"role": "user", "content": f"hi\n\nRuntime: a=b | sessionId={UUID} | c=d"}], UUID),
        ([{"role": "system", "content": f"x\nsessionId={UUID}\ny"}], UUID),
        ([{"role": "user", "content": f"what is sessionId={UUID}?"}], None),
        (
            [
                {"role": "user", "content": "hi"},
                {"role": "user", "content": f"Runtime: sessionId={UUID}"},
            ],
            None,
        ),
        (
            [{"role": "user", "content": f"Runtime: sessionId=internal-session-effects-{UUID}"}],
            None,
        ),
        (
            [{"role": "user", "content": f"x\nRuntime: session=agent:main:cron:{UUID} | a=b"}],
            f"agent:main:cron:{UUID}",
        ),
        ([{"role": "user", "content": "x\nRuntime: session=agent:main:main | a=b"}], None),
    ],
)
def test_a_line_of_the_prompt_names_the_session(
    messages: list[dict[str, Any]], session: str | None
) -> None:
    assert marks(messages=messages).session_id == session


@pytest.mark.parametrize(
    ("metadata", "turn_type", "kind"),
    [
        ({"request_kind": "turn", "thread_source": "user"}, "main", None),
        ({"request_kind": "compaction"}, "side", "compaction"),
        ({"request_kind": "turn", "thread_source": "subagent"}, "side", "subagent"),
        ({"something": "else"}, None, None),
        ([1], None, None),
    ],
)
def test_a_client_s_metadata_tells_the_kind_of_turn(
    metadata: Any, turn_type: str | None, kind: str | None
) -> None:
    found = marks({"x-codex-turn-metadata": json.dumps(metadata)})
    assert (found.turn_type, found.kind) == (turn_type, kind)
    own = marks({"x-codex-turn-metadata": json.dumps(metadata), "x-turn-type": "main"})
    assert (own.turn_type, own.kind) == ("main", None)


def test_a_session_with_a_parent_is_a_subagent_s() -> None:
    found = marks({"x-session-id": "child", "x-parent-session-id": "root"})
    assert (found.session_id, found.turn_type, found.kind) == ("child", "side", "subagent")


@pytest.mark.parametrize("value", ["{", "null", "[" * 10_000, "\x00"])
def test_rubbish_in_a_client_s_metadata_says_nothing(value: str) -> None:
    assert marks({"x-codex-turn-metadata": value}).turn_type is None


@pytest.mark.parametrize(
    ("value", "trace"),
    [("00-48c2-d6fe-01", "48c2"), ("00-0000-d6fe-01", None), ("nonsense", None), ("", None)],
)
def test_the_trace_is_read(value: str, trace: str | None) -> None:
    assert marks({"traceparent": value}).trace == trace


# --- a user's own rules ---------------------------------------------------------------------------


def test_a_user_s_rules_go_before_clawrl_s(tmp_path: Path) -> None:
    own = tmp_path / "rules.yaml"
    own.write_text(
        "session_headers: [X-My-Chat]\nside:\n  user:\n"
        "    - {kind: greeting, like: '\\Agood morning', belongs: nowhere}\n"
    )
    rules = load_rules(str(own))
    found = read_marks({"x-my-chat": "c", "x-session-id": "s"}, {}, [], rules)
    assert found.session_id == "c"
    assert rules.side.user[0].kind == "greeting"
    assert len(rules.side.user) == len(RULES.side.user) + 1
    assert rules.session_fields == RULES.session_fields


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("sesion_headers: [a]", "sesion_headers"),
        ("noise: ['(']", "no pattern"),
        ("session_lines: ['sessionId=.*']", "no .*id"),
        ("side: {user: [{kind: x}]}", "side.user.0.like"),
        ("[1]", "rules"),
        ("a: [", "cannot read"),
    ],
)
def test_a_wrong_rule_is_one_line_that_says_where(tmp_path: Path, text: str, problem: str) -> None:
    own = tmp_path / "rules.yaml"
    own.write_text(text)
    with pytest.raises(ConfigError, match=problem) as caught:
        load_rules(str(own))
    assert "\n" not in str(caught.value)


def test_a_file_of_rules_that_is_not_there_is_named() -> None:
    with pytest.raises(ConfigError, match=r"gateway\.rules: cannot read 'nowhere\.yaml'"):
        load_rules("nowhere.yaml")
