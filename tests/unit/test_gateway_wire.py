"""`/v1/responses`, tool calls, explicit feedback and limits, as clients meet them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from clawrl.errors import EngineError
from tests.unit.test_gateway_chat import ASKED, Gateway, Json, events, follow


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[Gateway]:
    gateway = Gateway(tmp_path)
    yield gateway
    await gateway.http.aclose()
    gateway.writer.close()


CALL = {
    "index": 0,
    "id": "call_0",
    "type": "function",
    "function": {"name": "ls", "arguments": '{"in": "/"}'},
}
TOOLS = [{"type": "function", "name": "ls", "parameters": {"type": "object"}}]


async def respond(gateway: Gateway, items: Any = "What is 2+2?", **body: Any) -> Any:
    headers = body.pop("headers", {})
    answer = await gateway.http.post(
        "/v1/responses", json={"model": "policy", "input": items, **body}, headers=headers
    )
    return answer


def streamed(text: str) -> list[Json]:
    """The events of a stream; each names itself twice."""
    found: list[Json] = []
    for block in text.strip().split("\n\n"):
        name, data = block.split("\n")
        event = json.loads(data.removeprefix("data: "))
        assert name == f"event: {event['type']}"
        found.append(event)
    assert [one["sequence_number"] for one in found] == list(range(len(found)))
    return found


# --- /v1/responses --------------------------------------------------------------------------------


async def test_a_response_is_recorded_as_exactly_as_a_completion(gateway: Gateway) -> None:
    answer = await respond(gateway, instructions="Be brief.", max_output_tokens=9)
    assert answer.status_code == 200
    told = answer.json()
    assert (told["object"], told["status"]) == ("response", "completed")
    assert told["output"][0]["content"][0]["text"] == "The answer is 4."
    assert told["usage"]["output_tokens"] == 4
    record = await gateway.one()
    assert told["id"].removeprefix("resp_") == record.interaction_id.removeprefix("chatcmpl-")
    assert record.route == "responses"
    assert record.reply_ids == [10, 11, 12, 13]
    assert record.messages[0] == {"role": "system", "content": "Be brief."}
    assert record.sampling.max_tokens == 9


async def test_a_streamed_response_builds_the_same_object(gateway: Gateway) -> None:
    answer = await respond(gateway, stream=True)
    told = streamed(answer.text)
    kinds = [one["type"] for one in told]
    assert kinds[:4] == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
    ]
    assert kinds[-4:] == [
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.completed",
    ]
    deltas = [one["delta"] for one in told if one["type"] == "response.output_text.delta"]
    assert "".join(deltas) == "The answer is 4."
    assert len(deltas) == 4  # as they came, not all at once
    final = told[-1]["response"]
    assert final["output"][0]["content"][0]["text"] == "The answer is 4."
    assert final["usage"]["total_tokens"] == 7


@pytest.mark.parametrize("stream", [False, True])
async def test_a_response_with_calls_goes_on_from_their_results(
    gateway: Gateway, stream: bool
) -> None:
    gateway.engine.tool_calls = [CALL]
    answer = await respond(gateway, tools=TOOLS, stream=stream)
    told = streamed(answer.text)[-1]["response"] if stream else answer.json()
    call = told["output"][-1]
    assert (call["type"], call["name"], call["arguments"]) == ("function_call", "ls", '{"in": "/"}')
    history = [
        {"role": "user", "content": "What is 2+2?"},
        *({"type": "message", **item} for item in told["output"][:-1]),
        call,
        {"type": "function_call_output", "call_id": call["call_id"], "output": "bin etc"},
    ]
    gateway.engine.tool_calls = None
    await respond(gateway, history, tools=TOOLS)
    ((interaction, feedback),) = gateway.given
    assert (feedback.role, feedback.content) == ("tool", "bin etc")
    assert interaction.reply["tool_calls"][0]["id"] == call["call_id"]


async def test_calls_of_groups_and_of_free_form_come_back_as_the_client_knows_them(
    gateway: Gateway,
) -> None:
    gateway.engine.tool_calls = [
        {**CALL, "function": {"name": "close", "arguments": "{}"}},
        {
            **CALL,
            "index": 1,
            "id": "b",
            "function": {"name": "patch", "arguments": '{"input":"x"}'},
        },
    ]
    tools = [
        {"type": "namespace", "name": "agents", "tools": [{"type": "function", "name": "close"}]},
        {"type": "custom", "name": "patch"},
    ]
    answer = await respond(gateway, tools=tools, stream=True)
    close, patch = streamed(answer.text)[-1]["response"]["output"][-2:]
    assert (close["type"], close["namespace"]) == ("function_call", "agents")
    assert (patch["type"], patch["input"]) == ("custom_tool_call", "x")


async def test_a_response_may_name_the_one_before_it(gateway: Gateway) -> None:
    first = (await respond(gateway, instructions="Be brief.")).json()
    answer = await respond(gateway, "shorter", previous_response_id=first["id"])
    assert answer.status_code == 200
    _, second = await gateway.interactions()
    assert [one["role"] for one in second.messages] == ["system", "user", "assistant", "user"]
    ((_, feedback),) = gateway.given
    assert feedback.content == "shorter"
    unknown = await respond(gateway, "shorter", previous_response_id="resp_nobody")
    assert unknown.status_code == 400
    assert unknown.json()["error"]["code"] == "previous_response_not_found"


async def test_a_response_of_another_user_is_not_known(tmp_path: Path) -> None:
    gateway = Gateway(tmp_path, keys={"ann": "key-a", "bob": "key-b"})
    ann, bob = ({"authorization": f"Bearer {key}"} for key in ("key-a", "key-b"))
    first = (await respond(gateway, headers=ann)).json()
    stolen = await respond(gateway, "x", previous_response_id=first["id"], headers=bob)
    assert stolen.status_code == 400
    gateway.writer.close()


async def test_a_response_that_breaks_ends_with_its_error(gateway: Gateway) -> None:
    gateway.engine.error, gateway.engine.error_after = EngineError("gone"), 2
    told = streamed((await respond(gateway, stream=True)).text)
    assert told[-1]["type"] == "response.failed"
    assert "gone" in told[-1]["response"]["error"]["message"]


async def test_a_cut_response_says_so(gateway: Gateway) -> None:
    gateway.engine.finish_reason = "length"
    told = (await respond(gateway)).json()
    assert (told["status"], told["incomplete_details"]) == (
        "incomplete",
        {"reason": "max_output_tokens"},
    )


async def test_thinking_is_an_item_of_its_own(gateway: Gateway) -> None:
    def think(part: Json) -> Json:
        for choice in part["choices"]:
            if choice.get("delta", {}).get("content") == "The":
                choice["delta"]["reasoning"] = "two and two"
        return part

    gateway.engine.change = think
    output = streamed((await respond(gateway, stream=True)).text)[-1]["response"]["output"]
    assert [item["type"] for item in output] == ["reasoning", "message"]
    assert output[0]["content"][0]["text"] == "two and two"
    record = await gateway.one()
    assert record.reply["reasoning_content"] == "two and two"


# --- tool calls of chat completions ---------------------------------------------------------------


async def test_calls_get_ids_that_no_other_call_has(gateway: Gateway) -> None:
    gateway.engine.tool_calls = [CALL]
    first = await gateway.say(ASKED, None)
    second = await gateway.say([{"role": "user", "content": "again"}], None)
    ids = [reply["tool_calls"][0]["id"] for reply in (first, second)]
    assert len(set(ids)) == 2
    assert all(identity.isalnum() and len(identity) == 28 for identity in ids)
    record = (await gateway.interactions())[0]
    assert record.reply["tool_calls"][0]["id"] == ids[0]


# --- sampling -------------------------------------------------------------------------------------


async def test_the_client_is_told_why_a_turn_is_not_learned_from(gateway: Gateway) -> None:
    plain = await gateway.post()
    assert "x-clawrl-untrainable" not in plain.headers
    assert plain.headers["x-clawrl-turn"] == "main"
    assert plain.headers["x-clawrl-interaction-id"] == plain.json()["id"]
    greedy = await gateway.post(temperature=0, stream=True)
    assert greedy.headers["x-clawrl-untrainable"] == "sampling:temperature"


async def test_sampling_can_be_overridden_so_that_every_turn_is_learned_from(
    tmp_path: Path,
) -> None:
    gateway = Gateway(tmp_path, sampling="override")
    answer = await gateway.post(temperature=0, top_p=0.9, presence_penalty=1, max_tokens=5)
    assert "x-clawrl-untrainable" not in answer.headers
    (sent,) = gateway.engine.bodies
    assert (sent["temperature"], sent["max_tokens"]) == (0.7, 5)
    assert "top_p" not in sent
    assert "presence_penalty" not in sent
    form = await gateway.post(response_format={"type": "json_object"})
    assert form.headers["x-clawrl-untrainable"] == "sampling:response_format"
    gateway.writer.close()


# --- /v1/feedback ---------------------------------------------------------------------------------


async def rate(gateway: Gateway, **body: Any) -> Any:
    return await gateway.http.post("/v1/feedback", json=body)


async def test_a_thumb_is_the_next_state_of_its_turn(gateway: Gateway) -> None:
    turn = (await gateway.post(session_id="s")).json()
    answer = await rate(gateway, interaction_id=turn["id"], score=-1, text="Say it in French.")
    assert answer.status_code == 200
    ((interaction, feedback),) = gateway.given
    assert interaction.interaction_id == turn["id"]
    assert (feedback.source, feedback.score) == ("explicit", -1)
    assert feedback.content == "Say it in French."
    again = await rate(gateway, interaction_id=turn["id"], score=1)
    assert again.status_code == 404
    await gateway.say(follow(turn["choices"][0]["message"], "thanks"))
    assert len(gateway.given) == 1


async def test_a_session_s_newest_turn_can_be_rated_by_the_session(gateway: Gateway) -> None:
    await gateway.say(ASKED)
    assert (await rate(gateway, session_id="s", score=1)).status_code == 200
    assert gateway.given[0][1].score == 1


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"interaction_id": "x"},
        {"interaction_id": "x", "session_id": "y", "score": 1},
        {"interaction_id": "x", "score": 2},
        {"interaction_id": "x", "score": True},
        {"interaction_id": "x", "score": 1, "rating": 5},
        {"interaction_id": "x", "text": "  "},
        {"interaction_id": 3, "score": 1},
    ],
)
async def test_feedback_that_says_nothing_is_refused(gateway: Gateway, body: Json) -> None:
    answer = await rate(gateway, **body)
    assert answer.status_code == 400
    assert answer.json()["error"]["type"] == "invalid_request_error"


async def test_nobody_rates_another_user_s_turns(tmp_path: Path) -> None:
    gateway = Gateway(tmp_path, keys={"ann": "key-a", "bob": "key-b"})
    ann, bob = ({"authorization": f"Bearer {key}"} for key in ("key-a", "key-b"))
    turn = (await gateway.post(session_id="s", headers=ann)).json()
    for body in ({"interaction_id": turn["id"]}, {"session_id": "s"}, {"session_id": "ann:s"}):
        answer = await gateway.http.post("/v1/feedback", json={**body, "score": 1}, headers=bob)
        assert answer.status_code == 404
    assert gateway.given == []
    gateway.writer.close()


# --- limits ---------------------------------------------------------------------------------------


async def test_over_the_limit_a_client_is_told_to_come_again(tmp_path: Path) -> None:
    gateway = Gateway(tmp_path, max_requests=1)
    gateway.engine.gate = asyncio.Event()
    slow = asyncio.create_task(gateway.post(session_id="a", stream=True))
    await gateway.engine.entered.wait()
    refused = await gateway.post(session_id="b")
    assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
    assert refused.json()["error"]["code"] == "too_many_requests"
    gate, gateway.engine.gate = gateway.engine.gate, None
    gate.set()
    assert events((await slow).text)
    assert (await gateway.post(session_id="b")).status_code == 200
    gateway.writer.close()
