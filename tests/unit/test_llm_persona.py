"""The played persona, against a small OpenAI-compatible server."""

import asyncio
import socket

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route

from clawrl.collect.llm import LlmPersona, parse_reaction
from clawrl.errors import ConfigError
from clawrl.protocols import Problem, Reaction

PROBLEM = Problem("p1", "Tom has 3 apples and buys 4 more. How many has he?", "7")
NOWHERE = "http://127.0.0.1:9/v1"


@pytest.fixture
async def player():
    """A server that says `player.says` (or fails with `player.status`) and keeps the request."""

    class Player:
        says = "no bullets pls"
        status = 200
        body: dict

    async def chat(request):
        Player.body = await request.json()
        if Player.status != 200:
            return JSONResponse({"error": {"message": "no"}}, Player.status)
        message = {"role": "assistant", "content": Player.says}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        base = {"id": "1", "object": "chat.completion", "created": 0, "model": "m"}
        return JSONResponse({**base, "choices": [choice]})

    app = Starlette(routes=[Route("/v1/chat/completions", chat, methods=["POST"])])
    listener = socket.create_server(("127.0.0.1", 0))
    Player.base_url = f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
    server = uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="off"))
    task = asyncio.create_task(server.serve(sockets=[listener]))
    yield Player
    server.should_exit = True
    await task
    listener.close()


@pytest.mark.parametrize(
    ("said", "reaction"),
    [
        ("no bullets pls", Reaction("no bullets pls", done=False)),
        ('"Great, thanks!" [DONE]', Reaction("Great, thanks!", done=True)),
        ("[LEAVE]", Reaction(None, done=True)),
        ("<think>[DONE]?</think> shorter", Reaction("shorter", done=False)),
        ("[DONE]", Reaction(None, done=True)),
        ("  ", Reaction(None, done=True)),
        (None, Reaction(None, done=True)),
    ],
)
def test_what_the_player_types_is_a_reaction(said, reaction):
    assert parse_reaction(said) == reaction


async def test_the_player_reads_request_and_reply_and_answers(player):
    persona = LlmPersona(base_url=player.base_url, model="m", persona="student")
    reaction = await persona.react(PROBLEM, "1. It is 7", "length", 0, 3)
    await persona.close()
    assert reaction == Reaction("no bullets pls", done=False)
    system, user = player.body["messages"]
    assert "student" in system["content"]
    assert PROBLEM.question in user["content"]
    assert "<reply>\n1. It is 7\n</reply>" in user["content"]
    assert "broke off" in user["content"]


async def test_a_player_that_fails_leaves_in_silence(player):
    player.status = 400
    persona = LlmPersona(base_url=player.base_url, model="m")
    assert await persona.react(PROBLEM, "7", "stop", 0, 3) == Reaction(None, done=True)
    await persona.close()


def test_the_teacher_brings_a_pupils_work():
    persona = LlmPersona(base_url=NOWHERE, model="m", persona="teacher")
    assert "The answer is" in persona.opening(PROBLEM, 0)[0]["content"]


def test_own_prompts_are_read_and_missing_ones_named(tmp_path):
    (tmp_path / "boss.opening.txt").write_text("Solve {question}\n")
    (tmp_path / "boss.react.txt").write_text("You are a boss.\n")
    boss = LlmPersona(base_url=NOWHERE, model="m", persona="boss", prompts=str(tmp_path))
    assert boss.opening(PROBLEM, 0)[0]["content"] == f"Solve {PROBLEM.question}"
    with pytest.raises(ConfigError, match="did you mean 'student'"):
        LlmPersona(base_url=NOWHERE, model="m", persona="studnet")
