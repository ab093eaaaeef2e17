"""Where a task's problems come from: the user's file, a file of the task's name, or the hub.

Looked for in this order, and nothing ever replaces what is not there:

    data.path=FILE                      as the user said
    ./data/NAME.jsonl                   beside the project that one works in
    ~/.cache/clawrl/data/NAME.jsonl     for all projects
    the data set's own id on the hub
"""

from __future__ import annotations

from pathlib import Path

from clawrl import models
from clawrl.config import schema
from clawrl.problems.files import HubSet, file_problems, hub_problems
from clawrl.protocols import Problem


def places(name: str) -> list[Path]:
    """Files of the task's name that are read before the hub is asked, the first one first."""
    file = f"{name}.jsonl"
    return [Path("data") / file, models.cache_folder().parent / "data" / file]


def found_file(name: str, data: schema.Data) -> Path | None:
    """The file that will be read; None: the hub is asked."""
    if data.path is not None:
        return Path(data.path)
    return next((path for path in places(name) if path.is_file()), None)


def source_of(name: str, data: schema.Data, hub: HubSet) -> str:
    """Where they come from, for people: the file that will be read, or the hub's id."""
    file = found_file(name, data)
    return hub.name if file is None else str(file)


def problems(name: str, data: schema.Data, hub: HubSet) -> list[Problem]:
    """The problems, always in the same order.

    Args:
        name: of the data set, such as `gsm8k`.
        data: its `path` is honoured, nothing else.
        hub: where they are published.

    Raises:
        DataError: a file cannot be read or has a row of the wrong form, or there is no file and the
            hub cannot be reached.
    """
    file = found_file(name, data)
    if file is not None:
        return file_problems(file, "data.path")
    here, cache = places(name)
    otherwise = (
        f"put a file with id, question, answer in each line at ./{here} or {cache}, "
        "or name it with data.path=FILE"
    )
    return hub_problems(hub, key=name, otherwise=otherwise)
