"""Numbers of a run: one line of JSON per event in `metrics.jsonl`, and the same to W&B."""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

from clawrl.config.schema import Config

log = logging.getLogger(__name__)

Values = dict[str, float]


class MetricsLog:
    """Appends to `metrics.jsonl`; W&B gets a copy. W&B's troubles never end a run."""

    def __init__(self, path: Path, config: Config, run_name: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("a", encoding="utf-8")
        self._wandb = _start_wandb(config, run_name, path.parent)

    def log(self, step: int, values: Values) -> None:
        """Record values of policy version `step`."""
        line = {"time": time.time(), "step": step, **values}
        self._file.write(json.dumps(line) + "\n")
        self._file.flush()
        if self._wandb is not None:
            self._guarded(self._wandb.log, values, step=step)

    def table(self, name: str, step: int, columns: list[str], rows: list[list[Any]]) -> None:
        """Send a table of replies to W&B."""
        if self._wandb is None:
            return
        import wandb

        data: list[Any] = rows
        table = wandb.Table(columns=[*columns], data=data)
        self._guarded(self._wandb.log, {name: table}, step=step)

    def _guarded(self, send: Callable[..., object], *values: object, **named: object) -> None:
        try:
            send(*values, **named)
        except Exception as error:  # noqa: BLE001 - tracking must not end a training run
            log.warning("wandb failed, going on without it: %s", error)
            self._wandb = None

    def close(self) -> None:
        """Finish W&B's upload and close the file."""
        if self._wandb is not None:
            self._guarded(self._wandb.finish)
        self._file.close()

    def __enter__(self) -> MetricsLog:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


WandbMode = Literal["online", "offline", "disabled"]


def wandb_mode(setting: str) -> WandbMode:
    """`auto` is online where a key is configured, else offline: it never asks."""
    if setting == "off":
        return "disabled"
    if setting != "auto":
        return "online" if setting == "online" else "offline"
    netrc = Path.home() / ".netrc"
    configured = "WANDB_API_KEY" in os.environ or (
        netrc.is_file() and "wandb" in netrc.read_text(errors="replace")
    )
    return "online" if configured else "offline"


def without_secrets(values: Any) -> Any:
    """The same values with every `api_key` blanked: what leaves the machine holds none."""
    if isinstance(values, dict):
        fields: dict[str, Any] = values
        return {
            key: "***" if key == "api_key" and value else without_secrets(value)
            for key, value in fields.items()
        }
    return values


def _start_wandb(config: Config, run_name: str, folder: Path) -> Any:
    mode = wandb_mode(config.tracking.wandb)
    if mode == "disabled":
        return None
    os.environ.setdefault("WANDB_SILENT", "true")  # some of its notices ignore the setting
    try:
        import wandb

        return wandb.init(
            project=config.tracking.project,
            entity=config.tracking.entity,
            name=run_name,
            group=config.recipe,
            dir=str(folder),
            mode=mode,
            config=without_secrets(config.model_dump(mode="json", by_alias=True)),
            settings=wandb.Settings(silent=True, console="off", init_timeout=20),
        )
    except Exception as error:  # noqa: BLE001 - tracking must not keep a run from starting
        log.warning("wandb is off: %s", error)
        return None
