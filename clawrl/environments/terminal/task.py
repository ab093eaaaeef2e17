"""A task as a folder in Harbor's layout.

NAME/
  instruction.md          what the agent is told
  task.toml               time limits, resources, difficulty
  environment/Dockerfile  the state in which it begins, and the files beside it
  tests/test.sh           the checker: it writes 0 to 1 into /logs/verifier/reward.txt
  solution/solve.sh       a reference; never shown to an agent
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clawrl.environments.terminal.image import Image, read_image
from clawrl.errors import DataError

_BUILD_S = 60.0
_VERIFIER_S = 60.0


@dataclass(frozen=True, slots=True)
class TerminalTask:
    """One folder, read."""

    task_id: str
    folder: Path
    instruction: str
    image: Image
    checker: tuple[tuple[str, bytes], ...]
    """Path below /tests and content of each of the checker's files."""
    build_s: float
    verifier_s: float
    memory_mib: int | None
    """None: the sandbox's own limit."""
    difficulty: str
    category: str


def read_task(folder: Path) -> TerminalTask:
    """Read a task's folder.

    Raises:
        DataError: a part is missing or cannot be read, or it needs Docker.
    """
    settings = _settings(folder / "task.toml")
    tests = folder / "tests"
    if not (tests / "test.sh").is_file():
        raise DataError(f"{folder}: a task needs tests/test.sh")
    try:
        instruction = (folder / "instruction.md").read_text(encoding="utf-8").strip()
        checker = tuple(
            (str(path.relative_to(tests)), path.read_bytes())
            for path in sorted(tests.rglob("*"))
            if path.is_file()
        )
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{folder}: {error}") from None
    metadata, resources = _table(settings, "metadata"), _table(settings, "environment")
    memory = resources.get("memory_mb")
    return TerminalTask(
        task_id=folder.name,
        folder=folder,
        instruction=instruction,
        image=read_image(folder / "environment"),
        checker=checker,
        build_s=_seconds(resources, "build_timeout_sec", _BUILD_S),
        verifier_s=_seconds(_table(settings, "verifier"), "timeout_sec", _VERIFIER_S),
        memory_mib=memory if isinstance(memory, int) else None,
        difficulty=str(metadata.get("difficulty", "")),
        category=str(metadata.get("category", "")),
    )


def _settings(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise DataError(f"{path}: {error}") from None


def _table(settings: dict[str, Any], name: str) -> dict[str, Any]:
    found = settings.get(name, {})
    return found if isinstance(found, dict) else {}


def _seconds(table: dict[str, Any], name: str, default: float) -> float:
    found = table.get(name, default)
    return float(found) if isinstance(found, int | float) and found > 0 else default
