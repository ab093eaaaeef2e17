"""A server that somebody else runs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
from pydantic import ValidationError
from rich.console import Console

from clawrl.config import compose, schema
from clawrl.config.schema import Config
from clawrl.engine.external import external_model
from clawrl.errors import ConfigError, EngineError
from clawrl.loop.display import StatusLine
from clawrl.loop.policy import open_policy
from clawrl.loop.serving import Serving
from clawrl.records.folder import RunFolder

CHUNK = {
    "id": "x",
    "object": "chat.completion",
    "created": 1,
    "model": "far-away",
    "choices": [
        {
            "index": 0,
            "message": {"role": "assistant", "content": "Four."},
            "finish_reason": "stop",
            "token_ids": [7],
            "logprobs": {"content": [{"token": "Four.", "logprob": -0.5, "top_logprobs": []}]},
        }
    ],
    "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
    "prompt_token_ids": [1],
}


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """The least that can be called a server: one request a connection."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    length = [line for line in head.lower().split("\r\n") if line.startswith("content-length")]
    if length:
        await reader.readexactly(int(length[0].split(":")[1]))
    body = {"data": [{"id": "far-away"}]} if head.startswith("GET /v1/models") else CHUNK
    raw = json.dumps(body).encode()
    writer.write(
        b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n"
        + f"content-length: {len(raw)}\r\n\r\n".encode()
        + raw
    )
    await writer.drain()
    writer.close()
    await writer.wait_closed()


@pytest.fixture
async def url() -> AsyncIterator[str]:
    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


def config(url: str) -> Config:
    return compose.compose(["recipe=student_persona", "engine=external", f"engine.base_url={url}"])


async def test_what_it_serves_is_recorded(url: str, tmp_path: Path) -> None:
    told: asyncio.Queue[str] = asyncio.Queue()

    class Heard(StatusLine):
        def say(self, line: str) -> None:
            if "far-away" in line:
                told.put_nowait(line)

    folder = RunFolder(tmp_path)
    hints = lambda base_url, model: [f"{base_url} {model}"]  # noqa: E731
    serving = Serving(config(f"{url}/v1"), folder, Heard(Console(quiet=True)), hints)
    running = asyncio.create_task(serving.run())
    async with asyncio.timeout(30):
        ours = (await told.get()).split()[0]
        async with httpx.AsyncClient(trust_env=False) as client:
            got = await client.post(
                f"{ours}/v1/chat/completions",
                json={"messages": [{"role": "user", "content": "2+2?"}]},
            )
        assert got.json()["choices"][0]["message"]["content"] == "Four."
        serving.request_stop()
        await running
    (turn,) = folder.interactions.read()
    assert (turn.reply_ids, turn.weights.digest) == ([7], "external:far-away")


async def test_a_server_that_is_not_there_is_one_line() -> None:
    with pytest.raises(EngineError, match=r"engine\.base_url: .* does not answer"):
        await external_model("http://127.0.0.1:9")


async def test_its_weights_are_not_ours_to_change(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="can only be served"):
        async with open_policy(config("http://127.0.0.1:9"), RunFolder(tmp_path), print):
            pass


@pytest.mark.parametrize("values", [{"device": "external"}, {"base_url": "http://x"}])
def test_an_address_belongs_to_an_external_engine(values: dict[str, str]) -> None:
    with pytest.raises(ValidationError, match="base_url"):
        schema.Engine.model_validate(values)
