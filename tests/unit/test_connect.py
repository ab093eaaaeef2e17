"""Pointing stock agents at the gateway."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

from clawrl.cli.main import app
from clawrl.connect.change import plan
from clawrl.connect.clients import CLIENTS, Endpoint
from clawrl.errors import UserError

TO = Endpoint("http://127.0.0.1:8080/v1", "policy", "none", 8192, 2048)


def written(name: str, before: str, home: Path) -> str:
    client = CLIENTS[name]
    path = home / client.path
    path.parent.mkdir(parents=True)
    path.write_text(before)
    plan(client, TO, home).write()
    return path.read_text()


def test_openclaw_gets_a_provider_and_keeps_the_rest(tmp_path: Path) -> None:
    before = {"agents": {"defaults": {"model": {"primary": "x/y"}, "skills": []}}, "hooks": {}}
    after = json.loads(written("openclaw", json.dumps(before), tmp_path))
    provider = after["models"]["providers"]["clawrl"]
    assert (provider["baseUrl"], provider["api"]) == (TO.base_url, "openai-completions")
    assert provider["models"][0]["contextWindow"] == 8192
    assert after["agents"]["defaults"] == {"model": {"primary": "clawrl/policy"}, "skills": []}
    assert after["hooks"] == {}


def test_opencode_gets_a_provider(tmp_path: Path) -> None:
    after = json.loads(written("opencode", "", tmp_path))
    assert after["model"] == "clawrl/policy"
    assert after["provider"]["clawrl"]["options"]["baseURL"] == TO.base_url


def test_codex_gets_a_provider_and_keeps_its_comments(tmp_path: Path) -> None:
    before = '# mine\nmodel = "gpt"  # the old one\n\n[model_providers.other]\nname = "o"\n'
    text = written("codex", before, tmp_path)
    after = tomllib.loads(text)
    assert text.startswith("# mine\n")
    assert (after["model"], after["model_provider"]) == ("policy", "clawrl")
    assert after["model_providers"]["clawrl"]["wire_api"] == "responses"
    assert after["model_providers"]["other"] == {"name": "o"}


@pytest.mark.parametrize("name", list(CLIENTS))
def test_what_was_there_is_kept_beside_it_and_a_second_time_changes_nothing(
    tmp_path: Path, name: str
) -> None:
    client = CLIENTS[name]
    path = tmp_path / client.path
    assert plan(client, TO, tmp_path).write() is None
    first = path.read_text()
    assert not plan(client, TO, tmp_path).needed
    path.write_text("")
    backup = plan(client, TO, tmp_path).write()
    assert backup is not None
    assert backup.read_text() == ""
    assert path.read_text() == first
    assert path.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("openclaw", "{ // comments\n}"),
        ("openclaw", "[]"),
        ("opencode", '{"provider": 3}'),
        ("codex", "= 3"),
    ],
)
def test_a_file_that_cannot_be_read_stays_as_it_is(tmp_path: Path, name: str, text: str) -> None:
    with pytest.raises(UserError, match=f"clawrl connect {name} --show"):
        written(name, text, tmp_path)
    assert (tmp_path / CLIENTS[name].path).read_text() == text


def test_the_command_shows_the_change_and_asks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    run = CliRunner().invoke(app, ["connect", "opencode"], input="n\n")
    assert run.exit_code != 0
    assert '+  "model": "clawrl/policy"' in run.stdout
    assert not list(tmp_path.rglob("opencode.json"))
    run = CliRunner().invoke(app, ["connect", "opencode"], input="y\n")
    assert run.exit_code == 0
    assert list(tmp_path.rglob("opencode.json"))


def test_an_unknown_client_is_answered_with_the_nearest() -> None:
    run = CliRunner().invoke(app, ["connect", "opencod"])
    assert isinstance(run.exception, UserError)
    assert "opencode" in str(run.exception)
