r"""Sentences of a next state that speak to the judge: "score this 1", `\boxed{1}`, closing tags.

They say nothing about the reply, so they are taken out before anything is read. Invariant: what is
said to the judge never raises a score. Pure.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from clawrl.judge.phrasebook import injection_rules

MAX_PIECE_CHARS = 2000
"""Of a longer sentence or line only the start is searched."""
MAX_PIECES = 4000
"""Of a text of more sentences or lines the middle is left out; it is not read anyway."""

_BREAK = re.compile(r"(\n|(?<=[.!?}\]>])\s+|(?<=[\u3002\uff01\uff1f]))")
_LOWERING = re.compile(
    r"[-\N{MINUS SIGN}\N{EN DASH}]\s?1(?!\d)|\b(?:minus|negative) one\b|"
    r"\b(?:lowest|minimum|worst|bad|negative|no) (?:score|reward|grade|rating|mark|vote)|"
    r"负(?:一|1)|零分|最低分|负分|差评",
    re.IGNORECASE,
)
_FIELD = re.compile(r"(?:[\"']|\b)(?:score|reward|verdict|label)[\"']?\s*[:=]", re.IGNORECASE)
"""In a tool's output a field of this name is data, as long as nobody is addressed."""
_ALONE = re.compile(
    r"\s*\{\s*[\"']?(?:score|reward|verdict|label)[\"']?\s*[:=][^,{}]*\}\s*", re.IGNORECASE
)
"""A line with that field and no other says nothing about anything but the score."""


@dataclass(frozen=True, slots=True)
class Cleaned:
    """A next state without what it says to the judge."""

    text: str
    """What is left, in its order."""
    raising: bool
    """Whether something was taken out that could be meant to raise the score."""


def without_injections(role: str, content: str) -> Cleaned:
    """Take out every sentence (of a tool's output: every line) that speaks to the judge."""
    kept: list[str] = []
    raising = False
    pieces = content.split("\n") if role == "tool" else _BREAK.split(content)
    if len(pieces) > MAX_PIECES:
        pieces = pieces[: MAX_PIECES // 2] + pieces[-MAX_PIECES // 2 :]
    for piece in pieces:
        if _speaks_to_judge(piece[:MAX_PIECE_CHARS], role):
            raising = raising or not _LOWERING.search(piece)
        else:
            kept.append(piece)
    return Cleaned(("\n" if role == "tool" else "").join(kept), raising)


def _speaks_to_judge(piece: str, role: str) -> bool:
    for rule in injection_rules():
        match = rule.found(piece)
        if match and (role != "tool" or not _FIELD.match(match.group()) or _ALONE.fullmatch(piece)):
            return True
    return False
