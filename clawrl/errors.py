"""One tree of errors, ordered by who can fix them.

Every message is one line that says what is wrong and what to change. The command line prints it
without a traceback: a `UserError` exits with 2, any other `ClawRLError` with 1.
"""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


class ClawRLError(Exception):
    """The root: anything that clawrl itself reports."""


class UserError(ClawRLError):
    """Whoever typed the command can fix it; nothing was started or changed."""


class ConfigError(UserError):
    """A key, value or `_target_` is wrong."""

    def __init__(self, key: str, problem: str) -> None:
        super().__init__(f"{key}: {problem}")
        self.key = key


class ModelError(UserError):
    """A model cannot be found, read or converted."""


class DataError(UserError):
    """Problems cannot be loaded: no such file, no such hub id, or a row of the wrong form."""


class MachineError(ClawRLError):
    """This machine lacks something: a package, memory, disk space, a free port."""


class EnvironmentLost(ClawRLError):
    """The world of one episode is gone: that episode is lost, and nothing else."""


class EngineError(ClawRLError):
    """The inference engine did not start, answer in time, or do what was asked."""


class RequestError(EngineError):
    """The engine refused one request (a 4xx): the request is wrong, the engine is well."""

    def __init__(self, status: int, message: str, kind: str = "invalid_request_error") -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind


class JudgeError(ClawRLError):
    """A judge call failed or could not be parsed. It becomes an abstention, never a score."""


class LearnerError(ClawRLError):
    """The learner cannot go on: weights, checkpoint or ledger do not fit together."""


class WeightsError(ClawRLError):
    """A version could not be written, or the engine does not serve what the learner holds."""


class RecordError(ClawRLError):
    """A record file holds a line that is not a record."""

    def __init__(self, path: Path, line: int, problem: str) -> None:
        super().__init__(f"{path}:{line}: {problem}")
        self.path = path
        self.line = line


def nearest(name: str, known: Iterable[str]) -> str:
    """A hint for a misspelt name: `; did you mean 'learner'?`, or the known names, or nothing."""
    names = sorted(known)
    close = get_close_matches(name, names, n=1, cutoff=0.5)
    if close:
        return f"; did you mean '{close[0]}'?"
    return f"; known: {', '.join(names)}" if names else ""


def first_error(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The error of a task group to show: clawrl's own before any other, else the first."""
    flat: list[BaseException] = []
    stack: list[BaseException] = [group]
    while stack:
        error = stack.pop(0)
        if isinstance(error, BaseExceptionGroup):
            stack.extend(error.exceptions)
        else:
            flat.append(error)
    return next((error for error in flat if isinstance(error, ClawRLError)), flat[0])
