"""From a recipe and overrides to a checked `Config`.

Hydra composes `conf/` and `recipes/`; pydantic checks the result. Whatever is misspelt becomes one
`ConfigError` that names the nearest right name.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, cast, get_args

from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from pydantic import BaseModel, ValidationError

from clawrl.config.choices import choose, options_of
from clawrl.config.schema import Config, Plugin
from clawrl.errors import ConfigError, UserError, nearest

log = logging.getLogger(__name__)

DEFAULT_RECIPE = "student_persona"
_NO_GROUPS = ("recipes", "task")
"""Folders beside the groups: what they hold is no part of a configuration."""


def config_root() -> Path:
    """The folder that holds `conf/` and `recipes/`: in the wheel, or in the checkout."""
    package = Path(__file__).resolve().parents[1]
    return package if (package / "conf").is_dir() else package.parent


def compose(overrides: Sequence[str], *, config_dir: Path | None = None) -> Config:
    """Compose and check a configuration.

    Args:
        overrides: as typed: `recipe=NAME`, `group=option`, `section.key=value`.
        config_dir: a folder of the user's own options (`model/x.yaml`, `recipes/y.yaml`).

    Raises:
        ConfigError: an unknown recipe, group option or key, or a value out of range.
    """
    roots = [config_root() / "conf", *([config_dir] if config_dir else [])]
    recipe, rest = _split_recipe(overrides)
    recipes = _recipes(config_root()) | (_recipes(config_dir) if config_dir else set())
    if recipe not in recipes:
        raise ConfigError("recipe", f"there is no '{recipe}'{nearest(recipe, recipes)}")
    groups = {
        name: set().union(*(_options(root, name) for root in roots)) for name in _groups(roots)
    }
    hydra_overrides = [f"+recipes={recipe}", f"recipe={recipe}"]
    for override in rest:
        key, value = _split(override)
        if key in groups and value and not value.startswith(("{", "[")):
            if value not in groups[key]:
                raise ConfigError(key, f"there is no '{value}'{nearest(value, groups[key])}")
            hydra_overrides.append(override)
        else:
            _require_known_key(key, groups)
            hydra_overrides.append(
                f"++{override.lstrip('+')}" if not key.startswith("~") else override
            )
    return validate(_hydra_compose(hydra_overrides, roots, config_dir))


def load(path: Path, overrides: Sequence[str] = (), *, config_dir: Path | None = None) -> Config:
    """The configuration that a run folder holds, with overrides on top.

    Args:
        path: the stored configuration.
        overrides: as typed: `group=option` (see `clawrl.config.choices`), `section.key=value`;
            options are laid first, in the order in which recipes lay them.
        config_dir: a folder of the user's own options.

    Raises:
        ConfigError: an unknown group option or key, a recipe, or a value out of range.
        UserError: an argument that is no override.
    """
    roots = [config_root() / "conf", *([config_dir] if config_dir else [])]
    groups = {
        name: options_of(name, roots) for name in _groups(roots) if name in Config.model_fields
    }
    choices: list[tuple[str, str]] = []
    dotted: list[str] = []
    for override in overrides:
        key, value = _split(override)
        if "=" not in override:
            raise UserError(f"{override}: not an override; write it as key=value")
        if key == "recipe":
            raise ConfigError("recipe", "a recorded run keeps its own; choose groups or keys")
        if key in groups and value and not value.startswith(("{", "[")):
            choices.append((key, value))
        else:
            _require_known_key(key, groups)
            dotted.append(f"{key}={value}")
    stored = cast("dict[str, Any]", OmegaConf.to_container(OmegaConf.load(path), resolve=False))
    chosen = choose(stored, sorted(choices, key=lambda c: _rank(c[0], roots[0])), roots)
    merged = OmegaConf.merge(OmegaConf.create(chosen), OmegaConf.from_dotlist(dotted))
    return validate(cast("dict[str, Any]", OmegaConf.to_container(merged, resolve=True)))


def _rank(group: str, root: Path) -> int:
    """Where a group stands in the primary configuration: what follows lies over what precedes."""
    entries: Any = OmegaConf.to_container(OmegaConf.load(root / "config.yaml"))
    names = [name for entry in entries["defaults"] if isinstance(entry, dict) for name in entry]
    return names.index(group) if group in names else len(names)


def dump(config: Config) -> str:
    """The configuration as YAML, whole, enough to repeat the run."""
    return OmegaConf.to_yaml(OmegaConf.create(config.model_dump(mode="json", by_alias=True)))


def validate(values: dict[str, Any]) -> Config:
    """Check plain values against the schema. Raises ConfigError for the first problem."""
    try:
        return Config.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        path = [str(part) for part in first["loc"]]
        key = ".".join(path) or "configuration"
        if first["type"] == "extra_forbidden":
            raise ConfigError(
                key, f"unknown key{nearest(path[-1], _fields(path[:-1]) or ())}"
            ) from None
        shown = "" if isinstance(first["input"], dict) else f" (got {first['input']!r})"
        raise ConfigError(key, f"{first['msg'].removeprefix('Value error, ')}{shown}") from None


def sweep(overrides: Sequence[str]) -> list[list[str]]:
    """Every combination of the comma lists in the overrides, in order.

    `["seed=1,2", "objective=opd"]` gives two lists. Raises ConfigError for what cannot be parsed.
    """
    from hydra.core.override_parser.overrides_parser import OverridesParser

    parser = OverridesParser.create()
    axes: list[list[str]] = []
    for text in overrides:
        try:
            override = parser.parse_override(text)
        except Exception as error:  # noqa: BLE001 - hydra raises many kinds; all mean the same
            raise ConfigError(text, f"cannot be parsed: {str(error).splitlines()[0]}") from None
        if override.is_sweep_override():
            axes.append(
                [f"{override.get_key_element()}={v}" for v in override.sweep_string_iterator()]
            )
        else:
            axes.append([text])
    return [list(point) for point in itertools.product(*axes)]


def _hydra_compose(
    overrides: list[str], roots: list[Path], config_dir: Path | None
) -> dict[str, Any]:
    from hydra import compose as hydra_compose
    from hydra import initialize_config_dir
    from hydra.errors import HydraException

    places = [
        f"file://{config_root()}",
        *([f"file://{config_dir.resolve()}"] if config_dir else []),
    ]
    try:
        with initialize_config_dir(str(roots[0]), version_base="1.3"):
            composed = hydra_compose(
                "config", [f"hydra.searchpath=[{','.join(places)}]", *overrides]
            )
            OmegaConf.set_struct(composed, False)
            return cast("dict[str, Any]", OmegaConf.to_container(composed, resolve=True))
    except (HydraException, OmegaConfBaseException) as error:
        raise ConfigError("configuration", " ".join(str(error).split())) from None


def _split_recipe(overrides: Sequence[str]) -> tuple[str, list[str]]:
    recipe, rest = DEFAULT_RECIPE, []
    for override in overrides:
        if "=" not in override:
            raise UserError(f"{override}: not an override; write it as key=value")
        key, value = _split(override)
        if key == "recipe":
            recipe = value
        else:
            rest.append(override)
    return recipe, rest


def _split(override: str) -> tuple[str, str]:
    key, _, value = override.partition("=")
    return key.lstrip("+").strip(), value.strip()


def _groups(roots: Iterable[Path]) -> set[str]:
    return {
        path.name
        for root in roots
        if root.is_dir()
        for path in root.iterdir()
        if path.is_dir() and path.name not in _NO_GROUPS
    }


def _options(root: Path, group: str) -> set[str]:
    return {path.stem for path in (root / group).glob("*.yaml")}


def _recipes(root: Path) -> set[str]:
    """Their names: a recipe in a subfolder is called `folder/name`."""
    folder = root / "recipes"
    return {path.relative_to(folder).with_suffix("").as_posix() for path in folder.rglob("*.yaml")}


def _require_known_key(key: str, groups: dict[str, set[str]]) -> None:
    path = key.lstrip("~").split(".")
    known = _fields(path[:-1])
    if known is not None and path[-1] not in known:
        first = path[0]
        tops = set(Config.model_fields) | set(groups) | {"recipe"}
        if first not in tops:
            hint = nearest(first, tops).replace(f"{first}'", "'")
            raise ConfigError(key, f"there is no '{first}'{hint}")
        raise ConfigError(key, f"there is no '{path[-1]}'{nearest(path[-1], known)}")


def _fields(path: Sequence[str]) -> set[str] | None:
    """Field names of the section at `path`; None where anything is allowed (plug-ins, dicts)."""
    model: type[BaseModel] = Config
    for part in path:
        if part not in model.model_fields:
            return set(model.model_fields)
        section = _section(model.model_fields[part].annotation)
        if section is None or issubclass(section, Plugin):
            return None
        model = section
    return set(model.model_fields)


def _section(annotation: Any) -> type[BaseModel] | None:
    for candidate in (annotation, *get_args(annotation)):
        if isinstance(candidate, type) and issubclass(candidate, BaseModel):
            return candidate
    return None
