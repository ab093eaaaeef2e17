"""Stock clients, unmodified, against `clawrl serve recipe=personal` with the demo's model.

The model is small: what it says is of no interest here, only what becomes of it.
"""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from clawrl.records.folder import RunFolder
from clawrl.records.nouns import Feedback
from tests.clients.gateways import Gateway, free_port, serve, until_served
from tests.clients.recorder import Recorder
from tests.clients.stock import Client, Llm, OpenAI, OpenClaw, OpenCode
from tests.clients.turns import CORRECTION, HINT, TASKS, lines

pytestmark = [pytest.mark.clients, pytest.mark.timeout(3600)]
UPDATE_S = 900
"""A long prompt takes minutes on two cores."""


@pytest.fixture(scope="module")
def living(tmp_path_factory: pytest.TempPathFactory, smol_path: Path) -> Iterator[Gateway]:
    """One server that all clients share, as the agents of one person do."""
    root = tmp_path_factory.mktemp("living")
    port, log = free_port(), root / "serve.log"
    process = serve(root, port, log)
    gateway = Gateway(f"http://127.0.0.1:{port}", RunFolder(root / "personal"))
    try:
        asyncio.run(until_served(gateway.base_url))
        yield gateway
    finally:
        process.send_signal(signal.SIGTERM)
        code = process.wait(300)
        print(log.read_text()[-3000:])
    assert code == 0


@pytest.mark.parametrize(
    "client", [OpenAI(), Llm(), OpenCode(), OpenClaw()], ids=lambda client: client.name
)
async def test_a_correction_changes_the_weights_and_the_conversation_goes_on(
    client: Client, living: Gateway, tmp_path: Path
) -> None:
    if problem := client.missing():
        pytest.skip(problem)
    began = time.time()
    first, correction, last = lines(TASKS["one"])
    async with Recorder(living.base_url) as recorder:
        recorder.errand = client.errand
        talk = client.open(recorder.base_url, tmp_path / "home")
        await talk.say(first)
        await talk.say(correction)
        corrected = await _correction(living, since=began)
        version = await _update(living, corrected.interaction_id)
        await until_served(living.base_url, version=version)
        await talk.say(last)
        await talk.close()

    turns = {turn.interaction_id: turn for turn in living.folder.interactions.read()}
    asked = [turns[row.interaction_id] for row in recorder.rows if row.status == 200]
    assert len(asked) == len(recorder.rows)
    assert [turn.turn_type for turn in asked] == [row.expect["turn"] for row in recorder.rows]
    (session,) = {turn.session_id for turn in asked}
    assert corrected.session_id == session
    verdict = next(
        one
        for one in living.folder.verdicts.read()
        if one.interaction_id == corrected.interaction_id
    )
    assert (verdict.score, verdict.hint) == (-1, HINT)
    main = [turn for turn in asked if turn.turn_type == "main"]
    assert main[-1].weights.version_first >= version >= 1
    print(
        f"{client.name}: {len(asked)} requests, prompt of {len(main[-1].prompt_ids or ())} tokens, "
        f"version {version}, {time.time() - began:.0f} s"
    )


async def _correction(living: Gateway, *, since: float) -> Feedback:
    async with asyncio.timeout(60):
        while True:
            for one in living.folder.feedback.read():
                if one.created >= since and CORRECTION in one.content:
                    return one
            await asyncio.sleep(0.5)


async def _update(living: Gateway, interaction_id: str) -> int:
    """The version that learned from a turn. Raises AssertionError where its sample is rejected."""
    async with asyncio.timeout(UPDATE_S):
        while True:
            for sample in living.folder.samples.read():
                if sample.interaction_id == interaction_id:
                    assert sample.accepted, sample.reason
            for update in living.folder.surviving_updates():
                if interaction_id in update.sample_ids:
                    return update.version
            await asyncio.sleep(1)
