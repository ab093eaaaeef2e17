"""Turns that clawrl drives wait for room in the gateway; live users never do."""

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest

from clawrl.config import schema
from clawrl.errors import EngineError
from clawrl.gateway.app import create_app
from clawrl.records.folder import RunFolder
from clawrl.records.nouns import Feedback, Interaction
from clawrl.records.writer import RecordWriter
from clawrl.serving.admission import Admission
from clawrl.serving.policy import ServedPolicy
from tests.stub_engine import StubEngine

ASKED = [{"role": "user", "content": "What is 2+2?"}]


class Gateway:
    def __init__(self, root: Path, limit: int) -> None:
        self.engine = StubEngine()
        self.admission = Admission(limit)
        self.heard: list[Feedback] = []
        self.writer = RecordWriter(RunFolder(root), version=0, queue_records=100)
        app = create_app(
            engine=self.engine,
            served=ServedPolicy(0, "d0"),
            writer=self.writer,
            config=schema.Gateway(record_wait_ms=5000),
            model_name="policy",
            template_kwargs={},
            temperature=0.7,
            on_feedback=self._on_feedback,
            admission=self.admission,
        )
        transport = httpx.ASGITransport(app)
        self.http = httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1")

    def _on_feedback(self, _interaction: Interaction, feedback: Feedback) -> None:
        self.heard.append(feedback)

    async def ask(self, session: str, *said: str, driven: bool = True, **headers: str) -> Any:
        messages = [*ASKED]
        for text in said:
            messages += [
                {"role": "assistant", "content": "The answer is 4."},
                {"role": "user", "content": text},
            ]
        headers = {"X-Session-Id": session, **headers}
        if driven:
            headers["X-Clawrl-Driven"] = "1"
        return await self.http.post(
            "/v1/chat/completions", json={"model": "p", "messages": messages}, headers=headers
        )


@pytest.fixture
async def gateway(tmp_path: Path):
    gateway = Gateway(tmp_path, limit=1)
    yield gateway
    gateway.admission.close()
    await gateway.http.aclose()
    await asyncio.to_thread(gateway.writer.close)


async def waits(task: asyncio.Task[Any]) -> bool:
    await asyncio.sleep(0.05)
    return not task.done()


async def test_a_driven_turn_waits_for_room_and_a_live_one_does_not(gateway: Gateway):
    await gateway.ask("a")
    second = asyncio.create_task(gateway.ask("b"))
    assert await waits(second)
    assert (await gateway.ask("live", driven=False)).status_code == 200
    gateway.admission.set_limit(2)
    assert (await second).status_code == 200


async def test_a_waiting_turn_has_already_delivered_the_next_state(gateway: Gateway):
    first = (await gateway.ask("a")).json()["id"]
    following = asyncio.create_task(gateway.ask("a", "shorter, please"))
    assert await waits(following)
    assert [feedback.interaction_id for feedback in gateway.heard] == [first]
    gateway.admission.settle([first])
    assert (await following).status_code == 200


async def test_a_turn_that_the_engine_failed_gives_its_place_back(gateway: Gateway):
    gateway.engine.error = EngineError("gone")
    assert (await gateway.ask("a")).status_code == 502
    assert gateway.admission.outstanding == 0


async def test_a_regenerated_turn_holds_one_place(gateway: Gateway):
    gateway.admission.set_limit(2)
    await gateway.ask("a")
    await gateway.ask("a")
    assert gateway.admission.outstanding == 1


async def test_a_turn_whose_reply_was_taken_back_gives_its_place_back(gateway: Gateway):
    gateway.admission.set_limit(2)
    await gateway.ask("a")
    await gateway.http.post(
        "/v1/chat/completions",
        json={"model": "p", "messages": [{"role": "user", "content": "Something else"}]},
        headers={"X-Session-Id": "a"},
    )
    assert gateway.admission.outstanding == 0


async def test_the_last_word_of_a_session_takes_no_place(gateway: Gateway):
    await gateway.ask("a")
    done = await gateway.ask("a", "thanks!", **{"X-Session-Done": "true"})
    assert done.status_code == 200
    assert gateway.heard[0].session_done
    assert gateway.admission.outstanding == 1


async def test_an_ending_run_answers_what_waits(gateway: Gateway):
    await gateway.ask("a")
    second = asyncio.create_task(gateway.ask("b"))
    assert await waits(second)
    gateway.admission.close()
    response = await second
    assert response.status_code == 502
    assert "ending" in response.json()["error"]["message"]
