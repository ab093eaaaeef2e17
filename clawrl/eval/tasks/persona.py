"""Personalization as the paper measures it: first replies to a persona, scored from 0 to 1.

The problems, the persona's opening words and the seeds are always the same. The rules score every
reply; where a model plays the persona too (`scorer`), its score is the task's metric. Invariants:
an error's text or an empty reply scores 0 everywhere, by rule; a score that could not be had is
missing, which is not 0, and is counted.
Source: arXiv:2603.10165, personalization on the first 36 problems of GSM8K's test split.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import cached_property
from importlib import resources
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from clawrl.config import schema
from clawrl.config.build import build
from clawrl.errors import ConfigError, DataError, EngineError, nearest
from clawrl.eval.evaluation.generation import Generation, Status
from clawrl.eval.evaluation.model_scores import MODEL
from clawrl.eval.scoring.no_reply import is_empty, is_no_reply
from clawrl.eval.scoring.persona import PersonaScorer, Scorer
from clawrl.eval.statistics.estimates import Estimate, Observations, mean
from clawrl.eval.tasks.asking import Reply, ask
from clawrl.eval.tasks.problem import sampling_section
from clawrl.eval.tasks.problem_data import problems, source_of
from clawrl.eval.tasks.sampled import by_item, ends
from clawrl.eval.tasks.task import Draw, Item, Setting, Task
from clawrl.problems.files import HubSet
from clawrl.problems.order import in_order
from clawrl.protocols import Persona, Problem
from clawrl.tastes.known import TASTES
from clawrl.tastes.student import reference_rule

RULES = "rules"
"""The mean share of the taste's checks that pass."""
PASSES = "passes"
"""All checks pass."""
REFERENCE_RULE = "reference_rule"
"""The published setting's rule, for the student."""
_OPENING_SEED = 0
"""One opening for every reply to a problem, so that only the sampling differs."""
_NOT_THE_REPLY = (
    "APIConnectionError",
    "AuthenticationError",
    "PermissionDeniedError",
    "NotFoundError",
)
"""Failures of a scorer that say nothing about the one reply: the next one would fail as well."""
_RULE_FILES = ("taste.py", "substance.py")
_LOST: tuple[Status, ...] = ("empty", "error")
"""Replies that are none: 0 by rule."""


class PersonaTask(Task):
    """Asks each problem in the persona's words and scores the reply as that persona."""

    drawn_as_trained = True
    """Replies are drawn with the model's own sampling, as in training."""

    def __init__(
        self,
        *,
        name: str,
        description: str,
        taste: str,
        persona: Mapping[str, Any],
        dataset: str,
        hub: Mapping[str, str],
        samples: int = 4,
        size: int | None = None,
        sampling: Mapping[str, Any] | None = None,
        scorer: Mapping[str, Any] | None = None,
    ) -> None:
        """A task's file as it stands.

        Args:
            name: of the task.
            description: one line.
            taste: whose checks are the rules, and whose prompt scores: `student`, ...
            persona: `_target_` and arguments of the persona whose opening words are used.
            dataset: the problems' name, and that of their local file.
            hub: `id`, `split` and, where they differ, `config`, `question`, `answer`, `row_id`.
            samples: replies to each problem.
            size: problems in the published setting.
            sampling: `temperature` and `max_tokens`, where the model's own do not count.
            scorer: who scores as the persona; see `Scorer`. None: the rules alone.

        Raises:
            ConfigError: one of them is wrong.
        """
        if taste not in TASTES:
            raise ConfigError(f"{name}.taste", f"there is no '{taste}'{nearest(taste, TASTES)}")
        self.name, self.description = name, description
        self.samples, self.size = samples, size
        self.sampling = sampling_section(name, sampling or {})
        self.drawn_as_trained = sampling is None
        self._taste, self._dataset = TASTES[taste], dataset
        self._persona_section = schema.Plugin.model_validate(dict(persona))
        self._scorer_section = _scorer_section(scorer or {})
        self.metric = MODEL if self._scorer_section.asked else RULES
        self._hub = HubSet.from_file(name, hub)

    @cached_property
    def _persona(self) -> Persona:
        return build(self._persona_section, Persona, key=f"{self.name}.persona")

    @cached_property
    def _scorer(self) -> PersonaScorer | None:
        if not self._scorer_section.asked:
            return None
        return PersonaScorer(self._taste.name, self._scorer_section)

    async def aclose(self) -> None:
        """Close the connections to the scorer."""
        if self._scorer is not None:
            await self._scorer.aclose()

    def items(self, data: schema.Data) -> list[Item]:
        """The first `data.eval_problems` problems, of `data.eval_order` where that is set.

        Raises:
            DataError: the problems or their order cannot be read, or there are too few.
        """
        rows = problems(self._dataset, data, self._hub)
        wanted = data.eval_problems
        if data.eval_order is not None:
            order_file = Path(data.eval_order).expanduser()
            rows = in_order(rows, order_file, wanted, prefix=f"{self._dataset}-")
        if len(rows) < wanted:
            raise DataError(
                f"{self.source(data)} has {len(rows)} problems, data.eval_problems asks for "
                f"{wanted}"
            )
        return [
            Item(problem.problem_id, problem.question, problem.answer, {})
            for problem in rows[:wanted]
        ]

    def source(self, data: schema.Data) -> str:
        """The file that is read, or the hub's id."""
        return source_of(self._dataset, data, self._hub)

    def settings(self) -> dict[str, Any]:
        """The opening words, the checks, and the model that scores."""
        words = self._opening(Item("p", "{question}", "{answer}", {}))
        checks = {check.name: check.wants for check in self._taste.checks}
        told: dict[str, Any] = {"doc_to_text": words[-1]["content"], "checks": checks}
        if self._scorer is not None:
            told |= {"scorer": self._scored_by(), "scoring_prompt": self._scorer.prompt}
        return told

    def digest(self, items: Sequence[Item]) -> str:
        """Of problems, opening words, rules and the scorer with its prompt."""
        decides: list[Any] = [
            self._taste.name,
            _rules_digest(self._taste.name),
            [[item.item_id, item.answer, self._opening(item)] for item in items],
        ]
        if self._scorer is not None:
            decides += [self._scored_by(), self._scorer.prompt]
        return hashlib.sha256(json.dumps(decides, sort_keys=True).encode()).hexdigest()

    async def draw(self, draw: Draw, setting: Setting) -> Generation:
        """See `Task.draw`. EngineError also where the scorer cannot be reached at all."""
        item = draw.item
        words = self._opening(item)
        reply = await ask(setting, words, seed=draw.seed)
        status = _status(reply)
        scores = self._by_rules(reply, lost=status in _LOST)
        problem = "the text is an error's, not a reply" if status == "error" else None
        if self._scorer is not None:
            found = await self._scorer.score(words[-1]["content"], reply.text, reply.finish_reason)
            if found.problem in _NOT_THE_REPLY:
                where = self._scorer_section.base_url
                raise EngineError(f"scorer.base_url: {where} does not score: {found.problem}")
            if found.score is not None:
                scores[MODEL] = found.score
        return draw.generation(
            text=reply.text,
            finish_reason=reply.finish_reason,
            tokens=reply.tokens,
            status=status,
            scores=scores,
            problem=problem,
        )

    def summary(self, generations: Sequence[Generation]) -> dict[str, Estimate | float]:
        """avg@n of each score, each check's share, the share abstained, how the replies ended.

        `avg@n` is the metric's; the other scores stand under their own names, also over n samples.
        What was abstained from counts in no mean.
        """
        n = min(len(drawn) for drawn in by_item(generations).values())
        numbers: dict[str, Estimate | float] = {f"avg@{n}": _mean(generations, self.metric)}
        for name in self._score_names():
            if name != self.metric:
                numbers[name] = _mean(generations, name)
        for check in self._taste.checks:
            numbers[f"check/{check.name}"] = self._check_rate(generations, check.name)
        if self._scorer_section.asked:
            abstained = [float(_score(one, MODEL) is None) for one in generations]
            numbers["abstained"] = mean(
                Observations(abstained, [one.item_id for one in generations])
            )
        return numbers | ends(generations)

    def _opening(self, item: Item) -> list[dict[str, str]]:
        problem = Problem(item.item_id, item.question, item.answer)
        return self._persona.opening(problem, _OPENING_SEED)

    def _score_names(self) -> list[str]:
        names = [RULES, PASSES]
        names += [REFERENCE_RULE] if self._taste.name == "student" else []
        return names + ([MODEL] if self._scorer_section.asked else [])

    def _by_rules(self, reply: Reply, *, lost: bool) -> dict[str, float]:
        """The scores that take no model."""
        checks = self._taste.results(reply.text, reply.finish_reason)
        scores = {
            RULES: sum(checks.values()) / len(checks),
            PASSES: float(all(checks.values())),
        }
        if self._taste.name == "student":
            scores[REFERENCE_RULE] = float(reference_rule(reply.text))
        return dict.fromkeys(scores, 0.0) if lost else scores

    def _check_rate(self, generations: Sequence[Generation], name: str) -> Estimate:
        passed = [
            float(
                one.status not in _LOST and self._taste.results(one.text, one.finish_reason)[name]
            )
            for one in generations
        ]
        return mean(Observations(passed, [one.item_id for one in generations]))

    def _scored_by(self) -> dict[str, Any]:
        """What of the scorer decides a score; never its key."""
        section = self._scorer_section
        return {
            "model": section.model,
            "temperature": section.temperature,
            "max_tokens": section.max_tokens,
        }


def _status(reply: Reply) -> Status:
    if is_no_reply(reply.text, reply.finish_reason):
        return "empty" if is_empty(reply.text) else "error"
    return "truncated" if reply.finish_reason == "length" else "ok"


def _score(generation: Generation, name: str) -> float | None:
    """A score; 0 for what is no reply, whoever filed it; None: the scorer abstained."""
    return 0.0 if generation.status in _LOST else generation.scores.get(name)


def _mean(generations: Sequence[Generation], name: str) -> Estimate:
    """The mean of a score over what has one; not a number where nothing has."""
    scored = [(one.item_id, _score(one, name)) for one in generations]
    there = [(item, score) for item, score in scored if score is not None]
    if not there:
        return Estimate(float("nan"), float("nan"), float("nan"))
    return mean(Observations([score for _, score in there], [item for item, _ in there]))


def _scorer_section(values: Mapping[str, Any]) -> Scorer:
    try:
        return Scorer.model_validate(dict(values))
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(["scorer", *map(str, first["loc"])])
        if first["type"] == "extra_forbidden":
            hint = nearest(str(first["loc"][-1]), Scorer.model_fields)
            raise ConfigError(key, f"unknown key{hint}") from None
        raise ConfigError(key, first["msg"]) from None


def _rules_digest(taste: str) -> str:
    """sha256 of the files that define the checks: a change of them makes it another task."""
    folder = resources.files("clawrl.tastes")
    texts = [folder.joinpath(name).read_bytes() for name in (f"{taste}.py", *_RULE_FILES)]
    return hashlib.sha256(b"\0".join(texts)).hexdigest()
