"""The gateway over a scripted engine: what clients see, and what the run folder holds after."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette

from clawrl.config import schema
from clawrl.errors import EngineError, RequestError
from clawrl.gateway.app import create_app
from clawrl.records.folder import RunFolder
from clawrl.records.nouns import Feedback, Interaction
from clawrl.records.writer import RecordWriter
from clawrl.serving.policy import ServedPolicy
from tests.stub_engine import PROMPT_IDS, StubEngine

ASKED = [{"role": "user", "content": "What is 2+2?"}]
Json = dict[str, Any]


class Gateway:
    """The application, a client of it, and everything that it wrote."""

    def __init__(self, root: Path, **config: Any) -> None:
        self.folder = RunFolder(root)
        self.engine = StubEngine()
        self.served = ServedPolicy(3, "digest-3")
        self.writer = RecordWriter(self.folder, version=3, queue_records=1000)
        self.given: list[tuple[Interaction, Feedback]] = []
        self.app: Starlette = create_app(
            engine=self.engine,
            served=self.served,
            writer=self.writer,
            config=schema.Gateway(record_wait_ms=5000, **config),
            model_name="policy",
            template_kwargs={"enable_thinking": False},
            temperature=0.7,
            on_feedback=lambda interaction, feedback: self.given.append((interaction, feedback)),
        )
        transport = httpx.ASGITransport(self.app)
        self.http = httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8000")

    async def post(self, messages: list[Json] | None = None, **body: Any) -> httpx.Response:
        headers = body.pop("headers", {})
        body = {"model": "policy", "messages": messages or ASKED, **body}
        return await self.http.post("/v1/chat/completions", json=body, headers=headers)

    async def say(self, messages: list[Json], session: str | None = "s", **body: Any) -> Json:
        """One turn that must succeed; returns the assistant message."""
        if session is not None:
            body["session_id"] = session
        response = await self.post(messages, **body)
        assert response.status_code == 200, response.text
        return response.json()["choices"][0]["message"]

    @property
    def counters(self) -> dict[str, int]:
        return self.app.state.counters.as_dict()

    async def interactions(self) -> list[Interaction]:
        await asyncio.to_thread(self.writer.put(_LAST).result, 10)
        return [r for r in self.folder.interactions.read() if r.interaction_id != "last"]

    async def one(self) -> Interaction:
        (interaction,) = await self.interactions()
        return interaction


_LAST = Interaction.model_validate(
    {
        "interaction_id": "last",
        "session_id": "",
        "turn": 0,
        "turn_type": "side",
        "created": 0,
        "messages": [],
        "sampling": {},
        "reply": {},
        "weights": {"version_first": 0, "version_last": 0, "digest": ""},
    }
)


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[Gateway]:
    gateway = Gateway(tmp_path)
    yield gateway
    await gateway.http.aclose()
    gateway.writer.close()


def events(text: str) -> list[Json]:
    """The chunks of a stream; it must end with [DONE]."""
    lines = [line.removeprefix("data: ") for line in text.split("\n\n") if line]
    assert lines[-1] == "[DONE]"
    return [json.loads(line) for line in lines[:-1]]


def follow(reply: Json, words: str, before: list[Json] = ASKED) -> list[Json]:
    return [*before, reply, {"role": "user", "content": words}]


# --- one turn, and its record ---------------------------------------------------------------------


@pytest.mark.parametrize("stream", [False, True])
async def test_a_reply_is_recorded_with_its_exact_ids_and_log_probabilities(
    gateway: Gateway, stream: bool
) -> None:
    response = await gateway.post(stream=stream, session_id="s", seed=7, max_completion_tokens=9)
    assert response.status_code == 200
    record = await gateway.one()
    assert record.reply == {"role": "assistant", "content": "The answer is 4."}
    assert record.prompt_ids == PROMPT_IDS
    assert record.reply_ids == [10, 11, 12, 13]
    assert record.behaviour_logp == [-0.5] * 4
    assert record.usage.completion_tokens == 4
    assert (record.session_id, record.turn, record.turn_type) == ("s", 0, "main")
    assert record.weights.model_dump() == {
        "version_first": 3,
        "version_last": 3,
        "digest": "digest-3",
    }
    assert record.sampling.model_dump(exclude={"top_p", "top_k"}) == {
        "temperature": 1.0,
        "max_tokens": 9,
        "seed": 7,
    }
    assert record.template_kwargs == {"enable_thinking": False}
    assert record.finish_reason == "stop"
    assert record.untrainable is None
    assert record.latency_s is not None


async def test_the_interaction_id_is_the_id_that_the_client_sees(gateway: Gateway) -> None:
    whole = (await gateway.post()).json()
    chunks = events((await gateway.post(stream=True)).text)
    first, second = await gateway.interactions()
    assert whole["id"] == first.interaction_id
    assert {chunk["id"] for chunk in chunks} == {second.interaction_id}
    assert len(first.interaction_id) == len("chatcmpl-") + 24


async def test_a_stream_says_the_same_as_the_whole_reply(gateway: Gateway) -> None:
    chunks = events((await gateway.post(stream=True)).text)
    words = [chunk["choices"][0]["delta"].get("content", "") for chunk in chunks]
    assert "".join(words) == "The answer is 4."
    assert [chunk["choices"][0]["finish_reason"] for chunk in chunks] == [None] * 4 + ["stop"]


async def test_ids_log_probabilities_and_usage_are_shown_only_if_asked_for(
    gateway: Gateway,
) -> None:
    hidden = (await gateway.post()).text + (await gateway.post(stream=True)).text
    for word in ("token_ids", "prompt_text", '"logprob"', "completion_tokens"):
        assert (word in hidden) == (word == "completion_tokens")  # a whole reply has its usage
    asked: Json = {"logprobs": True, "return_token_ids": True}
    whole = (await gateway.post(**asked)).json()
    assert whole["prompt_token_ids"] == PROMPT_IDS
    assert whole["choices"][0]["token_ids"] == [10, 11, 12, 13]
    assert len(whole["choices"][0]["logprobs"]["content"]) == 4
    plain = events((await gateway.post(stream=True)).text)
    assert all("usage" not in chunk and chunk["choices"] for chunk in plain)
    options = {"stream_options": {"include_usage": True}}
    chunks = events((await gateway.post(stream=True, **asked, **options)).text)
    assert chunks[-1]["usage"]["completion_tokens"] == 4
    assert [i for c in chunks for d in c["choices"] for i in d.get("token_ids", [])] == [
        10,
        11,
        12,
        13,
    ]


async def test_the_engine_gets_the_request_without_our_marks_and_with_defaults_written_out(
    gateway: Gateway,
) -> None:
    await gateway.post(
        session_id="s",
        turn_type="side",
        session_done=False,
        max_completion_tokens=5,
        stop=["END"],
        unheard_of={"a": 1},
        chat_template_kwargs={"style": "plain"},
        stream=True,
    )
    assert gateway.engine.bodies == [
        {
            "model": "policy",
            "messages": ASKED,
            "stop": ["END"],
            "unheard_of": {"a": 1},
            "temperature": 1.0,
            "max_tokens": 5,
            "chat_template_kwargs": {"enable_thinking": False, "style": "plain"},
            "stream": True,
            "stream_options": {"include_usage": True},
        }
    ]


async def test_tool_calls_are_recorded_as_served(gateway: Gateway) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "run", "arguments": "{}"}}
    gateway.engine.tool_calls = [call]
    tools = [{"type": "function", "function": {"name": "run"}}]
    await gateway.post(tools=tools, tool_choice="auto")
    record = await gateway.one()
    (recorded,) = record.reply["tool_calls"]
    assert {**recorded, "id": "c1"} == call  # the id is the gateway's own
    assert record.tools == tools
    assert record.untrainable is None


async def test_pieces_of_streamed_tool_calls_and_reasoning_are_put_together(
    gateway: Gateway,
) -> None:
    pieces = iter(
        [
            {"reasoning": "hm"},
            {"tool_calls": [{"index": 0, "id": "c1", "function": {"name": "run"}}]},
            {"tool_calls": [{"index": 0, "function": {"arguments": '{"a":'}}]},
            {"tool_calls": [{"index": 0, "function": {"arguments": "1}"}}]},
            {"content": ""},
        ]
    )

    def change(chunk: Json) -> Json:
        for choice in chunk["choices"]:
            choice["delta"] = next(pieces)
        return chunk

    gateway.engine.change = change
    await gateway.post(stream=True)
    function = {"name": "run", "arguments": '{"a":1}'}
    reply = (await gateway.one()).reply
    assert (reply["content"], reply["reasoning_content"]) == ("", "hm")
    (call,) = reply["tool_calls"]
    assert (call["type"], call["function"]) == ("function", function)


# --- what is never trained on ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("temperature", 0),
        ("temperature", 0.001),
        ("top_p", 0.9),
        ("top_k", 20),
        ("min_p", 0.1),
        ("presence_penalty", 0.5),
        ("frequency_penalty", -1),
        ("repetition_penalty", 1.1),
        ("logit_bias", {"5": 1}),
        ("response_format", {"type": "json_object"}),
        ("tool_choice", "required"),
        ("tool_choice", {"type": "function", "function": {"name": "run"}}),
        ("guided_json", {"type": "object"}),
        ("structured_outputs", {"regex": "a"}),
        ("min_tokens", 3),
    ],
)
async def test_sampling_that_the_learner_cannot_repeat_is_served_and_not_trained(
    gateway: Gateway, key: str, value: Any
) -> None:
    await gateway.say(ASKED, **{key: value})
    assert gateway.engine.bodies[0][key] == value
    assert (await gateway.one()).untrainable == f"sampling:{key}"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("temperature", 0.7),
        ("temperature", None),
        ("top_p", 1),
        ("top_k", -1),
        ("presence_penalty", 0),
        ("logit_bias", {}),
        ("response_format", {"type": "text"}),
        ("tool_choice", "auto"),
        ("guided_json", None),
    ],
)
async def test_neutral_sampling_is_trained_on(gateway: Gateway, key: str, value: Any) -> None:
    await gateway.say(ASKED, **{key: value})
    record = await gateway.one()
    assert record.untrainable is None
    assert record.sampling.temperature == (0.7 if value == 0.7 else 1.0)


def _without(*path: Any) -> Callable[[Json], Json]:
    def change(part: Json) -> Json:
        where: Any = part
        for step in path[:-1]:
            if not where[step]:
                return part
            where = where[step]
        if isinstance(where, dict):
            where.pop(path[-1], None)
        return part

    return change


def _one_id_more(part: Json) -> Json:
    for choice in part["choices"]:
        if choice.get("finish_reason"):
            choice["token_ids"] = [*choice["token_ids"], 99]
    return part


def _not_a_number(part: Json) -> Json:
    for choice in part["choices"]:
        for token in (choice["logprobs"] or {}).get("content", []):
            token["logprob"] = float("nan")
    return part


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (_without("choices", 0, "token_ids"), "no_reply_ids"),
        (_without("choices", 0, "logprobs"), "no_logprobs"),
        (_without("prompt_token_ids"), "no_prompt_ids"),
        (_without("usage"), "counts_differ:4_ids,4_logprobs,None_used"),
        (_one_id_more, "counts_differ:5_ids,4_logprobs,4_used"),
        (_not_a_number, "logprobs_not_finite"),
    ],
)
async def test_a_reply_without_exact_ids_and_log_probabilities_is_not_trained(
    gateway: Gateway, stream: bool, change: Callable[[Json], Json], reason: str
) -> None:
    gateway.engine.change = change
    assert (await gateway.post(stream=stream)).status_code == 200
    assert (await gateway.one()).untrainable == reason


async def test_an_untrainable_turn_still_gets_its_next_state(gateway: Gateway) -> None:
    reply = await gateway.say(ASKED, temperature=0)
    await gateway.say(follow(reply, "no lists"))
    ((interaction, feedback),) = gateway.given
    assert interaction.untrainable == "sampling:temperature"
    assert feedback.content == "no lists"


async def test_several_replies_at_once_are_refused_on_main_turns_only(gateway: Gateway) -> None:
    refused = await gateway.post(n=2)
    assert refused.status_code == 400
    assert refused.json()["error"]["param"] == "n"
    assert (await gateway.post(n=2, turn_type="side")).status_code == 200


# --- sessions and next states ---------------------------------------------------------------------


async def test_a_conversation_gives_each_turn_its_next_state_once(gateway: Gateway) -> None:
    gateway.engine.replies = iter(["One.", "Two.", "Three."])  # type: ignore[assignment]
    history = list(ASKED)
    for words in ("shorter", "no lists", "thanks"):
        history = follow(await gateway.say(history), words, history)
    first, second, third = await gateway.interactions()
    assert [record.turn for record in (first, second, third)] == [0, 1, 2]
    assert [(i.interaction_id, f.content) for i, f in gateway.given] == [
        (first.interaction_id, "shorter"),
        (second.interaction_id, "no lists"),
    ]
    assert [f for _, f in gateway.given] == list(gateway.folder.feedback.read())


async def test_headers_say_the_same_as_the_body_and_go_first(gateway: Gateway) -> None:
    headers = {"X-Session-Id": "h", "X-Turn-Type": "side", "X-Session-Done": "true"}
    await gateway.post(headers=headers, session_id="b", turn_type="main", session_done=False)
    record = await gateway.one()
    assert (record.session_id, record.turn_type) == ("h", "side")
    assert record.untrainable == "side_turn"


@pytest.mark.parametrize(
    "marks",
    [{"turn_type": "other"}, {"session_id": 3}, {"session_done": "perhaps"}, {"session_done": 1}],
)
async def test_a_mark_that_means_nothing_is_refused(gateway: Gateway, marks: Json) -> None:
    response = await gateway.post(**marks)
    assert response.status_code == 400
    assert response.json()["error"]["param"] in marks


async def test_a_conversation_without_marks_is_followed_by_its_words(gateway: Gateway) -> None:
    reply = await gateway.say(ASKED, None)
    await gateway.say(follow(reply, "shorter"), None)
    first, second = await gateway.interactions()
    assert first.session_id == second.session_id
    assert (first.turn, first.placed_by, first.kind) == (0, "new", "user")
    assert (second.turn, second.placed_by) == (1, "own_reply")
    ((interaction, feedback),) = gateway.given
    assert interaction.interaction_id == first.interaction_id
    assert feedback.content == "shorter"


async def test_the_same_opening_again_is_a_regeneration(gateway: Gateway) -> None:
    await gateway.say(ASKED, None)
    await gateway.say(ASKED, None)
    first, second = await gateway.interactions()
    assert second.session_id == first.session_id
    assert second.replaces == first.interaction_id


async def test_a_turn_in_an_uncertain_place_is_not_learned_from(gateway: Gateway) -> None:
    for session in ("one", "two"):
        reply = await gateway.say(ASKED, session)
    await gateway.say(follow(reply, "shorter"), None)
    assert (await gateway.interactions())[-1].untrainable == "ambiguous_session"
    assert gateway.given == []
    assert gateway.counters["discarded"] == 1


async def test_an_errand_waits_for_nothing_and_ends_nothing(gateway: Gateway) -> None:
    reply = await gateway.say(ASKED, None)
    poll = follow(reply, "[OpenClaw heartbeat poll]")
    done = await gateway.say(poll, None)
    assert gateway.given == []
    await gateway.say(follow(done, "shorter", poll), None)
    ((interaction, feedback),) = gateway.given
    assert (interaction.reply["content"], feedback.content) == (reply["content"], "shorter")
    kinds = [(one.turn_type, one.kind) for one in await gateway.interactions()]
    assert kinds == [("main", "user"), ("side", "heartbeat"), ("main", "user")]


async def test_what_clawrl_drives_is_real_work_whatever_it_talks_about(gateway: Gateway) -> None:
    title = [{"role": "user", "content": "Generate a title for this conversation"}]
    await gateway.say(title, headers={"x-clawrl-driven": "1"})
    assert (await gateway.one()).turn_type == "main"


async def test_users_have_sessions_of_their_own(tmp_path: Path) -> None:
    gateway = Gateway(tmp_path, keys={"ann": "key-a", "bob": "key-b"})
    for key in ("key-a", "key-b"):
        await gateway.say(ASKED, headers={"authorization": f"Bearer {key}"})
    places = [(one.user, one.session_id) for one in await gateway.interactions()]
    assert places == [("ann", "ann:s"), ("bob", "bob:s")]
    gateway.writer.close()


async def test_a_side_turn_leaves_the_pending_turn_waiting(gateway: Gateway) -> None:
    reply = await gateway.say(ASKED)
    await gateway.say([{"role": "user", "content": "a title, please"}], turn_type="side")
    assert gateway.given == []
    await gateway.say(follow(reply, "shorter"))
    assert [feedback.content for _, feedback in gateway.given] == ["shorter"]
    assert [r.untrainable for r in await gateway.interactions()] == [None, "side_turn", None]


async def test_sessions_do_not_mix(gateway: Gateway) -> None:
    reply = await gateway.say(ASKED, "a")
    await gateway.say(ASKED, "b")
    await gateway.say(follow(reply, "shorter"), "b")
    await gateway.say(follow(reply, "longer"), "a")
    assert [(f.session_id, f.content) for _, f in gateway.given] == [
        ("b", "shorter"),
        ("a", "longer"),
    ]


async def test_the_same_request_again_replaces_the_turn_and_the_old_one_gets_nothing(
    gateway: Gateway,
) -> None:
    gateway.engine.replies = iter(["One.", "Two.", "Three."])  # type: ignore[assignment]
    await gateway.say(ASKED)
    reply = await gateway.say(ASKED)
    await gateway.say(follow(reply, "better"))
    first, second, third = await gateway.interactions()
    assert second.replaces == first.interaction_id
    assert [first.turn, second.turn, third.turn] == [0, 0, 1]
    assert [interaction.interaction_id for interaction, _ in gateway.given] == [
        second.interaction_id
    ]
    assert gateway.counters["regenerated"] == 1
    assert gateway.counters["discarded"] == 0


async def test_the_follow_up_sent_twice_gives_one_next_state(gateway: Gateway) -> None:
    reply = await gateway.say(ASKED)
    for _ in range(2):
        await gateway.say(follow(reply, "shorter"))
    assert len(gateway.given) == 1
    assert (await gateway.interactions())[2].replaces is not None


async def test_a_history_without_the_reply_discards_the_turn(gateway: Gateway) -> None:
    await gateway.say(ASKED)
    other = {"role": "assistant", "content": "something else"}
    await gateway.say(follow(other, "shorter"))
    assert gateway.given == []
    assert gateway.counters["discarded"] == 1


async def test_a_request_that_ends_the_session_gives_the_next_state_and_waits_for_none(
    gateway: Gateway,
) -> None:
    reply = await gateway.say(ASKED)
    last = await gateway.say(follow(reply, "thanks, bye"), session_done=True, max_tokens=1)
    ((_, feedback),) = gateway.given
    assert feedback.session_done
    assert feedback.content == "thanks, bye"
    assert (await gateway.interactions())[1].untrainable == "session_done"
    assert len(gateway.app.state.sessions) == 0
    await gateway.say(follow(last, "one more thing", follow(reply, "thanks, bye")))
    assert len(gateway.given) == 1


async def test_a_request_that_fails_and_is_sent_again_is_one_turn(gateway: Gateway) -> None:
    reply = await gateway.say(ASKED)
    gateway.engine.error = EngineError("gone")
    follow_up = follow(reply, "shorter")
    assert (await gateway.post(follow_up, session_id="s")).status_code == 502
    gateway.engine.error = None
    await gateway.say(follow_up)
    assert len(gateway.given) == 1
    assert [record.turn for record in await gateway.interactions()] == [0, 1]
    assert gateway.counters["discarded"] == 0


async def test_a_retry_that_overtakes_its_request_is_the_one_that_waits(gateway: Gateway) -> None:
    gateway.engine.gate = asyncio.Event()
    gateway.engine.replies = iter(["Late one.", "Early one.", "Ok."])  # type: ignore[assignment]
    slow = asyncio.create_task(gateway.post(ASKED, session_id="s", stream=True))
    await gateway.engine.entered.wait()
    gate, gateway.engine.gate = gateway.engine.gate, None
    reply = await gateway.say(ASKED)
    gate.set()
    assert (await slow).status_code == 200
    await gateway.say(follow(reply, "shorter"))
    ((interaction, _),) = gateway.given
    assert interaction.reply["content"] == reply["content"]
    assert gateway.counters["discarded"] == 1


async def test_idle_sessions_are_forgotten(tmp_path: Path) -> None:
    gateway = Gateway(tmp_path, session_idle_s=0.01)
    reply = await gateway.say(ASKED)
    await asyncio.sleep(0.02)
    await gateway.say(follow(reply, "shorter"))
    assert gateway.given == []
    assert gateway.counters["discarded"] == 1
    assert len(gateway.app.state.sessions) == 1
    gateway.writer.close()


# --- weights that change, engines that fail, clients that leave -----------------------------------


@pytest.mark.parametrize("stream", [False, True])
async def test_a_request_waits_while_weights_change_and_is_stamped_after(
    gateway: Gateway, stream: bool
) -> None:
    async with gateway.served.closed():
        waiting = asyncio.create_task(gateway.post(stream=stream))
        await asyncio.sleep(0.02)
        assert gateway.engine.bodies == []
        gateway.served.moved_to(4, "digest-4")
    assert (await waiting).status_code == 200
    weights = (await gateway.one()).weights
    assert (weights.version_first, weights.version_last, weights.digest) == (4, 4, "digest-4")


@pytest.mark.parametrize("stream", [False, True])
async def test_a_reply_that_spans_a_change_names_both_versions(
    gateway: Gateway, stream: bool
) -> None:
    gateway.engine.gate = asyncio.Event()
    waiting = asyncio.create_task(gateway.post(stream=stream))
    await gateway.engine.entered.wait()
    gateway.served.moved_to(4, "digest-4")
    gateway.engine.gate.set()
    await waiting
    weights = (await gateway.one()).weights
    assert (weights.version_first, weights.version_last, weights.digest) == (3, 4, "digest-3")


@pytest.mark.parametrize("stream", [False, True])
async def test_too_long_a_context_is_a_400_that_says_the_numbers(
    gateway: Gateway, stream: bool
) -> None:
    message = "max_tokens=9000 cannot be greater than max_model_len=2048."
    gateway.engine.error = RequestError(400, message)
    response = await gateway.post(stream=stream)
    assert response.status_code == 400
    assert response.json()["error"] == {
        "message": message,
        "type": "invalid_request_error",
        "param": None,
        "code": "context_length_exceeded",
    }
    assert await gateway.interactions() == []


@pytest.mark.parametrize("stream", [False, True])
async def test_an_engine_that_fails_is_a_bad_gateway(gateway: Gateway, stream: bool) -> None:
    gateway.engine.error = EngineError("it did not answer")
    response = await gateway.post(stream=stream)
    assert response.status_code == 502
    assert response.json()["error"]["type"] == "server_error"
    assert await gateway.interactions() == []
    assert gateway.counters["failed"] == 1


async def test_a_stream_that_breaks_ends_with_an_error_and_is_never_a_sample(
    gateway: Gateway,
) -> None:
    gateway.engine.error, gateway.engine.error_after = EngineError("it crashed"), 2
    response = await gateway.post(stream=True, session_id="s")
    assert response.status_code == 200
    last = response.text.strip().split("\n\n")[-1]
    assert "it crashed" in json.loads(last.removeprefix("data: "))["error"]["message"]
    record = await gateway.one()
    assert record.untrainable == "engine_failed"
    assert record.reply["content"] == "The answer"
    gateway.engine.error = None
    await gateway.say(ASKED)
    assert (await gateway.interactions())[1].turn == 0


async def test_a_stream_without_a_finish_reason_is_a_failure(gateway: Gateway) -> None:
    gateway.engine.finish_reason = None
    response = await gateway.post(stream=True)
    assert "without a finish reason" in response.text
    assert (await gateway.one()).untrainable == "engine_failed"


class LeavingClient:
    """Speaks ASGI itself, and leaves after some parts of the answer."""

    def __init__(self, gateway: Gateway, after: int, **body: Any) -> None:
        self._app = gateway.app
        self._after = after
        self._left = asyncio.Event()
        self._body = json.dumps({"messages": ASKED, "session_id": "s", **body}).encode()
        self.got: list[Json] = []

    async def run(self) -> None:
        headers = [(b"host", b"127.0.0.1"), (b"content-type", b"application/json")]
        scope = {
            "type": "http",
            "method": "POST",
            "path": "/v1/chat/completions",
            "headers": headers,
            "query_string": b"",
        }
        requests = iter([{"type": "http.request", "body": self._body, "more_body": False}])

        async def receive() -> Json:
            for request in requests:
                return request
            await self._left.wait()
            return {"type": "http.disconnect"}

        async def send(message: Json) -> None:
            self.got.append(message)
            if len(self.got) >= self._after:
                self.leave()

        await self._app(scope, receive, send)  # type: ignore[arg-type]

    def leave(self) -> None:
        self._left.set()


async def test_a_client_that_leaves_stops_the_engine_and_its_part_is_recorded(
    gateway: Gateway,
) -> None:
    gateway.engine.gate = asyncio.Event()
    await LeavingClient(gateway, after=3, stream=True).run()
    assert gateway.engine.running == 0
    record = await gateway.one()
    assert record.untrainable == "cut_by_client"
    assert record.reply["content"] == "The"
    assert record.reply_ids == [10]
    assert gateway.counters["cut_by_client"] == 1
    gateway.engine.gate = None
    await gateway.say(follow(record.reply, "go on"))
    assert [interaction.untrainable for interaction, _ in gateway.given] == ["cut_by_client"]


async def test_a_client_that_leaves_before_it_saw_anything_replaces_nothing(
    gateway: Gateway,
) -> None:
    reply = await gateway.say(ASKED)
    gateway.engine.gate = asyncio.Event()
    gateway.engine.entered.clear()
    client = LeavingClient(gateway, after=1)
    running = asyncio.create_task(client.run())
    await gateway.engine.entered.wait()
    client.leave()
    await running
    assert gateway.engine.running == 0
    gateway.engine.gate = None
    await gateway.say(follow(reply, "shorter"))
    ((interaction, _),) = gateway.given
    assert interaction.reply["content"] == reply["content"]
    assert interaction.untrainable is None


async def test_a_client_that_leaves_while_weights_change_leaves_no_record(
    gateway: Gateway,
) -> None:
    async with gateway.served.closed():
        client = LeavingClient(gateway, after=1, stream=True)
        running = asyncio.create_task(client.run())
        await asyncio.sleep(0.02)
        client.leave()
        await running
    assert gateway.engine.bodies == []
    assert await gateway.interactions() == []
    assert gateway.counters["cut_by_client"] == 1


@pytest.mark.parametrize("stream", [False, True])
async def test_without_a_disk_turns_are_served_and_not_trained(
    gateway: Gateway, stream: bool
) -> None:
    gateway.folder.interactions.folder.write_text("a file where the folder should be")
    gateway.engine.replies = iter(["One.", "Two."])  # type: ignore[assignment]
    await gateway.post(stream=stream, session_id="s")
    reply = {"role": "assistant", "content": "One."}
    await gateway.post(follow(reply, "shorter"), stream=stream, session_id="s")
    ((interaction, _),) = gateway.given
    assert interaction.untrainable == "not_recorded"
    assert gateway.counters["not_recorded"] == 2
    assert isinstance(gateway.writer.failure, OSError)


async def test_sixteen_streams_at_once_are_all_recorded_whole(gateway: Gateway) -> None:
    async def talk(name: str) -> None:
        history = list(ASKED)
        for turn in range(5):
            chunks = events((await gateway.post(history, session_id=name, stream=True)).text)
            words = "".join(c["choices"][0]["delta"].get("content", "") for c in chunks)
            history = follow({"role": "assistant", "content": words}, f"more {turn}", history)

    async with asyncio.TaskGroup() as group:
        for number in range(16):
            group.create_task(talk(f"s{number}"))
    records = await gateway.interactions()
    assert len(records) == 80
    assert len({record.interaction_id for record in records}) == 80
    assert all(record.untrainable is None for record in records)
    assert len(gateway.given) == 64


async def test_a_side_turn_may_end_its_session(gateway: Gateway) -> None:
    await gateway.say(ASKED)
    await gateway.say(ASKED, turn_type="side", session_done=True)
    assert gateway.given == []
    assert gateway.counters["discarded"] == 1
    assert len(gateway.app.state.sessions) == 0


async def test_a_failure_of_our_own_is_a_500_in_the_same_format(gateway: Gateway) -> None:
    gateway.engine.error = RuntimeError("a bug")
    transport = httpx.ASGITransport(gateway.app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        response = await client.post("/v1/chat/completions", json={"messages": ASKED})
    assert response.status_code == 500
    assert response.json()["error"]["type"] == "server_error"
    assert "a bug" not in response.text
