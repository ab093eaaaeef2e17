"""The two gateways that clients talk to: one around a scripted engine, one that really learns."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import httpx

from clawrl.config import schema
from clawrl.gateway.app import create_app
from clawrl.gateway.serve import GatewayServer
from clawrl.judge.cues import CuesJudge
from clawrl.loop.pipeline import Pipeline
from clawrl.records.folder import RunFolder
from clawrl.records.writer import RecordWriter
from clawrl.samples.assemble import assemble
from clawrl.samples.render import PromptRenderer
from clawrl.serving.policy import ServedPolicy
from tests.clients.actor import Actor


@dataclass(frozen=True)
class Gateway:
    """Where it listens, and what it records."""

    base_url: str
    """Without `/v1`."""
    folder: RunFolder


@asynccontextmanager
async def scripted(model: Path, root: Path, *, only_calls: bool = False) -> AsyncIterator[Gateway]:
    """Gateway, judge and sample maker in this process; at the end everything is on the disk."""
    renderer = PromptRenderer(model)
    folder = RunFolder(root)
    writer = RecordWriter(folder, version=0, queue_records=1000)
    pipeline = Pipeline(
        judge=CuesJudge(),
        writer=writer,
        assemble=partial(
            assemble, objective=schema.Objective(), renderer=renderer, context_tokens=1_000_000
        ),
        concurrent=2,
        on_sample=lambda sample: None,
    )
    app = create_app(
        engine=Actor(renderer, only_calls=only_calls),
        served=ServedPolicy(0, "d"),
        writer=writer,
        config=schema.Gateway(record_wait_ms=60_000),
        model_name="policy",
        template_kwargs={},
        temperature=0.7,
        on_feedback=pipeline.submit,
    )
    judging = asyncio.create_task(pipeline.run())
    async with GatewayServer(app, "127.0.0.1", 0) as server:
        yield Gateway(server.base_url, folder)
    await pipeline.drain()
    judging.cancel()
    await asyncio.to_thread(writer.close)


def serve(root: Path, port: int, log: Path) -> subprocess.Popen[bytes]:
    """`clawrl serve recipe=personal` with an update for each sample, so that a test need not wait.

    Args:
        root: where the run is recorded, as `root / "personal"`.
        port: of the gateway.
        log: takes what it prints.
    """
    command = [sys.executable, "-m", "clawrl.cli.main", "serve", "recipe=personal"]
    settings = [f"gateway.port={port}", f"runs_dir={root}", "learner.batch_samples=1"]
    with log.open("wb") as file:
        return subprocess.Popen([*command, *settings], stdout=file, stderr=file)


async def until_served(base_url: str, *, version: int = 0, limit_s: float = 600) -> None:
    """Return when a version is served. Raises TimeoutError."""
    async with asyncio.timeout(limit_s), httpx.AsyncClient(base_url=base_url) as http:
        while True:
            with contextlib.suppress(httpx.TransportError):
                state = (await http.get("/healthz")).json()
                if state["status"] == "ok" and state["version"] >= version:
                    return
            await asyncio.sleep(1)


def free_port() -> int:
    """One that nobody listens on now."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]
