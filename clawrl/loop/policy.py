"""The policy's engine as one thing to enter and leave: train, collect, serve and eval share it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from clawrl import models
from clawrl.config.build import build
from clawrl.config.schema import Config, Plugin
from clawrl.engine.client import VllmEngine
from clawrl.engine.external import external_model
from clawrl.engine.keeper import EngineKeeper
from clawrl.engine.server import EngineServer
from clawrl.errors import ConfigError, WeightsError
from clawrl.judge.rated import RatedJudge
from clawrl.protocols import Judge
from clawrl.records.folder import RunFolder
from clawrl.records.versions import version_folder
from clawrl.serving.policy import ServedPolicy

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Policy:
    """A running engine and what it serves."""

    model_path: Path
    model_name: str
    """What requests to the engine call it."""
    engine_url: str
    """Without `/v1`."""
    engine: VllmEngine
    served: ServedPolicy
    keeper: EngineKeeper | ExternalEngine


def weights_path(folder: RunFolder, model_path: Path, version: int) -> Path:
    """The folder of a version's weights; version 0 is the base model."""
    return version_folder(folder.weights, version) if version else model_path


@asynccontextmanager
async def open_policy(
    config: Config, folder: RunFolder, progress: Progress
) -> AsyncGenerator[Policy]:
    """Start the engine with the newest weights of the run; stop it at the end.

    Raises:
        ModelError: the model cannot be found.
        EngineError: the engine does not start.
        ConfigError: it is an external one.
        WeightsError: the ledger names a version that is not on the disk.
    """
    if config.engine.device == "external":
        raise ConfigError(
            "engine", "an external engine's weights are not ours to change: it can only be served"
        )
    model_path = await asyncio.to_thread(models.prepare, config.model.name, progress=progress)
    updates = folder.surviving_updates()
    if updates:
        version, digest = updates[-1].version, updates[-1].digest_after
    else:
        version, digest = 0, await asyncio.to_thread(models.base_digest, model_path)
    if not weights_path(folder, model_path, version).is_dir():
        raise WeightsError(f"{folder.weights}: version {version} of the ledger is not there")
    served = ServedPolicy(version, digest)
    async with open_engine(
        config,
        model_path,
        weights=weights_path(folder, model_path, version),
        version=version,
        log=folder.logs / "engine.log",
        progress=progress,
    ) as (server, engine):
        keeper = EngineKeeper(
            server,
            engine,
            max_restarts=config.engine.max_restarts,
            current=lambda: (weights_path(folder, model_path, served.version), served.version),
            served=served,
        )
        yield Policy(model_path, server.served_name, server.base_url, engine, served, keeper)


class ExternalEngine:
    """Somebody else keeps it running."""

    async def run(self) -> None:
        """Wait for ever."""
        await asyncio.Event().wait()


@asynccontextmanager
async def open_external(config: Config, progress: Progress) -> AsyncGenerator[Policy]:
    """A policy that a server elsewhere serves; its weights are not ours to change.

    Raises:
        EngineError: it does not answer, or serves no model.
    """
    url = (config.engine.base_url or "").rstrip("/").removesuffix("/v1")
    progress(f"asking {url} what it serves")
    name = await external_model(url)
    async with VllmEngine(
        url,
        model=name,
        request_timeout_s=config.engine.request_timeout_s,
        update_timeout_s=config.engine.update_timeout_s,
        lora=False,
    ) as engine:
        served = ServedPolicy(0, f"external:{name}")
        yield Policy(Path(name), name, url, engine, served, ExternalEngine())


@asynccontextmanager
async def open_engine(
    config: Config,
    model_path: Path,
    *,
    weights: Path,
    version: int,
    log: Path,
    progress: Progress,
) -> AsyncGenerator[tuple[EngineServer, VllmEngine]]:
    """Start a vLLM server on `resources.policy_gpus` with some weights; stop it at the end.

    Args:
        config: its sections `model`, `engine` and `resources`.
        model_path: the base model.
        weights: what is served: the same folder, or a version's weights or adapter.
        version: the weights' number; 0: the base model as it is.
        log: where vLLM's output goes.
        progress: is told what happens now.

    Raises:
        EngineError: the engine does not start, or does not take the weights.
    """
    server = EngineServer(
        model_path,
        model=config.model,
        engine=config.engine,
        resources=config.resources,
        gpus=config.resources.policy_gpus,
        log=log,
    )
    try:
        await server.start(progress)
        async with VllmEngine(
            server.base_url,
            model=server.served_name,
            request_timeout_s=config.engine.request_timeout_s,
            update_timeout_s=config.engine.update_timeout_s,
            lora=config.model.lora is not None,
        ) as engine:
            if version:
                progress(f"loading the weights of version {version}")
                await engine.update_weights(weights, version)
            yield server, engine
    finally:
        await server.stop()


def judge_engine(judge: Plugin) -> str | None:
    """Where a judge's model is served: `own`, `policy` or a URL; None where its own keys say it."""
    settings = judge.model_extra or {}
    return None if "base_url" in settings else settings.get("engine")


@asynccontextmanager
async def open_judge(
    config: Config,
    folder: RunFolder,
    progress: Progress,
    *,
    policy: Policy | None,
    trusted: bool = True,
) -> AsyncGenerator[Judge]:
    """Build the judge, with an engine of its own if it asks for one.

    A judge whose section has `engine: own` gets a vLLM server on `resources.judge_gpus`,
    `engine: policy` shares the policy's, and a URL is used as it is.
    """
    settings = dict(config.judge.model_extra or {})
    where = judge_engine(config.judge)
    settings.pop("engine", None)
    section = config.judge.model_validate({"_target_": config.judge.target, **settings})
    async with AsyncExitStack() as stack:
        supplied: dict[str, object] = {}
        if where == "own":
            server = await _judge_server(config, folder, str(settings.get("model")), progress)
            stack.push_async_callback(server.stop)
            supplied["base_url"] = f"{server.base_url}/v1"
            section = section.model_validate(
                {"_target_": section.target, **settings, "model": server.served_name}
            )
        elif where == "policy":
            if policy is None:
                raise ConfigError("judge.engine", "no policy is served here; give a base URL")
            supplied |= {
                "base_url": f"{policy.engine_url}/v1",
                "judging_version": lambda: policy.served.version,
            }
            settings["model"] = policy.model_name
            section = section.model_validate({"_target_": section.target, **settings})
        elif where is not None:
            supplied["base_url"] = where
        judge = build(section, Judge, key="judge", trusted=trusted, **supplied)
        stack.push_async_callback(judge.aclose)
        yield RatedJudge(judge)


async def _judge_server(
    config: Config, folder: RunFolder, name: str, progress: Progress
) -> EngineServer:
    path = await asyncio.to_thread(models.prepare, name, progress=progress)
    server = judge_server(config, name, path, folder.logs / "judge.log")
    await server.start(progress)
    return server


def judge_server(config: Config, name: str, path: Path, log: Path) -> EngineServer:
    """The judge's own engine: frozen, so without adapters; verdicts tell judges by its name."""
    return EngineServer(
        path,
        model=config.model.model_copy(update={"lora": None}),
        engine=config.engine,
        resources=config.resources,
        gpus=config.resources.judge_gpus,
        log=log,
        served_name=Path(name).name,
    )
