"""Who is let in, and what is refused before anything is used."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from starlette.testclient import TestClient

from clawrl.config import schema
from clawrl.gateway.app import create_app
from clawrl.records.folder import RunFolder
from clawrl.records.writer import RecordWriter
from clawrl.serving.policy import ServedPolicy
from tests.stub_engine import StubEngine

BODY = {"model": "policy", "messages": [{"role": "user", "content": "hi"}]}
CHAT = "/v1/chat/completions"


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[RecordWriter]:
    writer = RecordWriter(RunFolder(tmp_path), version=0, queue_records=100)
    yield writer
    writer.close()


def client(writer: RecordWriter, engine: StubEngine | None = None, **config: Any) -> TestClient:
    app = create_app(
        engine=engine or StubEngine(),
        served=ServedPolicy(2, "d"),
        writer=writer,
        config=schema.Gateway(record_wait_ms=5000, **config),
        model_name="policy",
        template_kwargs={},
        temperature=0.7,
        on_feedback=lambda interaction, feedback: None,
    )
    return TestClient(app, base_url="http://127.0.0.1:8000")


@pytest.mark.parametrize("host", ["127.0.0.1:8000", "localhost:99", "[::1]:8000", "127.8.8.8"])
def test_loopback_names_are_let_in(writer: RecordWriter, host: str) -> None:
    assert client(writer).post(CHAT, json=BODY, headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "10.0.0.1:8000", "localhost.evil.example", "", "[x"]
)
def test_a_page_that_rebinds_its_name_to_this_machine_is_refused(
    writer: RecordWriter, host: str
) -> None:
    for path in ("/v1/models", "/healthz"):
        assert client(writer).get(path, headers={"host": host}).status_code == 403
    response = client(writer, api_key="k").post(CHAT, json=BODY, headers={"host": host})
    assert response.status_code == 403
    assert response.json()["error"]["code"] == "host_refused"


@pytest.mark.parametrize(
    "origin", ["https://evil.example", "null", "http://127.0.0.1:9", "http://localhost:8000", ""]
)
def test_a_page_of_another_origin_is_refused(writer: RecordWriter, origin: str) -> None:
    response = client(writer).post(CHAT, json=BODY, headers={"origin": origin})
    assert response.status_code == 403
    assert response.json()["error"]["code"] == "origin_refused"


def test_a_page_of_the_same_origin_is_let_in(writer: RecordWriter) -> None:
    headers = {"origin": "http://127.0.0.1:8000"}
    assert client(writer).post(CHAT, json=BODY, headers=headers).status_code == 200


@pytest.mark.parametrize("host", ["192.0.2.7:80", socket.gethostname(), "gpu-box.example"])
def test_an_open_gateway_goes_by_any_name_and_asks_for_a_key(
    writer: RecordWriter, host: str
) -> None:
    opened = client(writer, host="0.0.0.0", api_key="secret")
    for key, status in (("secret", 200), ("guess", 401)):
        headers = {"host": host, "authorization": f"Bearer {key}"}
        assert opened.post(CHAT, json=BODY, headers=headers).status_code == status


@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.7", "::", "gpu-box.example"])
def test_an_open_gateway_without_a_key_is_refused(host: str) -> None:
    with pytest.raises(ValidationError, match=r"set gateway\.api_key"):
        schema.Gateway(host=host)


@pytest.mark.parametrize(
    "given", [None, "Bearer wrong", "Bearer", "secret", "Basic secret", "Bearer sécret"]
)
def test_a_wrong_key_is_refused(writer: RecordWriter, given: str | None) -> None:
    headers = {} if given is None else {"authorization": given.encode()}
    guarded = client(writer, api_key="secret")
    for response in (
        guarded.post(CHAT, json=BODY, headers=headers),
        guarded.get("/v1/models", headers=headers),
    ):
        assert response.status_code == 401
        assert response.json()["error"]["code"] == "invalid_api_key"


def test_the_right_key_is_let_in_and_health_needs_none(writer: RecordWriter) -> None:
    guarded = client(writer, api_key="secret")
    headers = {"authorization": "bearer secret"}
    assert guarded.post(CHAT, json=BODY, headers=headers).status_code == 200
    assert guarded.get("/healthz").status_code == 200


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", ""])
def test_what_a_form_can_send_is_refused(writer: RecordWriter, kind: str) -> None:
    response = client(writer).post(CHAT, content=b"{}", headers={"content-type": kind})
    assert response.status_code == 415


def test_too_large_a_body_is_refused(writer: RecordWriter) -> None:
    small = client(writer, max_body_mib=0.001)
    body = {"messages": [{"role": "user", "content": "x" * 2000}]}
    response = small.post(CHAT, json=body)
    assert response.status_code == 413
    assert "gateway.max_body_mib" in response.json()["error"]["message"]


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"{", "not valid JSON"),
        (b"\xff", "not valid JSON"),
        (b"[]", "must be a JSON object"),
        (b"[" * 100_000, "not valid JSON"),
        (b'{"messages": [{"role": "user"}], "x": NaN}', "NaN is not JSON"),
        (b'{"messages": [{"role": "user", "content": "\\uD800"}]}', "surrogates"),
        (b"{}", "messages: Field required"),
        (b'{"messages": []}', "messages: "),
        (b'{"messages": "hi"}', "messages: "),
        (b'{"messages": [{"content": "hi"}]}', "messages.0.role is missing"),
        (b'{"messages": [{"role": "user"}], "temperature": "hot"}', "temperature: "),
        (b'{"messages": [{"role": "user"}], "temperature": -1}', "temperature: "),
        (b'{"messages": [{"role": "user"}], "tools": {}}', "tools: "),
    ],
)
def test_a_body_of_another_form_is_a_400_that_says_where(
    writer: RecordWriter, raw: bytes, message: str
) -> None:
    headers = {"content-type": "application/json; charset=utf-8"}
    response = client(writer).post(CHAT, content=raw, headers=headers)
    assert response.status_code == 400
    assert message in response.json()["error"]["message"]


def test_other_paths_and_methods_answer_in_the_same_format(writer: RecordWriter) -> None:
    missing, wrong = client(writer).get("/v1/files"), client(writer).get(CHAT)
    assert (missing.status_code, wrong.status_code) == (404, 405)
    assert set(missing.json()["error"]) == {"message", "type", "param", "code"}


def test_the_models_are_the_one_policy(writer: RecordWriter) -> None:
    answer = client(writer).get("/v1/models").json()
    assert [model["id"] for model in answer["data"]] == ["policy"]


def test_health_says_the_version_and_whether_the_engine_answers(writer: RecordWriter) -> None:
    engine = StubEngine()
    healthy = client(writer, engine).get("/healthz")
    assert healthy.status_code == 200
    assert healthy.json()["version"] == 2
    engine.error = RuntimeError("down")
    assert client(writer, engine).get("/healthz").status_code == 503


async def test_a_client_that_leaves_in_the_middle_of_its_request_breaks_nothing(
    writer: RecordWriter,
) -> None:
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "POST",
        "path": CHAT,
        "raw_path": CHAT.encode(),
        "root_path": "",
        "scheme": "http",
        "query_string": b"",
        "headers": [(b"host", b"127.0.0.1"), (b"content-type", b"application/json")],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 80),
    }
    parts = iter(
        [
            {"type": "http.request", "body": b'{"messages"', "more_body": True},
            {"type": "http.disconnect"},
        ]
    )
    sent: list[dict[str, object]] = []

    async def receive() -> dict[str, object]:
        return next(parts)

    async def send(message: dict[str, object]) -> None:
        sent.append(message)

    await client(writer).app(scope, receive, send)  # pyright: ignore
    assert sent[0]["status"] == 400
