"""A judge as what is measured: who it is, without starting anything."""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncGenerator
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Any

from clawrl import models
from clawrl.config.schema import Config
from clawrl.errors import EngineError
from clawrl.eval.evaluation.runner import Subject
from clawrl.loop.policy import Progress, judge_engine
from clawrl.protocols import Engine, Generation
from clawrl.records.nouns import Sampling

_NO_OPINION = ("api_key", "timeout_s", "concurrent")
"""Keys that say how a judge is reached; the others form its opinion."""


def judge_subject(config: Config, progress: Progress) -> Subject:
    """The configured judge. Its digest is of its settings, clawrl's rules and prompts, its weights.

    Raises:
        ModelError: the model of a judge with an engine of its own cannot be found.
    """
    settings = dict(config.judge.model_extra or {})
    opinion: dict[str, Any] = {k: v for k, v in settings.items() if k not in _NO_OPINION}
    sha = hashlib.sha256(json.dumps([config.judge.target, opinion], sort_keys=True).encode())
    for file in _files(resources.files("clawrl.judge")):
        sha.update(file.read_bytes())
    if judge_engine(config.judge) == "own":
        path = models.prepare(str(settings.get("model")), progress=progress)
        sha.update(models.base_digest(path).encode())
    name = config.judge.target.rpartition(".")[2]
    name += f" {settings['model']}" if "model" in settings else ""
    return Subject(name, sha.hexdigest(), None, "judge", {"judge": config.judge.target, **opinion})


def _files(folder: Traversable) -> list[Traversable]:
    """What decides a verdict of clawrl's own judges: code, phrases, prompts; in a fixed order."""
    found: list[Traversable] = []
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.is_dir() and entry.name != "__pycache__":
            found += _files(entry)
        elif entry.name.endswith((".py", ".yaml", ".txt")):
            found.append(entry)
    return found


class NoEngine(Engine):
    """Stands where a task that asks no model is given its engine."""

    async def chat(self, body: dict[str, Any]) -> dict[str, Any]:
        """Raises EngineError."""
        raise _none()

    async def chat_stream(self, body: dict[str, Any]) -> AsyncGenerator[dict[str, Any]]:
        """Raises EngineError."""
        raise _none()
        yield {}

    async def generate(self, prompt_ids: list[int], sampling: Sampling) -> Generation:
        """Raises EngineError."""
        raise _none()

    async def score(self, prompt_ids: list[int], reply_ids: list[int]) -> list[float]:
        """Raises EngineError."""
        raise _none()

    async def health(self) -> bool:
        """There is none."""
        return False


def _none() -> EngineError:
    return EngineError("no model is served for this task")
