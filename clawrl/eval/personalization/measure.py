"""How much the policy's first replies are to a persona's taste.

Always the same problems, the same opening words and the same seeds, drawn at the training
temperature straight from the engine: two measurements differ by the weights alone. Checks that look
at a reply are a measure here, never a reward (invariant 7), and so is the persona's answer to it:
nobody judges it, and nothing of it is trained on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from clawrl.config import schema
from clawrl.errors import DataError
from clawrl.eval.evaluation.bounded import each
from clawrl.eval.personalization.measurement import MeasuredReply, Measurement
from clawrl.eval.personalization.neutral import Encode, neutral_texts, score_texts
from clawrl.eval.scoring.answers import final_number, is_correct
from clawrl.eval.statistics.diversity import distinct_bigrams
from clawrl.eval.tasks.asking import Reply, ask
from clawrl.eval.tasks.task import Setting
from clawrl.protocols import Engine, Persona, Problem, Reaction
from clawrl.tastes.student import reference_rule
from clawrl.tastes.taste import Taste

_OPENING_SEED = 0
"""One opening for every reply to a problem, so that only the sampling differs."""


@dataclass(frozen=True, slots=True)
class _Draw:
    """One reply that is to be drawn."""

    problem: Problem
    repeat: int
    seed: int


async def measure(
    *,
    engine: Engine,
    persona: Persona,
    taste: Taste,
    problems: Sequence[Problem],
    sampling: schema.Sampling,
    config: schema.Eval,
    progress: Callable[[int, int], None],
    version: int = 0,
    template_kwargs: dict[str, Any] | None = None,
    encode: Encode | None = None,
    bos: int | None = None,
) -> Measurement:
    """First replies to the fixed problems, and what they are like.

    Args:
        engine: what serves the policy.
        persona: whose opening words are used, and who then reads the reply.
        taste: the checks.
        problems: the fixed ones, outside the training data.
        sampling: the training's temperature and length limit.
        config: replies per problem, seed and concurrency.
        progress: called with (done, total) after each reply or text.
        version: of the weights that the engine serves.
        template_kwargs: extra arguments of the chat template.
        encode: text to ids without special tokens; given, the neutral texts are scored too.
        bos: the token that begins a text, for the neutral texts.

    Raises:
        DataError: there are no problems.
        EngineError: the engine failed; no partial measurement is returned.
    """
    if not problems:
        raise DataError("data: there is no problem to measure on; set data.eval_problems or a path")
    setting = Setting(engine, sampling, template_kwargs or {})
    draws = _draws(problems, config)
    texts = len(neutral_texts()) if encode else 0
    finished = _Counter(len(draws) + texts, progress)

    async def reply_to(draw: _Draw) -> MeasuredReply:
        words = persona.opening(draw.problem, _OPENING_SEED)
        reply = await ask(setting, words, seed=draw.seed)
        answer = await persona.react(
            draw.problem, reply.text, reply.finish_reason, 0, seed=draw.seed
        )
        return _measured(reply, draw, taste, complained=complains(answer))

    replies = await each(reply_to, draws, concurrent=config.concurrent, finished=finished)
    neutral = None
    if encode is not None:
        neutral = await score_texts(
            engine, encode, bos=bos, concurrent=config.concurrent, finished=finished
        )
    return Measurement(
        version=version,
        taste=taste.name,
        metric=taste.metric,
        wants={check.name: check.wants for check in taste.checks},
        temperature=sampling.temperature,
        max_tokens=sampling.max_tokens,
        replies=replies,
        neutral=neutral,
    )


class _Counter:
    """Tells the progress after each call."""

    def __init__(self, total: int, progress: Callable[[int, int], None]) -> None:
        self._done, self._total, self._progress = 0, total, progress

    def __call__(self) -> None:
        self._done += 1
        self._progress(self._done, self._total)


def _draws(problems: Sequence[Problem], config: schema.Eval) -> list[_Draw]:
    """Every (problem, repeat) with a seed of its own, the same in every measurement."""
    repeats = config.replies_per_problem
    return [
        _Draw(problem, repeat, config.seed + place * repeats + repeat)
        for place, problem in enumerate(problems)
        for repeat in range(repeats)
    ]


def complains(answer: Reaction) -> bool | None:
    """Whether the persona wants a better reply; None where it says nothing at all."""
    return None if answer.text is None else not answer.done


def _measured(reply: Reply, draw: _Draw, taste: Taste, *, complained: bool | None) -> MeasuredReply:
    text, finish_reason = reply.text, reply.finish_reason
    checks = taste.results(text, finish_reason)
    return MeasuredReply(
        problem_id=draw.problem.problem_id,
        question=draw.problem.question,
        answer=draw.problem.answer,
        repeat=draw.repeat,
        seed=draw.seed,
        text=text,
        finish_reason=finish_reason,
        tokens=reply.tokens,
        checks=checks,
        score=taste.score(text, finish_reason),
        reference_rule=reference_rule(text),
        distinct_bigrams=distinct_bigrams(text),
        final_number=final_number(text) is not None,
        correct=is_correct(text, draw.problem.answer),
        complained=complained,
    )
