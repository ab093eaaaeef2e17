"""`clawrl eval` from outside: what it prints and how it ends."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from clawrl.gateway.serve import GatewayServer


class Server:
    """A model behind HTTP: every answer is 4, and requests are counted."""

    def __init__(self) -> None:
        self.url = ""
        self.asked: list[dict[str, Any]] = []
        self.models = ["four"]
        self.key: str | None = None

    async def chat(self, request: Request) -> JSONResponse:
        if self.key is not None and request.headers["authorization"] != f"Bearer {self.key}":
            return JSONResponse({"error": {"message": "wrong key"}}, status_code=401)
        self.asked.append(await request.json())
        message = {"role": "assistant", "content": r"It is \boxed{4}."}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        usage = {"prompt_tokens": 3, "completion_tokens": 5, "total_tokens": 8}
        return JSONResponse(
            {
                "id": "c",
                "object": "chat.completion",
                "created": 1,
                "model": "four",
                "choices": [choice],
                "usage": usage,
            }
        )

    async def list_models(self, _request: Request) -> JSONResponse:
        listed = [
            {"id": name, "object": "model", "created": 1, "owned_by": "x", "max_model_len": 512}
            for name in self.models
        ]
        return JSONResponse({"object": "list", "data": listed})

    def serve(self, ready: threading.Event, stop: threading.Event) -> None:
        routes = [
            Route("/v1/chat/completions", self.chat, methods=["POST"]),
            Route("/v1/models", self.list_models),
        ]

        async def run() -> None:
            async with GatewayServer(Starlette(routes=routes), "127.0.0.1", 0) as gateway:
                self.url = gateway.base_url
                ready.set()
                await asyncio.to_thread(stop.wait)

        asyncio.run(run())


@pytest.fixture
def server() -> Iterator[Server]:
    server, ready, stop = Server(), threading.Event(), threading.Event()
    thread = threading.Thread(target=server.serve, args=(ready, stop))
    thread.start()
    assert ready.wait(30)
    yield server
    stop.set()
    thread.join()


@pytest.fixture
def evaluate(tmp_path: Path):
    """Run `clawrl eval` in a folder of its own, with a set of two problems beside it."""
    lines = [
        {"id": f"sum-{n}", "question": f"What is {n} + 2?", "answer": str(n + 2)} for n in (1, 2)
    ]
    (tmp_path / "sums.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    environment = {
        **os.environ,
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
        "HF_HUB_OFFLINE": "1",
        "COLUMNS": "120",
    }

    def run(*arguments: str, **extra: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "clawrl.cli.main", "eval", *arguments],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env=environment | extra,
            timeout=240,
            check=False,
        )

    return run


def test_the_list_describes_every_task(evaluate):
    done = evaluate("--task", "list")
    assert done.returncode == 0, done.stderr
    for piece in ("aime24", "aime25", "gsm8k", "math500", "30", "1319", "exact_match"):
        assert piece in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--task", "aime42"], "did you mean 'aime2"),
        (["--task", "gsm8k", "--model", "nowhere", "data.path=sums.jsonl"], "nowhere: neither"),
        (["--task", "gsm8k", "--data", "nothing.jsonl", "model.name=/"], "not a model folder"),
        (["--task", "gsm8k", "lerner.lr=1"], "did you mean 'learner'"),
        (["--model", "nowhere"], "without --task it names a run folder"),
        (["--n", "3"], "eval.replies_per_problem"),
        (["--task", "judge", "--model", "x"], "judge=NAME"),
        (["--task", "gsm8k", "--model", "smollm2-135m", "model=qwen3-4b"], "both name the model"),
    ],
)
def test_a_mistake_is_one_line_and_exit_2(evaluate, arguments: list[str], message: str):
    done = evaluate(*arguments)
    assert done.returncode == 2, done.stderr
    assert message in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_without_data_one_line_names_the_hub_id_and_where_to_put_a_file(evaluate, server: Server):
    done = evaluate("--task", "aime25", "--model", server.url)
    assert done.returncode == 2
    assert len(done.stderr.strip().splitlines()) == 1
    for piece in ("math-ai/aime25", "./data/aime25.jsonl", "clawrl/data/aime25.jsonl", "data.path"):
        assert piece in done.stderr
    assert server.asked == []


def test_a_server_at_a_url_is_measured_once_and_then_remembered(
    evaluate, server: Server, tmp_path: Path
):
    arguments = ["--task", "gsm8k", "--model", server.url, "data.path=sums.jsonl", "--n", "2"]
    done = evaluate(*arguments, "--json")
    assert done.returncode == 0, done.stderr
    results = json.loads(done.stdout)
    assert results["results"]["gsm8k"]["exact_match,none"] == 0.5
    assert results["model_name"] == "four"
    assert results["config"]["gen_kwargs"]["max_tokens"] == 512  # the server's context
    assert "cannot be told" in results["clawrl"]["note"]
    assert sorted(body["seed"] for body in server.asked) == [1234, 1235, 2234, 2235]
    again = evaluate(*arguments)
    assert again.returncode == 0, again.stderr
    assert len(server.asked) == 4
    assert "pass@2" in again.stdout
    (folder,) = (tmp_path / "runs" / "evals").iterdir()
    assert len((folder / "generations.jsonl").read_text().splitlines()) == 4
    assert json.loads((folder / "results.json").read_text()) == results
    more = evaluate(*arguments, "eval.seed=5", "sampling.temperature=0.9")
    assert more.returncode == 0, more.stderr
    assert {body["temperature"] for body in server.asked[4:]} == {0.9}
    assert len(server.asked) == 8


def test_a_server_of_several_models_wants_one_named(evaluate, server: Server):
    server.models = ["four", "five"]
    arguments = ["--task", "gsm8k", "--model", server.url, "data.path=sums.jsonl"]
    done = evaluate(*arguments)
    assert done.returncode == 2
    assert "model.name=NAME (five, four)" in done.stderr
    assert "did you mean 'four'" in evaluate(*arguments, "model.name=fuor").stderr
    assert evaluate(*arguments, "model.name=four").returncode == 0


def test_a_key_is_sent_where_it_was_given_and_only_then(evaluate, server: Server):
    server.key = "secret"
    arguments = ["--task", "gsm8k", "--model", server.url, "data.path=sums.jsonl"]
    done = evaluate(*arguments, OPENAI_API_KEY="secret")
    assert done.returncode == 1
    assert "CLAWRL_API_KEY" in done.stderr
    assert evaluate(*arguments, CLAWRL_API_KEY="secret").returncode == 0


def test_the_judge_is_measured_without_a_model(evaluate):
    done = evaluate("--task", "judge", "--json")
    assert done.returncode == 0, done.stderr
    results = json.loads(done.stdout)
    assert 0 < results["results"]["judge"]["accuracy,none"] < 1
