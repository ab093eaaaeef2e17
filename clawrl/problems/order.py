"""A published order of problems: a JSON file with a list `order` of their ids."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from clawrl.errors import DataError
from clawrl.problems.files import read_failure
from clawrl.protocols import Problem


def in_order(
    rows: Sequence[Problem], order_file: Path, wanted: int, *, prefix: str = ""
) -> list[Problem]:
    """The first `wanted` problems of the order.

    Args:
        rows: all problems.
        order_file: what `data.eval_order` names.
        wanted: how many, or as many as the order has.
        prefix: an id in the order may be a row's with this in front of it.

    Raises:
        DataError: the file cannot be read or holds no order, or there is no row with an id of it.
    """
    try:
        order: Any = json.loads(order_file.read_text(encoding="utf-8"))["order"]
        ids = [str(problem_id) for problem_id in order[:wanted]]
    except (OSError, UnicodeDecodeError) as error:
        reason = read_failure(error)
        raise DataError(f"data.eval_order: cannot read {order_file}: {reason}") from None
    except (ValueError, KeyError, TypeError):
        problem = "not JSON with a list 'order' of ids"
        raise DataError(f"data.eval_order: {order_file}: {problem}") from None
    by_id = {problem.problem_id: problem for problem in rows}
    if prefix:
        by_id = {f"{prefix}{name}": problem for name, problem in by_id.items()} | by_id
    for problem_id in ids:
        if problem_id not in by_id:
            raise DataError(f"data.eval_order: {order_file}: no row has the id {problem_id!r}")
    return [by_id[problem_id] for problem_id in ids]
