"""What more than one test file needs: a tiny real model, and one real engine for all of them."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from clawrl import models
from clawrl.config import schema
from clawrl.engine.client import VllmEngine
from clawrl.engine.server import EngineServer
from tests.tiny import make_tiny_model

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")

settings.register_profile("same", derandomize=True)  # a change fails by what it changes
settings.register_profile("explore", print_blob=True)  # pytest --hypothesis-profile=explore
settings.load_profile("same")

CONTEXT_TOKENS = 512


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Where tests run in several processes, a file's stay in one; so do all of `policy_server`."""
    for item in items:
        if item.get_closest_marker("xdist_group") is None:
            shared = "policy_server" in getattr(item, "fixturenames", ())
            group = "policy_server" if shared else item.nodeid.partition("::")[0]
            item.add_marker(pytest.mark.xdist_group(group))


@pytest.fixture(scope="session")
def smol_path() -> Path:
    """The demo's model; the first time it is downloaded."""
    return models.prepare("smollm2-135m", progress=lambda _line: None)


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two random layers over bytes, context 512."""
    return make_tiny_model(tmp_path_factory.mktemp("tiny") / "model")


def tiny_server(model: Path, log: Path, *, lora: schema.Lora | None = None) -> EngineServer:
    """An engine over the tiny model, in float32 on the CPU; not started."""
    return EngineServer(
        model,
        model=schema.Model(name=str(model), context_tokens=CONTEXT_TOKENS, lora=lora),
        engine=schema.Engine(kv_cache_gib=1),
        resources=schema.Resources(),
        gpus=[],
        log=log,
    )


@pytest.fixture(scope="session")
def policy_server(
    tiny_model: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[EngineServer]:
    """One vLLM server for the whole session. A test that changes its weights changes them back."""
    server = tiny_server(tiny_model, tmp_path_factory.mktemp("engine") / "engine.log")
    asyncio.run(server.start(lambda _line: None))
    yield server
    asyncio.run(server.stop())


@pytest.fixture
async def policy(policy_server: EngineServer) -> AsyncIterator[VllmEngine]:
    """A client of `policy_server`."""
    async with VllmEngine(
        policy_server.base_url, model="policy", request_timeout_s=60, update_timeout_s=60
    ) as client:
        yield client
