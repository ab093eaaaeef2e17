"""The process plan: who would run where, what it needs, and the exact commands. Starts nothing."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path

from clawrl import models
from clawrl.config.schema import Config
from clawrl.engine.server import EngineServer
from clawrl.errors import ModelError
from clawrl.learner.command import learner_command, learner_environment, memory_estimate_gib
from clawrl.loop.gpus import measured_gpus
from clawrl.loop.policy import judge_engine, judge_server

GIB = 2**30
BYTES = {"float32": 4, "bfloat16": 2}
ENGINE_OVERHEAD_GIB = 1.5
"""Interpreter, libraries and activations of one engine process on the CPU."""
SUPERVISOR_GIB = 0.6


@dataclass(frozen=True)
class Planned:
    """One process, or one group of alike processes."""

    name: str
    devices: str
    port: str
    memory: str
    command: list[str]
    environment: dict[str, str]

    @property
    def line(self) -> str:
        """The command as one would type it."""
        settings = " ".join(
            f"{key}={shlex.quote(value)}" for key, value in self.environment.items()
        )
        return f"{settings} {shlex.join(self.command)}".strip()


@dataclass(frozen=True)
class Room:
    """A device's memory beside what is planned on it, in GiB."""

    needed: float
    there: float
    source: str
    """How `there` is known: `measured`, or the key that assumes it."""

    @property
    def fits(self) -> bool:
        """Whether there is enough."""
        return self.needed <= self.there


@dataclass(frozen=True)
class Plan:
    """A whole run before it starts."""

    processes: list[Planned]
    devices: dict[str, Room]
    update_bytes: int
    """What one weight update moves to the engine."""
    transfer: str

    @property
    def fits(self) -> bool:
        """Whether every device has room for what is planned on it."""
        return all(room.fits for room in self.devices.values())


def make_plan(config: Config, run_dir: Path) -> Plan:
    """Plan a training run. Raises ConfigError where the devices do not fit the processes."""
    resources = config.resources
    model_path = _path(config.model.name)
    policy = EngineServer(
        model_path,
        model=config.model,
        engine=config.engine,
        resources=resources,
        gpus=resources.policy_gpus,
        log=run_dir / "logs/engine.log",
    )
    gpus_gib = measured_gpus()
    policy_gib = _engine_gib(config, resources.policy_gpus, gpus_gib)
    learner_gib = memory_estimate_gib(config) or 0.0
    processes = [
        Planned(
            "supervisor",
            "cpu",
            f"gateway {config.gateway.host}:{config.gateway.port or 'free'}",
            f"{SUPERVISOR_GIB:.1f} GiB",
            ["clawrl", "train"],
            {},
        ),
        Planned(
            "policy engine",
            _devices(resources.policy_gpus),
            "127.0.0.1:free",
            f"{policy_gib:.1f} GiB each",
            policy.command(),
            policy.environment(),
        ),
    ]
    needs: dict[str, float] = {}
    _add(needs, resources.policy_gpus, policy_gib)
    settings = config.judge.model_extra or {}
    if judge_engine(config.judge) == "own":
        name = str(settings["model"])
        judge_gib = _engine_gib(config, resources.judge_gpus, gpus_gib)
        judge = judge_server(config, name, _path(name), run_dir / "logs/judge.log")
        processes.append(
            Planned(
                "judge engine",
                _devices(resources.judge_gpus),
                "127.0.0.1:free",
                f"{judge_gib:.1f} GiB each",
                judge.command(),
                judge.environment(),
            )
        )
        _add(needs, resources.judge_gpus, judge_gib)
    processes.append(
        Planned(
            f"learner x{len(resources.learner_gpus) or resources.learner_processes}",
            _devices(resources.learner_gpus),
            "rendezvous 127.0.0.1:free",
            f"{learner_gib:.1f} GiB each",
            learner_command(config, run_dir, config.loop.updates),
            learner_environment(config, model_path),
        )
    )
    _add(needs, resources.learner_gpus, learner_gib, each=resources.learner_processes)
    needs["cpu"] = needs.get("cpu", 0.0) + SUPERVISOR_GIB
    return Plan(
        processes,
        {device: _room(config, device, gib, gpus_gib) for device, gib in sorted(needs.items())},
        update_bytes(config),
        config.weights.transfer,
    )


def _engine_gib(config: Config, gpus: list[int], gpus_gib: dict[int, float]) -> float:
    """Memory of one engine on one device: weights and cache (CPU), or its share of the GPU.

    Of unlike GPUs the one with the most memory counts.
    """
    if config.engine.device == "cuda":
        assumed = config.resources.gpu_memory_gib
        memory = max((gpus_gib.get(gpu, assumed) for gpu in gpus), default=assumed)
        return config.engine.gpu_memory_share * memory
    parameters = config.model.parameters or 0.0
    weights = parameters * BYTES[config.model.dtype] / GIB
    return weights + config.engine.kv_cache_gib + ENGINE_OVERHEAD_GIB


def update_bytes(config: Config) -> int:
    """Bytes that one weight update moves, at the engine's precision: everything, or an adapter."""
    size = BYTES[config.model.dtype]
    parameters = config.model.parameters or 0.0
    if config.model.lora is None:
        return int(parameters * size)
    layers = config.model.hidden_layers or 1
    width = (parameters / (12 * layers)) ** 0.5
    # Seven linear maps a layer, about 18 widths of input and output together (gated MLP, 8/3 wide).
    return int(layers * 18 * width * config.model.lora.rank * size)


def _path(name: str) -> Path:
    try:
        return models.resolve(name)
    except ModelError:
        return Path(name)


def _devices(gpus: list[int]) -> str:
    return ", ".join(f"cuda:{gpu}" for gpu in gpus) or "cpu"


def _add(needs: dict[str, float], gpus: list[int], gib: float, *, each: int = 1) -> None:
    for device in [f"cuda:{gpu}" for gpu in gpus] or ["cpu"] * each:
        needs[device] = needs.get(device, 0.0) + gib


def _room(config: Config, device: str, needed: float, gpus_gib: dict[int, float]) -> Room:
    if device == "cpu":
        import psutil

        return Room(needed, psutil.virtual_memory().total / GIB, "measured")
    there = gpus_gib.get(int(device.removeprefix("cuda:")))
    if there is None:
        return Room(needed, config.resources.gpu_memory_gib, "assumed: resources.gpu_memory_gib")
    return Room(needed, there, "measured")
