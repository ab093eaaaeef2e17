"""The collector against a small OpenAI-compatible server that keeps what it was sent."""

import asyncio
import json
import socket
from collections import defaultdict
from contextlib import asynccontextmanager

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from clawrl.collect.collector import Collector
from clawrl.config import schema
from clawrl.protocols import Persona, Problem, Reaction


class Gateway:
    """Replies `reply N to SESSION`; `status` other than 200 refuses what asks for a reply."""

    def __init__(self) -> None:
        self.requests: list[tuple[dict, dict]] = []
        self.status = 200
        self.app = Starlette(routes=[Route("/v1/chat/completions", self.chat, methods=["POST"])])
        self.base_url = ""
        self._came = asyncio.Event()

    def sessions(self) -> dict[str, list[dict]]:
        found = defaultdict(list)
        for headers, body in self.requests:
            found[headers["x-session-id"]].append(body)
        return found

    async def asked(self, count: int) -> None:
        """Return once `count` requests have come."""
        while len(self.requests) < count:
            self._came.clear()
            await self._came.wait()

    async def chat(self, request: Request) -> Response:
        body = await request.json()
        self.requests.append((dict(request.headers), body))
        self._came.set()
        if self.status != 200:
            return JSONResponse({"error": {"message": "no", "type": "x"}}, self.status)
        turn, session = len(body["messages"]) // 2, request.headers["x-session-id"]
        text = f"reply {turn} to {session}"
        base = {"id": f"chatcmpl-{session}-{turn}", "created": 0, "model": body["model"]}
        if body.get("stream"):
            deltas = [({"content": text[:4]}, None), ({"content": text[4:]}, None), ({}, "stop")]
            chunks = [
                {
                    **base,
                    "object": "chat.completion.chunk",
                    "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
                }
                for delta, finish in deltas
            ]
            usage = {**base, "object": "chat.completion.chunk", "choices": []}
            lines = [f"data: {json.dumps(chunk)}\n\n" for chunk in [*chunks, usage]]
            return StreamingResponse(iter([*lines, "data: [DONE]\n\n"]), 200)
        message = {"role": "assistant", "content": text}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        return JSONResponse({**base, "object": "chat.completion", "choices": [choice]})


@asynccontextmanager
async def serving(gateway: Gateway):
    listener = socket.create_server(("127.0.0.1", 0))
    gateway.base_url = f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
    server = uvicorn.Server(uvicorn.Config(gateway.app, log_level="error", lifespan="off"))
    task = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        yield gateway
    finally:
        server.should_exit = True
        await task
        listener.close()


@pytest.fixture
async def gateway():
    async with serving(Gateway()) as running:
        yield running


class Listener(Persona):
    """Says `script[turn]`, leaving after the last; keeps what it read."""

    name = "listener"

    def __init__(self, script: list[Reaction]) -> None:
        self.script = script
        self.read: list[tuple[str, str, str | None, int]] = []

    def opening(self, problem: Problem, seed: int) -> list[dict[str, str]]:
        return [{"role": "user", "content": f"{problem.question} ({seed})"}]

    async def react(self, problem, reply, finish_reason, turn, seed) -> Reaction:
        self.read.append((problem.problem_id, reply, finish_reason, turn))
        return self.script[turn]


COMPLAINT = Reaction(text="shorter please", done=False)
THANKS = Reaction(text="thanks", done=True)
SILENCE = Reaction(text=None, done=True)


def collector(gateway: Gateway, script: list[Reaction], given_up: list[str], **keys) -> Collector:
    problems = [Problem(f"p{i}", f"question {i}", str(i)) for i in range(keys.pop("problems", 8))]
    arguments = {
        "persona": Listener(script),
        "problems": iter(problems),
        "base_url": gateway.base_url,
        "api_key": "secret",
        "model_name": "policy",
        "sampling": schema.Sampling(temperature=0.7, max_tokens=33),
        "max_turns": 3,
        "concurrent_sessions": 3,
        "give_up": given_up.append,
        "seed": 5,
    }
    return Collector(**(arguments | keys))


async def test_a_session_is_asked_answered_and_closed_like_a_users(gateway):
    running = collector(gateway, [COMPLAINT, THANKS], [], problems=1)
    await running.run()

    (session_id,) = gateway.sessions()
    (first_headers, first), (_, second), (last_headers, last) = gateway.requests
    assert first_headers["x-turn-type"] == "main"
    assert first_headers["x-clawrl-driven"] == "1"
    assert first_headers["authorization"] == "Bearer secret"
    assert "x-session-done" not in first_headers
    assert last_headers["x-session-done"] == "true"
    assert (first["model"], first["temperature"], first["max_tokens"]) == ("policy", 0.7, 33)
    assert second["messages"] == [
        *first["messages"],
        {"role": "assistant", "content": f"reply 0 to {session_id}"},
        {"role": "user", "content": "shorter please"},
    ]
    assert last["messages"][-1] == {"role": "user", "content": "thanks"}
    assert last["max_tokens"] == 1
    assert first["seed"] != second["seed"]
    assert running._persona.read == [
        ("p0", f"reply 0 to {session_id}", "stop", 0),
        ("p0", f"reply 1 to {session_id}", "stop", 1),
    ]


async def test_about_half_of_the_sessions_stream_and_read_the_same(gateway):
    running = collector(gateway, [THANKS], [], problems=30)
    await running.run()
    streaming = sum(bool(bodies[0].get("stream")) for bodies in gateway.sessions().values())
    assert 5 <= streaming <= 25
    assert {reply.split(" to ")[0] for _, reply, _, _ in running._persona.read} == {"reply 0"}
    assert {finish for _, _, finish, _ in running._persona.read} == {"stop"}


async def test_the_last_turn_of_a_session_delivers_its_complaint_and_ends(gateway):
    running = collector(gateway, [COMPLAINT] * 3, [], problems=1)
    await running.run()
    assert len(gateway.requests) == 4
    headers, body = gateway.requests[-1]
    assert headers["x-session-done"] == "true"
    assert body["messages"][-1]["content"] == "shorter please"
    assert running.stats.complained == 3


async def test_only_a_turn_that_is_met_with_silence_is_given_up(gateway):
    given_up: list[str] = []
    await collector(gateway, [COMPLAINT, SILENCE], given_up, problems=4).run()
    assert len(gateway.requests) == 8
    assert sorted(given_up) == sorted(f"chatcmpl-{session}-1" for session in gateway.sessions())


async def test_a_refused_request_ends_its_session_alone(gateway, caplog):
    gateway.status = 400
    given_up: list[str] = []
    running = collector(gateway, [THANKS], given_up, problems=4)
    await running.run()
    assert running.stats.failed == running.stats.sessions == 4
    assert given_up == []
    assert "ended: Error code: 400" in caplog.text


async def test_a_refused_second_turn_leaves_the_first_to_whoever_got_its_next_state(gateway):
    class RefusedAfterwards(Listener):
        async def react(self, problem, reply, finish_reason, turn, seed) -> Reaction:
            gateway.status = 400
            return COMPLAINT

    given_up: list[str] = []
    persona = RefusedAfterwards([])
    await collector(gateway, [], given_up, problems=1, persona=persona).run()
    assert given_up == []


@pytest.mark.parametrize("reaction", [COMPLAINT, THANKS])
async def test_a_gateway_that_is_gone_before_the_next_state_gives_the_turn_up(
    reaction, monkeypatch
):
    monkeypatch.setattr("clawrl.collect.collector._RETRIES", 0)
    given_up: list[str] = []
    gateway = Gateway()

    async with serving(gateway):
        gone = asyncio.Event()

        class Slow(Listener):
            async def react(self, problem, reply, finish_reason, turn, seed) -> Reaction:
                await gone.wait()
                return reaction

        run = collector(gateway, [], given_up, problems=1, persona=Slow([])).run()
        task = asyncio.create_task(run)
        await gateway.asked(1)
    gone.set()
    await task
    (session,) = gateway.sessions()
    assert given_up == [f"chatcmpl-{session}-0"]


async def test_cancelling_ends_every_session_and_gives_up_what_was_read(gateway):
    class Thoughtful(Listener):
        reading = asyncio.Semaphore(0)

        async def react(self, problem, reply, finish_reason, turn, seed) -> Reaction:
            self.reading.release()
            await asyncio.Event().wait()
            return SILENCE

    given_up: list[str] = []
    persona = Thoughtful([])
    task = asyncio.create_task(collector(gateway, [], given_up, persona=persona).run())
    for _ in range(3):
        await persona.reading.acquire()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert sorted(given_up) == sorted(f"chatcmpl-{session}-0" for session in gateway.sessions())


async def test_the_same_seed_asks_the_same_things(gateway):
    async def asked(seed: int) -> set[str]:
        gateway.requests.clear()
        await collector(gateway, [THANKS], [], seed=seed).run()
        return {
            json.dumps([headers["x-session-id"], body["messages"][0], body.get("seed")])
            for headers, body in gateway.requests
        }

    first, again, other = await asked(1), await asked(1), await asked(2)
    assert first == again
    assert not first & other
