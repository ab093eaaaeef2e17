"""Who sits in a committee, written into the judge's name of each verdict and read out of it again.

A verdict records votes in the members' order; with the counts and weights from its judge's name it
can be replayed without the configuration that made it. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import quote, unquote

from clawrl.errors import JudgeError

COMMITTEE = "committee/1"
_SAFE = "/@.:-_+~"
_MEMBER = re.compile(r"(?P<weight>[^*]+)\*(?P<member>[^,()*]+)\((?P<votes>\d+)\+(?P<hints>\d+)\)")


@dataclass(frozen=True, slots=True)
class Member:
    """A member of a committee and what it gave to one verdict."""

    member: str
    """The member judge's own name, such as `prm/Qwen3-4B@v3`."""
    weight: float
    """What each of its votes counts."""
    votes: int
    hints: int


def committee_name(members: Sequence[tuple[str, float]]) -> str:
    """Members with their weights: `committee/1[1*cues/4,2*prm/m]`."""
    return f"{COMMITTEE}[{','.join(_weighted(*member) for member in members)}]"


def verdict_name(members: Sequence[Member]) -> str:
    """The same with how many votes and hints each gave: `committee/1[1*cues/4(1+0),...]`."""
    written = [f"{_weighted(s.member, s.weight)}({s.votes}+{s.hints})" for s in members]
    return f"{COMMITTEE}[{','.join(written)}]"


def members_of(judge: str) -> list[Member] | None:
    """The members that a verdict's judge name tells of; None where it is not a committee's.

    Raises:
        JudgeError: it is a committee's and cannot be read.
    """
    if not judge.startswith(f"{COMMITTEE}["):
        return None
    members: list[Member] = []
    for part in judge[len(COMMITTEE) + 1 : -1].split(","):
        match = _MEMBER.fullmatch(part)
        if match is None or not judge.endswith("]"):
            raise JudgeError(f"{judge}: the name of a committee that cannot be read")
        try:
            weight = float(match["weight"])
        except ValueError:
            raise JudgeError(f"{judge}: {match['weight']} is no weight") from None
        members.append(
            Member(unquote(match["member"]), weight, int(match["votes"]), int(match["hints"]))
        )
    return members


def _weighted(member: str, weight: float) -> str:
    short = f"{weight:g}"
    return f"{short if float(short) == weight else repr(weight)}*{quote(member, safe=_SAFE)}"
