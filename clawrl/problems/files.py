"""Problems out of the user's JSONL files and out of the hub's data sets.

A row that is not a problem is an error that names file and line; nothing is skipped or replaced.
Both training and measuring read with it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jsonlines

from clawrl.errors import ConfigError, DataError
from clawrl.protocols import Problem


def file_problems(path: str | Path | None, key: str) -> list[Problem]:
    """The rows of a JSONL file: `id`, `question` (or `problem`) and `answer` each.

    Args:
        path: the file; None is an error, said in the user's words.
        key: the option that names it, for messages.

    Raises:
        DataError: no file, a row of the wrong form, an id twice, or no row at all.
    """
    if path is None:
        raise DataError(f"{key} is not set: name a JSONL file of rows with id, question, answer")
    file = Path(path).expanduser()
    problems: dict[str, Problem] = {}
    try:
        with jsonlines.open(file) as reader:
            for line, row in enumerate(_lines(reader, file), start=1):
                problem = as_problem(row, f"{file}:{line}")
                if problem.problem_id in problems:
                    raise DataError(f"{file}:{line}: id {problem.problem_id!r} appears twice")
                problems[problem.problem_id] = problem
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{key}: cannot read {file}: {read_failure(error)}") from None
    if not problems:
        raise DataError(f"{key}: {file} holds no problems")
    return list(problems.values())


def as_problem(row: Any, where: str) -> Problem:
    """One row as a problem. Raises DataError that begins with `where`."""
    if not isinstance(row, dict):
        raise DataError(f"{where}: not an object with id, question, answer")
    question = "question" if "question" in row or "problem" not in row else "problem"
    texts: list[str] = []
    for key in ("id", question, "answer"):
        if key not in row:
            raise DataError(f"{where}: {key!r} is missing")
        value: Any = row[key]
        if isinstance(value, bool) or not isinstance(value, (str, int)) or not str(value).strip():
            raise DataError(
                f"{where}: {key!r} must be a text, or a whole number, that is not empty"
            )
        texts.append(str(value).strip())
    return Problem(*texts)


def read_failure(error: OSError | UnicodeDecodeError) -> str:
    """Why a file cannot be read, in few words."""
    return (error.strerror or str(error)) if isinstance(error, OSError) else "not UTF-8 text"


def _lines(reader: jsonlines.Reader, file: Path) -> Iterator[Any]:
    try:
        yield from reader
    except jsonlines.InvalidLineError as error:
        raise DataError(f"{file}:{error.lineno}: not a line of JSON") from None


@dataclass(frozen=True, slots=True)
class HubSet:
    """One split of a data set on the hub and the columns that hold a problem."""

    id: str
    split: str
    config: str | None = None
    question: str = "question"
    answer: str = "answer"
    """Of an answer with a worked solution, what follows the last `####` counts."""
    row_id: str | None = None
    """The column of ids; None: the split's name and the row's number."""

    @classmethod
    def from_file(cls, task: str, values: Mapping[str, str]) -> HubSet:
        """A task file's `hub`. Raises ConfigError in one line."""
        try:
            return cls(**values)
        except TypeError as error:
            raise ConfigError(f"{task}.hub", str(error).partition("() ")[2]) from None

    @property
    def name(self) -> str:
        """`id`, or `id/config`."""
        return f"{self.id}/{self.config}" if self.config else self.id


def hub_problems(hub: HubSet, *, key: str, otherwise: str) -> list[Problem]:
    """A split of a hub data set.

    Args:
        hub: which one.
        key: the option that names it, for messages.
        otherwise: what the user can do where the hub cannot be reached.

    Raises:
        DataError: it cannot be loaded, or a row is no problem.
    """
    import datasets

    datasets.disable_progress_bars()
    # It tries again for half a minute and says so each time; the one line below says it all.
    logging.getLogger("huggingface_hub").setLevel(logging.ERROR)
    try:
        rows: Any = datasets.load_dataset(hub.id, hub.config, split=hub.split)
    except Exception as error:  # noqa: BLE001 (it raises whatever its many backends raise)
        first_line = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise DataError(f"{key}: cannot load {hub.name} ({first_line}); {otherwise}") from None
    return [
        _hub_problem(row, hub, f"{hub.name} {hub.split} row {index}", f"{hub.split}-{index}")
        for index, row in enumerate(rows)
    ]


def _hub_problem(row: dict[str, Any], hub: HubSet, where: str, number: str) -> Problem:
    answer = row.get(hub.answer)
    if isinstance(answer, str) and "####" in answer:
        answer = answer.rpartition("####")[2].replace(",", "")
    problem_id = number if hub.row_id is None else row.get(hub.row_id)
    return as_problem(
        {"id": problem_id, "question": row.get(hub.question), "answer": answer}, where
    )
