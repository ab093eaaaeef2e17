"""Where two configurations differ, by key."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from clawrl.config.schema import Config

NO_EFFECT = frozenset({"run", "runs_dir", "tracking"})
"""What names a run and where it is kept and shown, but not what it does."""
_SECRET = "api_key"


def differences(
    first: Config, second: Config, *, leave_out: Collection[str] = NO_EFFECT
) -> dict[str, tuple[Any, Any]]:
    """Both values of every key that is not the same in the two; None where one lacks it.

    Args:
        first: the one whose values come first.
        second: the other.
        leave_out: keys that may differ, each with all that stands below it: `loop`, `data.seed`.

    Returns:
        By dotted key, in the order of the schema. API keys are never among them.
    """
    one, other = _flat(first), _flat(second)
    return {
        key: (one.get(key), other.get(key))
        for key in dict.fromkeys([*one, *other])
        if one.get(key) != other.get(key) and not _left_out(key, leave_out)
    }


def _left_out(key: str, leave_out: Collection[str]) -> bool:
    parts = key.split(".")
    prefixes = {".".join(parts[:count]) for count in range(1, len(parts) + 1)}
    secret = parts[-1] == _SECRET or parts[:2] == ["gateway", "keys"]
    return secret or not prefixes.isdisjoint(leave_out)


def _flat(config: Config) -> dict[str, Any]:
    found: dict[str, Any] = {}

    def walk(path: tuple[str, ...], value: Any) -> None:
        if isinstance(value, dict) and value:
            fields: dict[str, Any] = value
            for name, inner in fields.items():
                walk((*path, name), inner)
        else:
            found[".".join(path)] = value

    walk((), config.model_dump(mode="json", by_alias=True))
    return found
