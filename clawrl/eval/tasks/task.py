"""What a model can be measured on, and the record of one measured reply.

A task is one small file, `conf/task/NAME.yaml`: its `_target_` names a `Task`, the other keys are
that class's own. The runner (`clawrl.eval.evaluation.runner`) draws what is missing, keeps every
generation, and asks the task for its summary; a task never keeps state between two draws.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import RenderableType

from clawrl.config import schema
from clawrl.eval.evaluation.generation import Generation
from clawrl.eval.statistics.estimates import Estimate
from clawrl.protocols import Engine


@dataclass(frozen=True, slots=True)
class Item:
    """One thing to measure on: a problem, a labelled next state, an environment's task."""

    item_id: str
    question: str
    answer: str
    """What is right, as text."""
    extra: dict[str, Any]
    """What else the task's own class needs of it."""


@dataclass(frozen=True, slots=True)
class Draw:
    """One generation that is to be made."""

    item: Item
    sample: int
    seed: int

    def generation(self, **found: Any) -> Generation:
        """The record of what was drawn: `text`, `status`, `scores` and so on are `found`."""
        return Generation(
            item_id=self.item.item_id,
            sample=self.sample,
            seed=self.seed,
            question=self.item.question,
            answer=self.item.answer,
            **found,
        )


@dataclass(frozen=True, slots=True)
class Setting:
    """What a task draws with."""

    engine: Engine
    """Serves the measured model."""
    sampling: schema.Sampling
    template_kwargs: dict[str, Any]


class Task(ABC):
    """Something to measure a model on."""

    name: str
    description: str
    """One line, for `--task list`."""
    metric: str
    """The score that is reported first, compared by `clawrl compare`, and used in avg@n."""
    samples: int
    """Draws for each item where the user names none."""
    sampling: schema.Sampling
    """What it is drawn with where the user says nothing."""
    size: int | None = None
    """How many items its own data set has, for `--task list`; None: that depends on the data."""
    needs_model: bool = True
    """False: the judge is measured. It is opened, the task is built anew with it as `judge`, and
    `Setting.engine` must not be asked."""
    drawn_as_trained: bool = False
    """True: `sampling` does not count, the model's own settings do, as in training."""

    @abstractmethod
    def items(self, data: schema.Data) -> list[Item]:
        """What is measured on, always the same and in the same order. Raises DataError."""

    def source(self, data: schema.Data) -> str | None:
        """Where the items come from, in words; None: it has nothing to say. Fetches nothing."""
        return data.path

    def settings(self) -> dict[str, Any]:
        """What results.json tells about the task besides its name, such as the prompt."""
        return {}

    @abstractmethod
    def digest(self, items: Sequence[Item]) -> str:
        """sha256 of all that decides a score besides model and sampling: items, prompt, rules."""

    @abstractmethod
    async def draw(self, draw: Draw, setting: Setting) -> Generation:
        """Ask once and score the reply.

        Raises:
            RequestError: this one request is wrong (too long a prompt, say); the runner files it
                with status `error` and goes on.
            EngineError: the engine failed; the runner stops, and a second call goes on.
        """

    async def aclose(self) -> None:  # noqa: B027 - most tasks hold nothing
        """Give back connections, where it holds any."""

    def tables(self, generations: Sequence[Generation]) -> list[RenderableType]:
        """What the screen shows in place of the plain table of numbers; empty: that table."""
        return []

    @abstractmethod
    def summary(self, generations: Sequence[Generation]) -> dict[str, Estimate | float]:
        """The task's numbers by name, such as `avg@4`, `pass@4`, `majority@4`, `truncated`."""
