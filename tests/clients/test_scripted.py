"""Stock clients, unmodified, against a gateway whose engine is scripted: two conversations each."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.captures import replay, rows, session_errors
from tests.clients.gateways import scripted
from tests.clients.recorder import Recorder
from tests.clients.stock import CLIENTS, ROOT, Client
from tests.clients.turns import CORRECTION, HINT, TASKS, lines

pytestmark = [pytest.mark.clients, pytest.mark.timeout(1800)]
CAPTURED = ROOT / ".clients" / "captures"


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
async def test_a_conversation_with_a_correction_becomes_a_sample(
    client: Client, tiny_model: Path, tmp_path: Path
) -> None:
    if problem := client.missing():
        pytest.skip(problem)
    version = await client.version(tmp_path / "version")
    async with (
        scripted(tiny_model, tmp_path / "run", only_calls=client.only_calls) as gateway,
        Recorder(gateway.base_url) as recorder,
    ):
        recorder.client = f"{client.name}-{version}"
        recorder.errand = client.errand
        talks = {name: client.open(recorder.base_url, tmp_path / name) for name in TASKS}
        for turn in range(3):  # both conversations at once
            for name, talk in talks.items():
                recorder.conversation = f"{recorder.client} {name}"
                assert await talk.say(lines(TASKS[name])[turn])
        for talk in talks.values():
            await talk.close()
    recorder.save(CAPTURED, gateway.folder)

    turns = {turn.interaction_id: turn for turn in gateway.folder.interactions.read()}
    assert {row.status for row in recorder.rows} == {200}
    for row in recorder.rows:
        turn = turns[row.interaction_id]
        assert turn.turn_type == row.expect["turn"], (row.expect, turn.kind)
        assert turn.turn_type == "side" or turn.untrainable is None
    sessions = {
        name: {
            turns[row.interaction_id].session_id
            for row in recorder.rows
            if row.expect["session"].endswith(name)
        }
        for name in TASKS
    }
    assert [len(found) for found in sessions.values()] == [1, 1]
    assert not sessions["one"] & sessions["two"]

    corrections = [one for one in gateway.folder.feedback.read() if CORRECTION in one.content]
    assert {one.role for one in corrections} == {"user"}
    verdicts = {one.interaction_id: one for one in gateway.folder.verdicts.read()}
    samples = {one.interaction_id: one for one in gateway.folder.samples.read()}
    assert len(corrections) == 2
    for one in corrections:
        verdict, sample = verdicts[one.interaction_id], samples[one.interaction_id]
        assert (verdict.score, verdict.hint) == (-1, HINT)
        assert sample.accepted
        assert sample.hint_dropped is None
        assert sample.hinted_prompt_ids


def test_what_the_clients_sent_is_placed_right() -> None:
    captured = rows(CAPTURED)
    if not captured:
        pytest.skip("no client was recorded yet: make clients")
    placed = list(replay(captured))
    assert session_errors(placed) == []
    assert [one.row.name for one in placed if one.placement.turn_type != one.row.turn] == []
    bare = list(replay([row.without_ids() for row in captured]))
    wrong = [one.row.name for one in bare if one.placement.turn_type != one.row.turn]
    print(f"{len(placed)} rows; without ids and headers {session_errors(bare)}, {wrong}")
    assert len(session_errors(bare)) <= 6
    assert len(wrong) <= 1
