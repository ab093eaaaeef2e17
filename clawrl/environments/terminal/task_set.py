"""The terminal tasks of a folder: clawrl's own, or any in Harbor's layout."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from clawrl.environments.terminal.environment import TerminalEnvironment, TerminalLimits
from clawrl.environments.terminal.task import TerminalTask, read_task
from clawrl.errors import ConfigError, DataError, nearest
from clawrl.protocols import TaskSet

OWN_TASKS = Path(__file__).parent / "tasks"
"""A folder for each task of clawrl's own set."""


class TerminalTasks(TaskSet):
    """Every folder below one that holds a task.toml."""

    name = "terminal"

    def __init__(
        self,
        *,
        folder: str | None = None,
        only: Sequence[str] | None = None,
        command_s: float = 30.0,
        grade_s: float = 60.0,
        output_characters: int = 4000,
        guard: bool = True,
    ) -> None:
        """Find the tasks; each is read when it is first built.

        Args:
            folder: of tasks in Harbor's layout; None: clawrl's own.
            only: ids of the tasks to take, in this order; None: all.
            command_s: limit of one command.
            grade_s: limit of a checker, where its task allows it more.
            output_characters: of each stream that a next state keeps.
            guard: refuse what should never run.

        Raises:
            ConfigError: there is no such folder or task, or a limit is not positive.
        """
        root = OWN_TASKS if folder is None else Path(folder)
        found = sorted(path.parent.name for path in root.glob("*/task.toml"))
        if not found:
            raise ConfigError("environment.folder", f"{root} holds no folder with a task.toml")
        for name in only or ():
            if name not in found:
                raise ConfigError("environment.only", f"no task '{name}'{nearest(name, found)}")
        for key, value in (("command_s", command_s), ("grade_s", grade_s)):
            if value <= 0:
                raise ConfigError(f"environment.{key}", "must be above 0")
        self._root = root
        self._ids = list(only) if only else found
        self._read: dict[str, TerminalTask] = {}
        self._limits = TerminalLimits(
            command_s=command_s, grade_s=grade_s, output_characters=output_characters, guard=guard
        )

    def ids(self) -> Sequence[str]:
        """The folders' names."""
        return self._ids

    def task(self, task_id: str) -> TerminalTask:
        """One task, read once. Raises DataError."""
        if task_id not in self._ids:
            raise DataError(f"no terminal task '{task_id}'{nearest(task_id, self._ids)}")
        if task_id not in self._read:
            self._read[task_id] = read_task(self._root / task_id)
        return self._read[task_id]

    def build(self, task_id: str, *, tools: bool) -> TerminalEnvironment:
        """A fresh attempt. Raises DataError."""
        return TerminalEnvironment(self.task(task_id), limits=self._limits, tools=tools)
