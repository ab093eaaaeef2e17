"""The one place where a `_target_` becomes an object.

Importing a class runs code. Outside clawrl's own package a `_target_` is therefore honoured from
the command line and the user's configuration, not from a run folder, which may come from others.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from importlib import import_module
from typing import Any, TypeVar

from clawrl.config.schema import Plugin
from clawrl.errors import ConfigError, nearest

T = TypeVar("T")


def build(section: Plugin, kind: type[T], *, key: str, trusted: bool = True, **supplied: Any) -> T:
    """Build what a plug-in section names.

    Args:
        section: `_target_` and the constructor's arguments.
        kind: the protocol that the class must be a subclass of.
        key: the section's name, for messages.
        trusted: False for a configuration read from a run folder.
        supplied: arguments that the caller knows (an engine's address); used where the class takes
            them and the section does not set them.

    Raises:
        ConfigError: no such class, not a `kind`, an unknown argument, or not trusted.
    """
    named = _targets(section.model_dump(by_alias=True))
    foreign = next((target for target in named if not target.startswith("clawrl.")), None)
    if not trusted and foreign is not None:
        raise ConfigError(
            f"{key}._target_",
            f"{foreign} is not clawrl's own and comes from a run folder; add --trust to load it",
        )
    cls = _locate(section.target, key)
    if not (isinstance(cls, type) and issubclass(cls, kind)):
        raise ConfigError(f"{key}._target_", f"{section.target} is not a {kind.__name__}")
    accepted = inspect.signature(cls).parameters
    arguments = dict(section.model_extra or {})
    for name in arguments:
        if name not in accepted:
            raise ConfigError(f"{key}.{name}", f"unknown key{nearest(name, accepted)}")
    for name, value in supplied.items():
        if name in accepted:
            arguments.setdefault(name, value)
    missing = [
        name
        for name, parameter in accepted.items()
        if parameter.default is parameter.empty
        and parameter.kind not in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL)
        and name not in arguments
    ]
    if missing:
        raise ConfigError(f"{key}.{missing[0]}", f"{section.target} needs it")
    try:
        return cls(**arguments)
    except (TypeError, ValueError) as error:
        raise ConfigError(key, str(error)) from None


def _targets(value: Any) -> Iterator[str]:
    """Every `_target_` in a section, those of nested sections too."""
    if isinstance(value, dict):
        fields: dict[str, Any] = value
        if "_target_" in fields:
            yield str(fields["_target_"])
        value = list(fields.values())
    if isinstance(value, list):
        items: list[Any] = value
        for inner in items:
            yield from _targets(inner)


def _locate(target: str, key: str) -> Any:
    module_name, _, name = target.rpartition(".")
    try:
        module = import_module(module_name)
    except (ImportError, ValueError):
        raise ConfigError(f"{key}._target_", f"cannot import '{module_name}'") from None
    if not hasattr(module, name):
        known = [other for other, value in vars(module).items() if isinstance(value, type)]
        raise ConfigError(f"{key}._target_", f"no '{name}' in {module_name}{nearest(name, known)}")
    return getattr(module, name)
