"""Malformed bodies, made from real ones: always a 4xx in OpenAI's format, or a reply."""

from __future__ import annotations

import copy
import json
import random
from pathlib import Path
from typing import Any

import pytest

from tests.captures import CAPTURES, rows
from tests.unit.test_gateway_chat import Gateway

RUBBISH: list[Any] = [
    None,
    True,
    -1,
    10**30,
    1.5,
    "",
    "\x00",
    "x" * 5000,
    [],
    [None],
    [[]],
    {},
    {"type": 3},
    {"a": {"b": [{}]}},
]


def _mangled(body: dict[str, Any], draw: random.Random) -> dict[str, Any]:
    """A body with one to three of its values replaced, dropped or moved."""
    body = copy.deepcopy(body)
    for _ in range(draw.randint(1, 3)):
        at: Any = body
        while True:
            keys = list(at) if isinstance(at, dict) else list(range(len(at)))
            if not keys:
                break
            key = draw.choice(keys)
            inner = at[key]
            if isinstance(inner, (dict, list)) and inner and draw.random() < 0.8:
                at = inner
                continue
            if isinstance(at, dict) and draw.random() < 0.2:
                del at[key]
            else:
                at[key] = draw.choice(RUBBISH)
            break
    return body


@pytest.mark.skipif(not CAPTURES.is_dir(), reason=f"no captures in {CAPTURES}")
async def test_malformed_bodies_are_refused_or_served_and_never_break_anything(
    tmp_path: Path,
) -> None:
    gateway = Gateway(tmp_path)
    draw = random.Random(7)
    captured = [row for row in rows() if len(str(row.body)) < 80_000]
    refused = 0
    for _ in range(300):
        row = draw.choice(captured)
        path = "/v1/responses" if "input" in row.body else "/v1/chat/completions"
        answer = await gateway.http.post(path, json=_mangled(row.body, draw), timeout=10)
        if answer.status_code == 200:
            continue
        refused += 1
        assert 400 <= answer.status_code < 500, answer.text
        error = answer.json()["error"]
        assert set(error) == {"message", "type", "param", "code"}
        assert "\n" not in error["message"]
    assert refused >= 30
    assert gateway.counters["failed"] == 0
    gateway.writer.close()


async def test_what_is_not_a_request_at_all_is_refused(tmp_path: Path) -> None:
    gateway = Gateway(tmp_path)
    for value in RUBBISH:
        for path in ("chat/completions", "responses", "feedback"):
            answer = await gateway.http.post(
                f"/v1/{path}",
                content=json.dumps(value),
                headers={"content-type": "application/json"},
            )
            assert answer.status_code == 400, (path, value)
    gateway.writer.close()
