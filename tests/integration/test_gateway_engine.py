"""The gateway over the real engine, as stock clients use it."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from openai import AsyncOpenAI

from clawrl.config import schema
from clawrl.engine.client import VllmEngine
from clawrl.gateway.app import create_app
from clawrl.gateway.serve import GatewayServer
from clawrl.records.folder import RunFolder
from clawrl.records.nouns import Feedback, Interaction
from clawrl.records.writer import RecordWriter
from clawrl.serving.policy import ServedPolicy
from tests.tiny import make_tiny_model

pytestmark = pytest.mark.engine

STREAMS = 16
UPDATES = 20


class Served:
    """A gateway, what it recorded, and the gate that weight updates close."""

    def __init__(self, engine: VllmEngine, root: Path) -> None:
        self.folder = RunFolder(root)
        self.engine = engine
        self.policy = ServedPolicy(0, "d0")
        self.writer = RecordWriter(self.folder, version=0, queue_records=1000)
        self.heard: list[Feedback] = []
        self.app = create_app(
            engine=engine,
            served=self.policy,
            writer=self.writer,
            config=schema.Gateway(record_wait_ms=5000),
            model_name="policy",
            template_kwargs={},
            temperature=0.7,
            on_feedback=lambda _interaction, feedback: self.heard.append(feedback),
        )

    async def update(self, path: Path, version: int) -> None:
        async with self.policy.closed():
            await self.engine.update_weights(path, version)
            self.policy.moved_to(version, f"d{version}")
            self.writer.roll(version)

    async def interactions(self) -> list[Interaction]:
        await asyncio.to_thread(self.writer.close)
        return list(self.folder.interactions.read())


@pytest.fixture
async def served(policy: VllmEngine, tiny_model: Path, tmp_path: Path) -> AsyncIterator[Served]:
    served = Served(policy, tmp_path)
    yield served
    await asyncio.to_thread(served.writer.close)
    await policy.update_weights(tiny_model, 0)


async def test_16_streams_through_20_updates_lose_no_request_and_no_token(
    served: Served, tiny_model: Path, tmp_path_factory: pytest.TempPathFactory
):
    other = make_tiny_model(tmp_path_factory.mktemp("other") / "model", seed=1)
    finished = asyncio.Event()

    async def keep_talking(client: AsyncOpenAI, number: int) -> int:
        replies = 0
        while not finished.is_set():
            stream = await client.chat.completions.create(
                model="policy",
                messages=[{"role": "user", "content": f"Say something, please ({number})."}],
                max_tokens=150,
                stream=True,
                stream_options={"include_usage": True},
                extra_body={"ignore_eos": True},
                extra_headers={"X-Session-Id": f"s{number}-{replies}"},
            )
            usages = [chunk.usage async for chunk in stream if chunk.usage]
            assert len(usages) == 1
            replies += 1
        return replies

    async with GatewayServer(served.app, "127.0.0.1", 0) as gateway:
        client = AsyncOpenAI(base_url=f"{gateway.base_url}/v1", api_key="none", max_retries=0)
        async with client, asyncio.TaskGroup() as group:
            talks = [group.create_task(keep_talking(client, n)) for n in range(STREAMS)]
            for version in range(1, UPDATES + 1):
                await served.update((tiny_model, other)[version % 2], version)
                await asyncio.sleep(0.3)  # a learner takes its time too
            finished.set()
        replies = sum(task.result() for task in talks)
    interactions = await served.interactions()
    assert len(interactions) == replies >= STREAMS
    for turn in interactions:
        assert turn.untrainable is None
        assert turn.reply_ids is not None
        assert turn.behaviour_logp is not None
        assert len(turn.reply_ids) == len(turn.behaviour_logp) == turn.usage.completion_tokens
        assert turn.weights.version_first <= turn.weights.version_last
    assert any(t.weights.version_first < t.weights.version_last for t in interactions)


async def test_a_conversation_is_recorded_with_its_next_state(served: Served):
    async with GatewayServer(served.app, "127.0.0.1", 0) as gateway:
        client = AsyncOpenAI(base_url=f"{gateway.base_url}/v1", api_key="none")
        asked = [{"role": "user", "content": "What is 12 + 7?"}]
        first = await client.chat.completions.create(
            model="policy", messages=asked, max_tokens=8, extra_body={"session_id": "talk"}
        )
        reply = first.choices[0].message.content
        said = [
            *asked,
            {"role": "assistant", "content": reply},
            {"role": "user", "content": "Shorter, please."},
        ]
        await client.chat.completions.create(
            model="policy",
            messages=said,
            max_tokens=1,
            extra_body={"session_id": "talk", "session_done": True},
        )
        await client.close()
    assert [(f.interaction_id, f.content) for f in served.heard] == [(first.id, "Shorter, please.")]


TOOLS = [
    {
        "type": "function",
        "name": "ls",
        "description": "Lists a folder.",
        "parameters": {"type": "object", "properties": {"path": {"type": "string"}}},
    }
]


async def test_the_responses_api_and_tools_keep_every_token(served: Served):
    """As OpenAI's own client reads it, streamed and not; nothing names a session."""
    async with GatewayServer(served.app, "127.0.0.1", 0) as gateway:
        client = AsyncOpenAI(base_url=f"{gateway.base_url}/v1", api_key="none", max_retries=0)
        first = await client.responses.create(
            model="policy", input="What is 12 + 7?", max_output_tokens=12, tools=TOOLS
        )
        history = [
            {"role": "user", "content": "What is 12 + 7?"},
            *(item.model_dump(exclude_none=True) for item in first.output),
            {"role": "user", "content": "Shorter, please."},
        ]
        stream = await client.responses.create(
            model="policy", input=history, max_output_tokens=12, stream=True, tools=TOOLS
        )
        told = [event async for event in stream]
        await client.close()
    assert told[-1].type in ("response.completed", "response.incomplete")
    assert told[-1].response.output_text == "".join(
        event.delta for event in told if event.type == "response.output_text.delta"
    )
    one, two = await served.interactions()
    assert one.session_id == two.session_id
    assert [feedback.content for feedback in served.heard] == ["Shorter, please."]
    for turn in (one, two):
        assert (turn.route, turn.untrainable) == ("responses", None)
        assert len(turn.reply_ids or []) == len(turn.behaviour_logp or []) == 12
