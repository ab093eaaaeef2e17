"""Measures a version of the policy on the persona's fixed problems and files the result."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import cached_property
from typing import Any

from clawrl.config.build import build
from clawrl.config.schema import Config
from clawrl.eval.personalization.measure import measure
from clawrl.eval.personalization.measurement import Measurement, measurements, record
from clawrl.loop.policy import Policy
from clawrl.problems.sets import eval_problems
from clawrl.protocols import Persona, Problem
from clawrl.records.folder import RunFolder
from clawrl.tastes.known import TASTES


class Measurer:
    """The same problems, openings and seeds each time."""

    def __init__(self, config: Config, folder: RunFolder, policy: Policy, *, trusted: bool) -> None:
        self._config = config
        self._folder = folder
        self._policy = policy
        self._persona = build(config.persona, Persona, key="persona", trusted=trusted)

    def measured(self, version: int) -> bool:
        """Whether the folder holds a measurement of this version."""
        return any(found.version == version for found in measurements(self._folder))

    @cached_property
    def _problems(self) -> list[Problem]:
        return eval_problems(self._config.data)

    @cached_property
    def _tokenizer(self) -> Any:
        from transformers import AutoTokenizer

        return AutoTokenizer.from_pretrained(str(self._policy.model_path))

    def _encode(self, text: str) -> list[int]:
        return self._tokenizer.encode(text, add_special_tokens=False)

    async def measure(self, version: int, progress: Callable[[int, int], None]) -> Measurement:
        """Draw the replies, score them, append the measurement to `eval/vN.jsonl`."""
        await asyncio.to_thread(lambda: (self._problems, self._tokenizer))
        found = await measure(
            engine=self._policy.engine,
            persona=self._persona,
            taste=TASTES[self._config.taste],
            problems=self._problems,
            sampling=self._config.sampling,
            config=self._config.eval,
            progress=progress,
            version=version,
            template_kwargs=self._config.model.template_kwargs,
            encode=self._encode,
        )
        record(self._folder, found)
        return found
