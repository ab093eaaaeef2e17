"""The gateway on a real port, used by the official client."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import openai
import pytest

from clawrl.config import schema
from clawrl.errors import MachineError
from clawrl.gateway.app import create_app
from clawrl.gateway.serve import GatewayServer
from clawrl.records.folder import RunFolder
from clawrl.records.nouns import Feedback
from clawrl.records.writer import RecordWriter
from clawrl.serving.policy import ServedPolicy
from tests.stub_engine import StubEngine

ASKED = [{"role": "user", "content": "What is 2+2?"}]


class Running:
    """A served gateway and a client of it."""

    def __init__(self, root: Path) -> None:
        self.engine = StubEngine("The answer is 4.")
        self.folder = RunFolder(root)
        self.writer = RecordWriter(self.folder, version=0, queue_records=100)
        self.feedback: list[Feedback] = []
        self.app = create_app(
            engine=self.engine,
            served=ServedPolicy(0, "d"),
            writer=self.writer,
            config=schema.Gateway(api_key="secret", record_wait_ms=5000),
            model_name="policy",
            template_kwargs={},
            temperature=0.7,
            on_feedback=lambda interaction, feedback: self.feedback.append(feedback),
        )
        self.server = GatewayServer(self.app, "127.0.0.1", 0)

    def client(self, key: str = "secret") -> openai.AsyncOpenAI:
        url = f"{self.server.base_url}/v1"
        return openai.AsyncOpenAI(base_url=url, api_key=key, max_retries=0)


@pytest.fixture
async def running(tmp_path: Path) -> AsyncIterator[Running]:
    running = Running(tmp_path)
    async with running.server:
        yield running
    running.writer.close()


async def test_the_official_client_talks_and_streams(running: Running) -> None:
    session = {"X-Session-Id": "s"}
    async with running.client() as client:
        whole = await client.chat.completions.create(
            model="policy", messages=ASKED, extra_headers=session
        )
        message = whole.choices[0].message
        history = [
            *ASKED,
            message.model_dump(exclude_none=True),
            {"role": "user", "content": "shorter"},
        ]
        stream = await client.chat.completions.create(
            model="policy",
            messages=history,
            stream=True,
            stream_options={"include_usage": True},
            extra_headers=session,
        )
        chunks = [chunk async for chunk in stream]
        assert [model.id async for model in await client.models.list()] == ["policy"]
    assert message.content == "The answer is 4."
    assert [chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices] == [
        "",
        "The",
        " answer",
        " is",
        " 4.",
    ]
    assert chunks[-1].usage is not None
    assert [feedback.content for feedback in running.feedback] == ["shorter"]


async def test_the_official_client_understands_a_refusal(running: Running) -> None:
    async with running.client("wrong") as client:
        with pytest.raises(openai.AuthenticationError, match="wrong or missing API key"):
            await client.chat.completions.create(model="policy", messages=ASKED)


async def test_chunks_arrive_before_the_reply_ends_and_leaving_stops_the_engine(
    running: Running,
) -> None:
    running.engine.gate = asyncio.Event()
    async with running.client() as client:
        stream = await client.chat.completions.create(
            model="policy", messages=ASKED, stream=True, extra_headers={"X-Session-Id": "s"}
        )
        async for chunk in stream:
            if chunk.choices[0].delta.content == "The":
                break
        assert running.engine.running == 1
        await stream.close()
    async with asyncio.timeout(10):
        while running.engine.running:  # noqa: ASYNC110 - a socket tells nobody that it was read
            await asyncio.sleep(0.01)
    await asyncio.to_thread(running.writer.close)
    (record,) = running.folder.interactions.read()
    assert record.untrainable == "cut_by_client"
    assert record.reply["content"] == "The"


async def test_a_port_in_use_is_one_line_that_says_what_to_do(running: Running) -> None:
    port = int(running.server.base_url.rsplit(":", 1)[1])
    with pytest.raises(MachineError, match=r"gateway\.port=N") as caught:
        async with GatewayServer(running.app, "127.0.0.1", port):
            raise AssertionError("it must not start")
    assert str(port) in str(caught.value)
    assert "\n" not in str(caught.value)


async def test_a_host_that_is_not_this_machine_s_is_one_line(running: Running) -> None:
    with pytest.raises(MachineError, match="cannot listen on"):
        async with GatewayServer(running.app, "192.0.2.1", 0):
            raise AssertionError("it must not start")


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("127.0.0.1", "http://127.0.0.1:80"),
        ("0.0.0.0", "http://127.0.0.1:80"),
        ("::", "http://[::1]:80"),
        ("gpu-box", "http://gpu-box:80"),
    ],
)
def test_the_address_is_one_that_this_machine_reaches(tmp_path: Path, host: str, url: str) -> None:
    async def app(scope: object, receive: object, send: object) -> None: ...

    assert GatewayServer(app, host, 80).base_url == url


async def test_ending_lets_a_request_in_flight_finish(tmp_path: Path) -> None:
    running = Running(tmp_path)
    running.engine.gate = asyncio.Event()
    async with running.server:
        client = running.client()
        waiting = asyncio.create_task(
            client.chat.completions.create(model="policy", messages=ASKED)
        )
        await running.engine.entered.wait()
        asyncio.get_running_loop().call_later(0.3, running.engine.gate.set)
    reply = await waiting
    assert reply.choices[0].message.content == "The answer is 4."
    await client.close()
    running.writer.close()
