"""Where a record and its replay part: the first field, both values short. Pure."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from clawrl.records.nouns import Sample, Update, Verdict

SHORT = 60
"""Characters of a value that a difference shows."""
UPDATE_FIELDS = ("version", "parent", "sample_ids", "stale", "digest_before", "digest_after")
"""What of an update is compared: its time and its measures of speed are the machine's."""


@dataclass(frozen=True, slots=True)
class Difference:
    """Where a record and its replay part."""

    record: str
    """Such as `sample of chatcmpl-1`."""
    field: str
    """Within the record, down to the first item that differs."""
    recorded: object
    replayed: object

    def __str__(self) -> str:
        return (
            f"{self.record}, {self.field}: recorded {shortened(self.recorded)}, "
            f"replay gives {shortened(self.replayed)}"
        )


def update_difference(recorded: Update, again: Update) -> Difference | None:
    """The first of `UPDATE_FIELDS` in which two updates differ."""
    apart_from = set(Update.model_fields) - set(UPDATE_FIELDS)
    return difference_of(f"update {recorded.version}", recorded, again, apart_from=apart_from)


def difference_of(
    record: str,
    recorded: Verdict | Sample | Update,
    again: Verdict | Sample | Update,
    *,
    apart_from: Iterable[str] = (),
) -> Difference | None:
    """The first field in which two records differ as JSON, or None."""
    skip = set(apart_from)
    one = json.loads(recorded.model_dump_json(exclude=skip))
    other = json.loads(again.model_dump_json(exclude=skip))
    found = _first(one, other, "")
    return None if found is None else Difference(record, *found)


def _first(one: Any, other: Any, path: str) -> tuple[str, object, object] | None:
    """Path and values of the first place in which two pieces of JSON differ."""
    if isinstance(one, dict) and isinstance(other, dict):
        keys = list(dict.fromkeys([*one, *other]))
        parts = [(f"{path}.{key}".lstrip("."), one.get(key), other.get(key)) for key in keys]
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        parts = [(f"{path}[{i}]", a, b) for i, (a, b) in enumerate(zip(one, other, strict=True))]
    elif isinstance(one, list) and isinstance(other, list):
        return path, f"{len(one)} items", f"{len(other)} items"
    else:
        return None if json.dumps(one) == json.dumps(other) else (path, one, other)
    return next((found for p, a, b in parts if (found := _first(a, b, p)) is not None), None)


def shortened(value: object) -> str:
    """A value as one short line."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    text = " ".join(text.split()) or '""'
    return text if len(text) <= SHORT else f"{text[: SHORT - 3]}..."


def ledger_difference(
    updates: Sequence[Update], samples: Iterable[Sample], *, base: str | None
) -> Difference | None:
    """The first place where the surviving updates do not follow from one another.

    Args:
        updates: in order of version.
        samples: all of the run.
        base: digest of the base model; None: not to be checked.
    """
    accepted = Counter(sample.interaction_id for sample in samples if sample.accepted)
    digest = base
    for version, update in enumerate(updates, start=1):
        record = f"update {version}"
        if update.version != version:
            return Difference(record, "line", "none", "one of this version")
        if update.parent != version - 1:
            return Difference(record, "parent", update.parent, version - 1)
        if digest is not None and update.digest_before != digest:
            return Difference(record, "digest_before", update.digest_before, digest)
        for index, name in enumerate(update.sample_ids):
            if accepted[name] != 1:
                what = "no accepted sample" if accepted[name] == 0 else "one of two lines"
                return Difference(record, f"sample_ids[{index}]", name, what)
            accepted[name] = 0  # a sample is trained on once
        digest = update.digest_after
    return None
