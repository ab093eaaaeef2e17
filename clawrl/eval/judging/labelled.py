"""Next states with the score that a person gave them: clawrl's own set, or a file in its format.

A bad row is an error that names file and line. Of clawrl's own set a third is held out, by the
hash of each id: judges are mended on the open part, and the held-out part says what that was worth.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any, Literal, cast

from clawrl.errors import DataError, nearest
from clawrl.problems.files import read_failure
from clawrl.records.nouns import Score

Part = Literal["open", "held out", "all"]
"""A set of the user's own is not split: it is `all`."""

_SCORES: dict[int, Score] = {-1: -1, 0: 0, 1: 1}


@dataclass(frozen=True, slots=True)
class LabelledState:
    """One next state and what a person says about it."""

    id: str
    role: Literal["user", "tool"]
    content: str
    score: Score
    request: str = ""
    """The last user message before the reply."""
    reply: str = ""
    hint: bool | None = None
    """Whether a hint can be distilled; None: nobody said."""
    kind: str | None = None
    """Such as `sarcasm` or `test_failed`; one that holds `injection` instructs the judge."""
    language: str | None = None
    part: Part = "all"

    @property
    def injected(self) -> bool:
        """Whether it tells the judge what to say."""
        return self.kind is not None and "injection" in self.kind


def held_out(state_id: str) -> bool:
    """Whether a next state of clawrl's own set is held out: about a third are."""
    return int(hashlib.sha256(state_id.encode()).hexdigest(), 16) % 3 == 0


def own_states() -> list[LabelledState]:
    """The set in `eval/judge_set/next_states.jsonl`, each state in its part."""
    with resources.as_file(
        resources.files("clawrl.eval.judging").joinpath("judge_set", "next_states.jsonl")
    ) as path:
        return read_states(path, split=True)


def read_states(path: Path, *, split: bool = False) -> list[LabelledState]:
    """The rows of a JSONL file; `content` and `score` are required, other keys are passed over.

    Args:
        path: the file.
        split: put each state in its part, open or held out.

    Raises:
        DataError: no file, a row of the wrong form, an id twice, or no row at all.
    """
    try:
        lines = path.expanduser().read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"cannot read {path}: {read_failure(error)}") from None
    states: dict[str, LabelledState] = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        state = _state(line, f"{path}:{number}", f"line-{number}", split=split)
        if state.id in states:
            raise DataError(f"{path}:{number}: id {state.id!r} appears twice")
        states[state.id] = state
    if not states:
        raise DataError(f"{path} holds no next states")
    return list(states.values())


def digest(states: Sequence[LabelledState]) -> str:
    """sha256 (hex) of all that is asked and of every label."""
    decides = [
        [s.id, s.role, s.content, s.request, s.reply, s.score, s.hint, s.kind, s.language, s.part]
        for s in states
    ]
    return hashlib.sha256(json.dumps(decides).encode()).hexdigest()


def _state(line: str, where: str, default_id: str, *, split: bool) -> LabelledState:
    try:
        parsed: Any = json.loads(line)
    except ValueError:
        raise DataError(f"{where}: not a line of JSON") from None
    if not isinstance(parsed, dict):
        raise DataError(f"{where}: not an object with content and score")
    row = cast("dict[str, Any]", parsed)
    for key in ("content", "score"):
        if key not in row:
            near = nearest(key, row).replace("did you mean", "is it")
            raise DataError(f"{where}: {key!r} is missing{near if 'is it' in near else ''}")
    score = row["score"]
    if isinstance(score, bool) or not isinstance(score, int) or score not in _SCORES:
        raise DataError(f"{where}: 'score' must be -1, 0 or 1, not {score!r}")
    role = row.get("role", "user")
    if role not in ("user", "tool"):
        raise DataError(f"{where}: 'role' must be user or tool, not {role!r}")
    hint = row.get("hint")
    if hint is not None and not isinstance(hint, bool):
        raise DataError(f"{where}: 'hint' must be true or false, not {hint!r}")
    state_id = row.get("id", default_id)
    if isinstance(state_id, bool) or not isinstance(state_id, (str, int)):
        raise DataError(f"{where}: 'id' must be a text or a whole number")
    texts = {key: _text(row, key, where) for key in ("content", "request", "reply")}
    return LabelledState(
        id=str(state_id),
        role=role,
        score=_SCORES[score],
        hint=hint,
        kind=_text(row, "kind", where) or None,
        language=_text(row, "language", where) or None,
        part=("held out" if held_out(str(state_id)) else "open") if split else "all",
        **texts,
    )


def _text(row: dict[str, Any], key: str, where: str) -> str:
    value = row.get(key)
    if value is None and key != "content":
        return ""
    if not isinstance(value, str):
        raise DataError(f"{where}: {key!r} must be a text")
    return value
