"""Personal data is blanked before it reaches the disk, and the conversation goes on."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from clawrl.gateway.redaction import Redactor
from tests.unit.test_gateway_chat import ASKED, Gateway, follow

MAIL = [{"role": "user", "content": "Write to ann@example.org, please."}]


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[Gateway]:
    gateway = Gateway(tmp_path)
    yield gateway
    await gateway.http.aclose()
    gateway.writer.close()


def on_disk(gateway: Gateway) -> str:
    return "".join(path.read_text() for path in gateway.folder.root.rglob("*.jsonl"))


async def test_a_turn_with_personal_data_keeps_no_ids_and_is_not_trained(gateway: Gateway) -> None:
    await gateway.post(MAIL)
    record = await gateway.one()
    assert record.messages == [{"role": "user", "content": "Write to [email], please."}]
    assert (record.redacted, record.untrainable) == (["email"], "redacted")
    assert record.prompt_ids is record.reply_ids is record.behaviour_logp is None
    assert "ann@" not in on_disk(gateway)


@pytest.mark.parametrize("stream", [False, True])
async def test_a_reply_is_redacted_too_and_still_recognised(gateway: Gateway, stream: bool) -> None:
    gateway.engine.replies = iter(["Ask bob@example.org .", "Ok."])  # type: ignore[assignment]
    await gateway.post(ASKED, session_id="s", stream=stream)
    reply = {"role": "assistant", "content": "Ask bob@example.org ."}
    await gateway.say(follow(reply, "or +49 30 901820?"))
    ((interaction, feedback),) = gateway.given
    assert interaction.reply["content"] == "Ask [email] ."
    assert feedback.content == "or [phone]?"
    assert "bob@" not in on_disk(gateway)
    assert "901820" not in on_disk(gateway)


async def test_a_turn_that_is_cut_is_redacted(gateway: Gateway) -> None:
    await gateway.post(MAIL)
    assert "ann@" not in on_disk(gateway)


async def test_what_clawrl_drives_is_recorded_as_it_is(gateway: Gateway) -> None:
    await gateway.post(MAIL, session_id="s", headers={"x-clawrl-driven": "1"})
    record = await gateway.one()
    assert (record.redacted, record.live) == ([], False)
    assert record.messages == MAIL


async def test_redaction_can_be_turned_off(tmp_path: Path) -> None:
    gateway = Gateway(tmp_path, redact=False)
    await gateway.post(MAIL)
    assert (await gateway.one()).messages == MAIL
    gateway.writer.close()


def test_a_text_that_was_clean_is_not_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    redactor = Redactor()
    assert redactor.redact([{"content": "nothing"}]).kinds == []
    monkeypatch.setattr("clawrl.gateway.redaction.redact", None)
    assert redactor.redact([{"content": "nothing"}]).value == [{"content": "nothing"}]
