"""Choices of a group (`judge=prm`) laid over a stored configuration.

A stored configuration is flat: it no longer says which option of a group it was made with. So an
option is laid over it as Hydra would have: a plug-in's section is replaced, every other section
takes the option's keys, and what only another option of the same group sets goes back to its
default (`learner=full` over a LoRA run takes the adapters away).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast, get_args

from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError

from clawrl.config.schema import Config, Plugin
from clawrl.errors import ConfigError, nearest

_PACKAGE = re.compile(r"^#\s*@package\s+(\S+)", re.MULTILINE)
Values = dict[str, Any]


def choose(stored: Values, choices: Sequence[tuple[str, str]], roots: Sequence[Path]) -> Values:
    """Lay options over a configuration.

    Args:
        stored: plain values; left as they are.
        choices: (group, option), in the order in which they are to be laid.
        roots: the folders of groups; of two files of one name the first root's counts.

    Returns:
        New values, not yet checked; they may hold interpolations.

    Raises:
        ConfigError: there is no such option, or its file cannot be read.
    """
    values = {
        key: dict(cast(Values, value)) if isinstance(value, dict) else value
        for key, value in stored.items()
    }
    for group, option in choices:
        known = options_of(group, roots)
        if option not in known:
            raise ConfigError(group, f"there is no '{option}'{nearest(option, known)}")
        chosen = _read(group, option, roots)
        for other in sorted(known - {option}):
            _forget(values, _read(group, other, roots), chosen)
        for section in filter(_is_plugin, chosen):
            values.pop(section, None)
        _merge(values, chosen)
    return values


def options_of(group: str, roots: Sequence[Path]) -> set[str]:
    """The names of a group's options."""
    return {path.stem for root in roots for path in (root / group).glob("*.yaml")}


def _read(group: str, option: str, roots: Sequence[Path]) -> Values:
    """What an option sets, by top-level key; what it chooses in other groups lies beneath."""
    path = next(p for root in roots if (p := root / group / f"{option}.yaml").is_file())
    try:
        text = path.read_text(encoding="utf-8")
        content = OmegaConf.to_container(OmegaConf.create(text), resolve=False)
    except (OSError, YAMLError, OmegaConfBaseException) as error:
        raise ConfigError(group, f"{path}: {str(error).splitlines()[0]}") from None
    body = cast(Values, content) if isinstance(content, dict) else {}
    values: Values = {}
    for other_group, name in _defaults(body.pop("defaults", []), group, path):
        if name not in options_of(other_group, roots):
            raise ConfigError(group, f"{path}: there is no '{name}' in {other_group}")
        _merge(values, _read(other_group, name, roots))
    package = _PACKAGE.search(text)
    if package is None or package[1] == "_group_":
        body = {group: body}
    elif package[1] != "_global_":
        body = {package[1]: body}
    _merge(values, body)
    return values


def _defaults(entries: Any, group: str, path: Path) -> list[tuple[str, str]]:
    """The choices that an option's defaults list makes: `override /group: name`, or `name`."""
    found: list[tuple[str, str]] = []
    for entry in entries:
        if entry == "_self_":
            continue
        if isinstance(entry, str):
            found.append((group, entry))
            continue
        for key, name in cast(dict[str, Any], entry).items():
            target = key.removeprefix("override ").strip()
            if not target.startswith("/") or not isinstance(name, str):
                raise ConfigError(group, f"{path}: '{key}' cannot be laid over a stored run")
            found.append((target[1:], name))
    return found


def _merge(values: Values, chosen: Values) -> None:
    for section, content in chosen.items():
        held = values.get(section)
        if isinstance(content, dict) and isinstance(held, dict):
            values[section] = {**held, **content}
        else:
            values[section] = content


def _forget(values: Values, other: Values, chosen: Values) -> None:
    """Drop what `other` seems to have set and `chosen` does not set."""
    for section, content in other.items():
        held, anew = values.get(section), chosen.get(section)
        if not isinstance(content, dict) and held == content and section not in chosen:
            values.pop(section, None)
        if not isinstance(content, dict) or not isinstance(held, dict) or _is_plugin(section):
            continue
        for key, value in content.items():
            same = held.get(key) == value or (
                isinstance(value, dict) and isinstance(held.get(key), dict)
            )
            if same and key not in (anew or {}):
                held.pop(key, None)


def _is_plugin(section: str) -> bool:
    field = Config.model_fields.get(section)
    return field is not None and Plugin in (field.annotation, *get_args(field.annotation))
