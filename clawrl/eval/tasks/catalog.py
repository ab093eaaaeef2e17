"""The tasks there are: `conf/task/NAME.yaml`, clawrl's own and the user's."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import yaml
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from clawrl.config.build import build
from clawrl.config.compose import config_root
from clawrl.config.schema import Plugin
from clawrl.errors import ConfigError, nearest
from clawrl.eval.tasks.task import Task


def task_files(config_dir: Path | None = None) -> dict[str, Path]:
    """The tasks' files by name, sorted; a file of the user's own goes before clawrl's."""
    roots = [config_root() / "conf", *([config_dir] if config_dir else [])]
    found = {path.stem: path for root in roots for path in (root / "task").glob("*.yaml")}
    return dict(sorted(found.items()))


def load_task(
    name: str,
    config_dir: Path | None = None,
    *,
    overrides: Sequence[str] = (),
    **supplied: Any,
) -> Task:
    """Build a task from its file.

    Args:
        name: the file's name without `.yaml`.
        config_dir: a folder of the user's own, `task/NAME.yaml` in it.
        overrides: `task.KEY=VALUE`, laid over the file.
        supplied: further arguments for a task that takes them.

    Raises:
        ConfigError: there is no such task, or its file is wrong.
    """
    files = task_files(config_dir)
    if name not in files:
        raise ConfigError("task", f"there is no '{name}'{nearest(name, files)}")
    path = files[name]
    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigError(str(path), " ".join(str(error).split())) from None
    section = cast("dict[str, Any]", values) if isinstance(values, dict) else {}
    if "_target_" not in section:
        raise ConfigError(str(path), "it has no _target_, the class of the task")
    section = _overridden(section, [override.lstrip("+") for override in overrides])
    return build(Plugin.model_validate(section), Task, key="task", name=name, **supplied)


def is_task_override(override: str) -> bool:
    """Whether it is one for `load_task`: `task.KEY=VALUE`."""
    return override.lstrip("+").startswith("task.")


def _overridden(section: dict[str, Any], overrides: list[str]) -> dict[str, Any]:
    """Interpolations are not looked for: a prompt may hold `${`."""
    if not overrides:
        return section
    try:
        laid = OmegaConf.to_container(OmegaConf.from_dotlist(overrides), resolve=False)
    except (OmegaConfBaseException, yaml.YAMLError) as error:
        raise ConfigError("task", " ".join(str(error).split())) from None
    return _merged(section, cast("dict[str, Any]", laid)["task"])


def _merged(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    merged = dict(below)
    for key, value in above.items():
        under = merged.get(key)
        if isinstance(under, dict) and isinstance(value, dict):
            value = _merged(cast("dict[str, Any]", under), cast("dict[str, Any]", value))
        merged[key] = value
    return merged
