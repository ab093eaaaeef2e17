"""The task whose subject is the judge: its verdicts on labelled next states against the labels.

No policy is measured and no engine is started for one; a judge that asks a model brings its own.
The same numbers are had in two ways: at once by `measure_judge`, and through the runner, which
keeps every verdict on the disk and goes on where it stopped.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

from rich.console import RenderableType

from clawrl.config import schema
from clawrl.errors import ConfigError
from clawrl.eval.evaluation.bounded import each
from clawrl.eval.evaluation.generation import Generation
from clawrl.eval.judging import agreement, labelled
from clawrl.eval.judging.labelled import LabelledState
from clawrl.eval.judging.report import Judged, JudgeReport
from clawrl.eval.judging.table import judge_table
from clawrl.eval.statistics.estimates import Estimate
from clawrl.eval.tasks.task import Draw, Item, Setting, Task
from clawrl.protocols import Judge
from clawrl.records.nouns import Feedback, Interaction, Sampling, Verdict, Weights

__all__ = ["JudgeReport", "JudgeTask", "judge_table", "measure_judge"]

Progress = Callable[[int, int], None]
"""Called with (done, total) verdicts."""

_STATE = "state"


async def measure_judge(
    judge: Judge, items: Sequence[LabelledState], *, concurrent: int, progress: Progress
) -> JudgeReport:
    """Ask the judge about every next state.

    Args:
        judge: is not closed here.
        items: at least one.
        concurrent: next states asked about at one time.
        progress: called after each, with (done, total).
    """
    done = 0

    def finished() -> None:
        nonlocal done
        done += 1
        progress(done, len(items))

    async def one(state: LabelledState) -> Judged:
        return Judged(state, await judge.judge(*turn(state)))

    judged = await each(one, items, concurrent=concurrent, finished=finished)
    return JudgeReport(judge.name, tuple(judged))


def turn(state: LabelledState) -> tuple[Interaction, Feedback]:
    """The recorded turn that a judge is shown: request, reply and what came back."""
    interaction = Interaction(
        interaction_id=state.id,
        session_id=state.id,
        turn=0,
        turn_type="main",
        created=0.0,
        messages=[{"role": "user", "content": state.request}],
        sampling=Sampling(),
        reply={"role": "assistant", "content": state.reply},
        weights=Weights(version_first=0, version_last=0, digest=""),
    )
    feedback = Feedback(
        interaction_id=state.id,
        session_id=state.id,
        created=0.0,
        role=state.role,
        content=state.content,
    )
    return interaction, feedback


class JudgeTask(Task):
    """Labelled next states, as a task of the runner; `items` come from `data.path` if it is set."""

    metric = "accuracy"
    samples = 1
    needs_model = False

    def __init__(self, *, name: str, description: str, judge: Judge | None = None) -> None:
        """A task's file as it stands, and the judge that is measured.

        Args:
            name: of the task.
            description: one line.
            judge: None: the task can be listed, but nothing can be drawn.
        """
        self.name, self.description = name, description
        self.size = len(labelled.own_states())
        self.sampling = schema.Sampling()
        self._judge = judge

    def states(self, path: str | None) -> list[LabelledState]:
        """Of the file, or clawrl's own. Raises DataError."""
        return labelled.own_states() if path is None else labelled.read_states(Path(path))

    def items(self, data: schema.Data) -> list[Item]:
        """The next states. Raises DataError."""
        return [
            Item(state.id, state.content, f"{state.score:+d}", {_STATE: state})
            for state in self.states(data.path)
        ]

    def source(self, data: schema.Data) -> str:
        """The file, or clawrl's own set."""
        return data.path or "clawrl's own set (clawrl/eval/judging/judge_set)"

    def digest(self, items: Sequence[Item]) -> str:
        """Of every next state and label."""
        return labelled.digest([item.extra[_STATE] for item in items])

    async def draw(self, draw: Draw, setting: Setting) -> Generation:
        """One verdict; state and verdict, whole, are the generation's text.

        Raises:
            ConfigError: the task was made without a judge.
        """
        if self._judge is None:
            raise ConfigError("judge", f"{self.name} measures a judge and was given none")
        item = draw.item
        judged = Judged(item.extra[_STATE], await self._judge.judge(*turn(item.extra[_STATE])))
        score = judged.verdict.score
        return draw.generation(
            text=_written(judged),
            tokens=judged.verdict.cost.completion_tokens,
            status="ok" if score is not None else "unparsable",
            parsed=None if score is None else f"{score:+d}",
            scores={self.metric: float(score == judged.state.score)},
        )

    def report(self, generations: Sequence[Generation]) -> JudgeReport:
        """What was drawn, as `measure_judge` reports it. There is at least one generation."""
        judged = tuple(_read(one.text) for one in generations)
        return JudgeReport(self._judge.name if self._judge else judged[0].verdict.judge, judged)

    def tables(self, generations: Sequence[Generation]) -> list[RenderableType]:
        """The table of both parts."""
        return [judge_table(self.report(generations))]

    def summary(self, generations: Sequence[Generation]) -> dict[str, Estimate | float]:
        """Accuracy over all, then every number of each part."""
        report = self.report(generations)
        over_all = agreement.accuracy([one.judgement for one in report.judged])
        first = {} if over_all is None else {self.metric: over_all}
        return {**first, **report.numbers()}


def _written(judged: Judged) -> str:
    verdict = judged.verdict.model_dump(mode="json")
    return json.dumps({_STATE: asdict(judged.state), "verdict": verdict}, ensure_ascii=False)


def _read(text: str) -> Judged:
    fields = json.loads(text)
    return Judged(LabelledState(**fields[_STATE]), Verdict.model_validate(fields["verdict"]))
