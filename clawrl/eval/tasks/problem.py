"""Problems with one right answer each: AIME, GSM8K, MATH-500, and the user's own.

A task's file holds data, prompt, scorer and sampling; everything else is here.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from clawrl.config import schema
from clawrl.errors import ConfigError, DataError, nearest
from clawrl.eval.evaluation.generation import Generation
from clawrl.eval.scoring.rules import RULES, RULES_VERSION, score
from clawrl.eval.statistics.estimates import Estimate
from clawrl.eval.tasks.asking import ask
from clawrl.eval.tasks.problem_data import problems, source_of
from clawrl.eval.tasks.sampled import sampled_numbers
from clawrl.eval.tasks.task import Draw, Item, Setting, Task
from clawrl.problems.files import HubSet

_SLOT = "{question}"


class ProblemTask(Task):
    """Asks each problem, reads the answer out of the reply and compares it."""

    metric = "exact_match"

    def __init__(
        self,
        *,
        name: str,
        description: str,
        prompt: str,
        scorer: str,
        hub: Mapping[str, str],
        sampling: Mapping[str, Any],
        samples: int = 1,
        size: int | None = None,
    ) -> None:
        r"""A task's file as it stands.

        Args:
            name: of the task and of its local data file.
            description: one line.
            prompt: the user's message, `{question}` in it.
            scorer: `integer`, `number` or `math` (`clawrl.eval.scoring.rules`).
            hub: `id`, `split` and, where they differ, `config`, `question`, `answer`, `row_id`.
            sampling: `temperature` and `max_tokens`.
            samples: replies to each problem.
            size: problems in the published set.

        Raises:
            ConfigError: one of them is wrong.
        """
        if _SLOT not in prompt:
            raise ConfigError(f"{name}.prompt", f"it has no {_SLOT}")
        if scorer not in RULES:
            raise ConfigError(f"{name}.scorer", f"there is no '{scorer}'{nearest(scorer, RULES)}")
        self.name, self.description = name, description
        self.samples, self.size = samples, size
        self.sampling = sampling_section(name, sampling)
        self._prompt, self._scorer, self._rules = prompt, scorer, RULES[scorer]
        self._hub = HubSet.from_file(name, hub)

    def items(self, data: schema.Data) -> list[Item]:
        """All problems. Raises DataError, also where an answer is none of the scorer's kind."""
        found = [
            Item(problem.problem_id, problem.question, problem.answer, {})
            for problem in problems(self.name, data, self._hub)
        ]
        for item in found:
            if not self._rules.is_answer(item.answer):
                raise DataError(
                    f"{self.source(data)}: {item.item_id}: the answer {item.answer!r} is not one "
                    f"that {self.name} can have (scorer: {self._scorer})"
                )
        return found

    def source(self, data: schema.Data) -> str:
        """The file that is read, or the hub's id."""
        return source_of(self.name, data, self._hub)

    def settings(self) -> dict[str, Any]:
        """The prompt and the scorer."""
        return {"doc_to_text": self._prompt, "scorer": self._scorer}

    def digest(self, items: Sequence[Item]) -> str:
        """Of problems, prompt and rules."""
        decides = [
            RULES_VERSION,
            self._scorer,
            self._prompt,
            [[item.item_id, item.question, item.answer] for item in items],
        ]
        return hashlib.sha256(json.dumps(decides).encode()).hexdigest()

    async def draw(self, draw: Draw, setting: Setting) -> Generation:
        """See `Task.draw`."""
        item = draw.item
        content = self._prompt.replace(_SLOT, item.question)
        reply = await ask(setting, [{"role": "user", "content": content}], seed=draw.seed)
        scored = await asyncio.to_thread(
            score, reply.text, reply.finish_reason, item.answer, self._rules
        )
        return draw.generation(
            text=reply.text,
            finish_reason=reply.finish_reason,
            tokens=reply.tokens,
            status=scored.status,
            parsed=scored.parsed,
            scores={self.metric: float(scored.right)},
        )

    def summary(self, generations: Sequence[Generation]) -> dict[str, Estimate | float]:
        """avg@n, pass@k, majority@n, and how the replies ended."""
        return sampled_numbers(generations, self.metric, self._rules.same)


def sampling_section(name: str, values: Mapping[str, Any]) -> schema.Sampling:
    """A task file's `sampling`. Raises ConfigError in one line."""
    try:
        return schema.Sampling.model_validate(dict(values))
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join([name, "sampling", *map(str, first["loc"])])
        raise ConfigError(key, first["msg"]) from None
