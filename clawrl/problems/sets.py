"""The personas' problems: what is trained on, and what is measured on, which never overlap.

Training problems come for ever and in the same order for the same seed; a finite set is shuffled
anew for each pass. Measured problems are fixed: they do not depend on any seed.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

from clawrl.config import schema
from clawrl.errors import DataError
from clawrl.problems.files import HubSet, file_problems, hub_problems
from clawrl.problems.generated import generated_problems
from clawrl.problems.order import in_order
from clawrl.protocols import Problem

_EVAL_SEED = 1_000_000_000
"""Generator seeds from here on are measured on, those below are trained on."""

_APART = 1_000_003
"""Generator seeds between two training orders, so that they do not share their problems."""


def training_problems(data: schema.Data) -> Iterator[Problem]:
    """Problems without end, in an order set by `data.seed`, none of which is measured on.

    Raises:
        DataError: nothing can be loaded, a row has the wrong form, or nothing is left to train on.
    """
    measured = eval_problems(data)
    held_out = {problem.problem_id for problem in measured}
    asked = {_normal(problem.question) for problem in measured}

    def trainable(problem: Problem) -> bool:
        return problem.problem_id not in held_out and _normal(problem.question) not in asked

    if data.source == "reasoning_gym":
        return filter(trainable, generated_problems(data.seed * _APART % _EVAL_SEED))
    rows = file_problems(data.path, "data.path") if data.source == "file" else _hub(data, "train")
    kept = [problem for problem in rows if trainable(problem)]
    if not kept:
        raise DataError("no problem is left to train on once the measured ones are taken out")
    return _shuffled_for_ever(kept, data.seed)


def eval_problems(data: schema.Data) -> list[Problem]:
    """The `data.eval_problems` fixed problems to measure on, always the same.

    Raises:
        DataError: as `training_problems`, or there are fewer than asked for.
    """
    wanted = data.eval_problems
    if data.source == "reasoning_gym":
        generated = generated_problems(_EVAL_SEED)
        return [next(generated) for _ in range(wanted)]
    if data.source == "hub":
        return _first(_hub(data, "test"), wanted, f"the test split of {data.hub_id}")
    rows = file_problems(data.eval_path, "data.eval_path")
    if data.eval_order is not None:
        rows = in_order(rows, Path(data.eval_order).expanduser(), wanted)
    return _first(rows, wanted, str(data.eval_path))


def _first(rows: list[Problem], wanted: int, where: str) -> list[Problem]:
    if len(rows) < wanted:
        raise DataError(f"{where} has {len(rows)} problems, data.eval_problems asks for {wanted}")
    return rows[:wanted]


def _shuffled_for_ever(problems: list[Problem], seed: int) -> Iterator[Problem]:
    order = random.Random(seed)
    while True:
        yield from order.sample(problems, len(problems))


def _normal(question: str) -> str:
    return " ".join(question.split()).casefold()


# The hub


def _hub(data: schema.Data, split: str) -> list[Problem]:
    """A split of a hub data set with `question` and a GSM8K `answer` (the number after ####)."""
    return hub_problems(
        HubSet(id=data.hub_id, config=data.hub_config, split=split),
        key="data.hub_id",
        otherwise="without a network use data.source=reasoning_gym, or data.source=file with "
        "data.path and data.eval_path",
    )
