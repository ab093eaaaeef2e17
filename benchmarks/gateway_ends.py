"""The engine, and the gateway before it, as `clawrl serve` has them: for the benchmarks here."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from openai import AsyncOpenAI

from clawrl import models
from clawrl.config import compose as composing
from clawrl.engine.client import VllmEngine
from clawrl.engine.server import EngineServer
from clawrl.gateway.app import create_app
from clawrl.gateway.serve import GatewayServer
from clawrl.records.folder import RunFolder
from clawrl.records.writer import RecordWriter
from clawrl.serving.policy import ServedPolicy


@dataclass(frozen=True)
class Ends:
    """Both ways to the same engine."""

    model: Path
    engine: VllmEngine
    served: ServedPolicy
    writer: RecordWriter
    direct: AsyncOpenAI
    through: AsyncOpenAI

    async def update(self, version: int, *, gateway: bool) -> None:
        """The same weights again, through the gateway's gate or past it."""
        if not gateway:
            await self.engine.update_weights(self.model, version)
            return
        async with self.served.closed():
            await self.engine.update_weights(self.model, version)
            self.served.moved_to(version, f"d{version}")
            self.writer.roll(version)


@asynccontextmanager
async def both_ends() -> AsyncGenerator[Ends]:
    """One process holds the clients and the gateway, others the engine with the demo's model."""
    config = composing.compose(["recipe=student_persona"])
    path = models.prepare(config.model.name, progress=print)
    with tempfile.TemporaryDirectory() as scratch:
        server = EngineServer(
            path,
            model=config.model,
            engine=config.engine,
            resources=config.resources,
            gpus=[],
            log=Path(scratch) / "engine.log",
        )
        await server.start(print)
        writer = RecordWriter(RunFolder(Path(scratch) / "run"), version=0, queue_records=10_000)
        served = ServedPolicy(0, "")
        try:
            async with VllmEngine(
                server.base_url, model="policy", request_timeout_s=600, update_timeout_s=60
            ) as engine:
                app = create_app(
                    engine=engine,
                    served=served,
                    writer=writer,
                    config=config.gateway,
                    model_name="policy",
                    template_kwargs={},
                    temperature=1.0,
                    on_feedback=lambda _turn, _feedback: None,
                )
                async with GatewayServer(app, "127.0.0.1", 0) as gateway:
                    direct, through = (
                        AsyncOpenAI(
                            base_url=f"{url}/v1", api_key="none", timeout=600, max_retries=0
                        )
                        for url in (server.base_url, gateway.base_url)
                    )
                    yield Ends(path, engine, served, writer, direct, through)
        finally:
            writer.close()
            await server.stop()
