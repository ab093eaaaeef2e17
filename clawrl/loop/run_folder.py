"""Making a run's folder, and keeping in it the configuration that its parts read."""

from __future__ import annotations

import fcntl
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from clawrl.config import compose as composing
from clawrl.config.schema import Config
from clawrl.errors import UserError
from clawrl.records.folder import RunFolder


def run_name(config: Config) -> str:
    """The name of a run that the user gives none: the recipe and the time."""
    return f"{config.recipe.replace('/', '-')}-{time.strftime('%Y%m%d-%H%M%S')}"


def folder_of(config: Config, *, prefix: str = "") -> RunFolder:
    """Where a run is recorded: `runs_dir/run`; `prefix` goes before a name that was not given."""
    name = config.run or f"{prefix}{run_name(config)}"
    return RunFolder((Path(config.runs_dir) / name).absolute())


def create_run(config: Config, folder: RunFolder) -> None:
    """Make a run folder. Raises UserError where one is already, or it cannot be made."""
    if folder.config.exists():
        raise UserError(
            f"{folder.root}: this run exists; choose another run=NAME or go on with "
            f"`clawrl train --resume {folder.root}`"
        )
    try:
        folder.root.mkdir(parents=True, exist_ok=True)
        folder.config.touch(mode=0o600)  # it may hold an API key
        store_config(config.model_copy(update={"run": folder.root.name}), folder)
    except OSError as error:
        raise UserError(f"{folder.root}: cannot make the run folder: {error.strerror}") from None


def go_on(config: Config, folder: RunFolder) -> None:
    """Make a run folder, or go on with the one that is there.

    Raises:
        UserError: it cannot be made, or it holds a run of another model.
    """
    if not folder.config.exists():
        create_run(config, folder)
        return
    before = composing.load(folder.config, [])
    if before.model.name != config.model.name:
        raise UserError(
            f"{folder.root}: this run is of {before.model.name}, not {config.model.name}; choose "
            "another run=NAME"
        )
    store_config(config.model_copy(update={"run": folder.root.name}), folder)


@contextmanager
def held(folder: RunFolder) -> Generator[None]:
    """Keep a run to this process; the lock ends with it, however it ends.

    Raises:
        UserError: another process has it, or the folder cannot be made.
    """
    try:
        folder.root.mkdir(parents=True, exist_ok=True)
        lock = (folder.root / "lock").open("w")
    except OSError as error:
        raise UserError(f"{folder.root}: cannot make the run folder: {error.strerror}") from None
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise UserError(
                f"{folder.root}: another clawrl serves this run; stop it, or choose another "
                "run=NAME"
            ) from None
        yield


def store_config(config: Config, folder: RunFolder) -> None:
    """The learner reads the run's configuration from its folder: overrides must stand there."""
    folder.config.write_text(composing.dump(config))
