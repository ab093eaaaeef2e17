"""The rules of `rules.yaml`, checked and compiled, with a user's own in front of them."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from clawrl.errors import ConfigError


def _compiled(pattern: Any) -> Any:
    if not isinstance(pattern, str):
        return pattern
    try:
        return re.compile(pattern, re.IGNORECASE | re.MULTILINE | re.DOTALL)
    except re.error as error:
        raise ValueError(f"'{pattern}' is no pattern: {error}") from None


def _on_one_line(pattern: Any) -> Any:
    if not isinstance(pattern, str):
        return pattern
    try:
        return re.compile(pattern, re.IGNORECASE | re.MULTILINE)
    except re.error as error:
        raise ValueError(f"'{pattern}' is no pattern: {error}") from None


def _names_an_id(pattern: re.Pattern[str]) -> re.Pattern[str]:
    if "id" not in pattern.groupindex:
        raise ValueError(f"'{pattern.pattern}' has no (?P<id>...)")
    return pattern


Pattern = Annotated[re.Pattern[str], BeforeValidator(_compiled)]
"""`.` matches line ends too."""
LinePattern = Annotated[re.Pattern[str], BeforeValidator(_on_one_line)]
IdLine = Annotated[LinePattern, AfterValidator(_names_an_id)]
HeaderName = Annotated[str, AfterValidator(str.lower)]


class _Rule(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)


class FieldRule(_Rule):
    """A key of the body, by its dotted path, that names a session."""

    field: str
    without: LinePattern | None = None
    """What is cut off the value."""
    like: LinePattern | None = None
    """What the value must look like."""


class MetadataRule(_Rule):
    """A header with a JSON object, one of whose fields says what the request is for."""

    header: HeaderName
    field: str
    main: tuple[str, ...]
    """Its values on main turns; any other is the kind of a side turn."""


class SideRule(_Rule):
    """Words by which an errand of the client is known."""

    kind: str
    like: Pattern
    belongs: Literal["id", "content", "nowhere"] = "id"
    spreads: bool = False
    """True: every later turn of its session is a side turn too."""


class SideRules(_Rule):
    """Where the words of an errand stand."""

    user: tuple[SideRule, ...] = ()
    system: tuple[SideRule, ...] = ()


class Rules(_Rule):
    """How clients' requests are read; see the comments in `rules.yaml`."""

    version: int = 1
    session_headers: tuple[HeaderName, ...] = ()
    session_fields: tuple[FieldRule, ...] = ()
    session_lines: tuple[IdLine, ...] = ()
    session_lines_in_system: tuple[IdLine, ...] = ()
    not_sessions: tuple[LinePattern, ...] = ()
    parent_headers: tuple[HeaderName, ...] = ()
    trace_headers: tuple[HeaderName, ...] = ()
    metadata: tuple[MetadataRule, ...] = ()
    ephemeral: tuple[Pattern, ...] = ()
    noise: tuple[LinePattern, ...] = ()
    machine: tuple[LinePattern, ...] = ()
    person: tuple[LinePattern, ...] = ()
    compacted: tuple[Pattern, ...] = ()
    side: SideRules = Field(default_factory=SideRules)


@cache
def load_rules(own: str | None = None) -> Rules:
    """The package's rules, behind those of a user's file where one is named.

    Raises:
        ConfigError: the file cannot be read, or something in it is no rule.
    """
    shipped = yaml.safe_load((files("clawrl.gateway.resolving") / "rules.yaml").read_text("utf-8"))
    if own is None:
        return Rules.model_validate(shipped)
    try:
        added: Any = yaml.safe_load(Path(own).read_text("utf-8"))
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise ConfigError("gateway.rules", f"cannot read '{own}': {_one_line(error)}") from None
    try:
        Rules.model_validate(added)
        return Rules.model_validate(_in_front(added, shipped))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "the file"
        raise ConfigError("gateway.rules", f"{own}: {where}: {first['msg']}") from None


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())


def _in_front(added: dict[str, Any], shipped: dict[str, Any]) -> dict[str, Any]:
    merged = dict(shipped)
    for name, value in added.items():
        if isinstance(value, list):
            merged[name] = [*value, *shipped.get(name, [])]
        elif isinstance(value, dict):
            merged[name] = _in_front(value, shipped.get(name, {}))
    return merged
