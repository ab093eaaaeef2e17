"""Runs that W&B keeps, read through its API: `wandb:ENTITY/PROJECT/RUN_ID`.

Only what W&B's server holds can be read. A run recorded offline is a folder that W&B's API cannot
open: `wandb sync` it first, or name the run folder, which holds more.
"""

from __future__ import annotations

import logging
import math
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clawrl.errors import ClawRLError, UserError

PREFIX = "wandb:"
LABELS = "labels"
"""Keys of a W&B configuration that are clawrl's own addition, to group and filter runs by."""
VERSION = "version"
"""The metric that every other one is drawn over."""
_PATH = re.compile(r"[^/\s]+/[^/\s]+/[^/\s]+")
_TIMEOUT_S = 20


@dataclass(frozen=True)
class WandbRun:
    """One run as W&B keeps it."""

    name: str
    config: dict[str, Any]
    """The run's `config.yaml`, API keys blanked."""
    history: list[dict[str, float]]
    """One row of numbers for each policy version, oldest first; `version` is among its keys."""
    summary: dict[str, Any]


def has_key() -> bool:
    """Whether this machine has a key for W&B, in the environment or in `~/.netrc`."""
    netrc = Path.home() / ".netrc"
    return "WANDB_API_KEY" in os.environ or (
        netrc.is_file() and "wandb" in netrc.read_text(errors="replace")
    )


def fetch(path: str) -> WandbRun:
    """Read one run.

    Args:
        path: `wandb:ENTITY/PROJECT/RUN_ID`, as in the address of its page; the prefix may be left
            out.

    Raises:
        UserError: it is no such path, there is no key, or there is no such run.
        ClawRLError: W&B could not be reached.
    """
    name = path.removeprefix(PREFIX)
    if name and ("offline-run-" in name or Path(name).is_dir()):
        raise UserError(
            f"{name}: a W&B run on this machine cannot be read through W&B; name the run folder "
            "above it instead, or `wandb sync` it first"
        )
    if not _PATH.fullmatch(name):
        raise UserError(f"{path}: not a W&B run; write {PREFIX}ENTITY/PROJECT/RUN_ID")
    if not has_key():
        raise UserError(f"{path}: there is no key for W&B; run `wandb login` or set WANDB_API_KEY")
    logging.getLogger("wandb").setLevel(logging.CRITICAL)  # its retries are not ours to show
    import wandb

    try:
        run = wandb.Api(timeout=_TIMEOUT_S).run(name)
        return WandbRun(
            name=str(run.name),
            config={key: value for key, value in run.config.items() if key != LABELS},
            history=by_version(run.scan_history()),
            summary=_plain(run.summary),
        )
    except Exception as error:  # noqa: BLE001 - wandb raises its own, requests' and others
        raise _explained(path, error) from None


def _explained(path: str, error: Exception) -> ClawRLError:
    """Whose fault it is, by W&B's own words: its error types do not tell."""
    said = " ".join(str(error).split())[:200] or type(error).__name__
    if "find run" in said.lower():
        return UserError(f"{path}: W&B has no such run, or none that this key may read")
    if re.search(r"\b40[13]\b|unauthorized|permission denied", said, re.IGNORECASE):
        return UserError(f"{path}: W&B refuses the key: {said}")
    return ClawRLError(f"{path}: W&B cannot be reached: {said}")


def by_version(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, float]]:
    """W&B's rows, of which one version has several, as one row of numbers for each version.

    What was recorded twice for a version (after a restart, say) counts as recorded last; a row
    without a version is left out.
    """
    versions: dict[int, dict[str, float]] = {}
    for row in rows:
        version = _number(row.get(VERSION))
        if version is not None:
            numbers = {key: _number(value) for key, value in row.items() if key[:1] != "_"}
            known = {key: number for key, number in numbers.items() if number is not None}
            versions.setdefault(int(version), {}).update(known)
    return [versions[version] for version in sorted(versions)]


def _plain(value: Any) -> Any:
    """W&B's own dictionaries as dictionaries."""
    if not hasattr(value, "keys"):
        return value
    return {key: _plain(inner) for key, inner in dict(value).items()}


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or math.isnan(value):
        return None
    return float(value)
