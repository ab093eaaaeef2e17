"""Real traffic of stock clients, replayed into the resolver; it lies beside the workplace."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clawrl.gateway.next_state import NextState, next_state
from clawrl.gateway.resolving.marks import Marks, read_marks
from clawrl.gateway.resolving.normal import normalised
from clawrl.gateway.resolving.rules import load_rules
from clawrl.gateway.resolving.session import Pending
from clawrl.gateway.resolving.sessions import Placement, Sessions
from clawrl.gateway.resolving.trail import trail_of
from clawrl.gateway.responses.asked import to_chat
from clawrl.records.nouns import Interaction, Sampling, Weights

CAPTURES = Path(__file__).parents[2] / "shared" / "captures"
_IDS = re.compile(r"\b(?:sessionId|session)=[^\s|]+")


@dataclass(frozen=True)
class Row:
    """One captured request."""

    at: float
    name: str
    headers: dict[str, str]
    body: dict[str, Any]
    reply: dict[str, Any]
    session: str | None
    turn: str

    def without_ids(self) -> Row:
        """The same with everything removed that names a session or a kind of turn."""
        raw = _IDS.sub("", json.dumps(self.body))
        body = json.loads(raw)
        for key in ("prompt_cache_key", "client_metadata", "metadata", "session_id"):
            body.pop(key, None)
        return Row(self.at, self.name, {}, body, self.reply, self.session, self.turn)


def rows(folder: Path = CAPTURES) -> list[Row]:
    """All captured requests by time, so that the clients are interleaved."""
    lines = (line for path in folder.glob("*.jsonl") for line in path.read_text().split("\n"))
    read = (json.loads(line) for line in lines if line)
    return sorted(
        (
            Row(
                at=one["t"],
                name=f"{one['client']} {one['scenario']}",
                headers={name.lower(): value for name, value in one["headers"].items()},
                body=one["body"],
                reply=one["response_message"],
                session=one["expect"]["session"],
                turn=one["expect"]["turn"],
            )
            for one in read
        ),
        key=lambda row: row.at,
    )


@dataclass(frozen=True)
class Placed:
    """Where the resolver put a row, and the next state that it gave to an earlier one."""

    row: Row
    placement: Placement
    answers: str | None = None
    state: NextState | None = None


class Clock:
    """The rows' own time."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def replay(captured: list[Row]) -> Iterator[Placed]:
    """Place each row, and file its captured reply, as the gateway does."""
    rules, clock = load_rules(), Clock()
    sessions = Sessions(36_000, clock=clock)
    for number, row in enumerate(captured):
        clock.now = row.at
        body = to_chat(row.body).chat if "input" in row.body else row.body
        messages = body["messages"]
        marks: Marks = read_marks(row.headers, row.body, messages, rules)
        said = normalised(messages, rules)
        trail = trail_of(said, None, rules)
        placement = sessions.place(marks, trail, len(body.get("tools") or ()))
        session, answers, state = placement.session, None, None
        if placement.turn_type == "main" and not session.repeated(trail.body):
            pending, session.pending = session.pending, None
            if pending is not None and placement.problem is None:
                state = next_state(
                    pending.reply,
                    pending.before,
                    said,
                    call_ids=pending.call_ids,
                    others=session.replies,
                )
                answers = pending.interaction.interaction_id
        arrival = session.arrive()
        session.turns += 1
        sessions.learn(session, trail, row.reply)
        if placement.turn_type == "main":
            record = _interaction(number, row, messages)
            session.answered(Pending.of(record, trail, row.reply), arrival)
        sessions.leave(session, done=False)
        yield Placed(row, placement, answers, state)


def session_errors(placed: list[Placed]) -> list[str]:
    """Rows outside their session's own cluster: one to one, by the majority of a cluster."""
    clusters: dict[str, Counter[str]] = defaultdict(Counter)
    for number, one in enumerate(placed):
        label = one.row.session or f"none-{number}"
        clusters[one.placement.session.session_id][label] += 1
    owner: dict[str, str] = {}
    for cluster, labels in sorted(clusters.items(), key=lambda item: -max(item[1].values())):
        label = labels.most_common(1)[0][0]
        owner.setdefault(label, cluster)
    wrong: list[str] = []
    for number, one in enumerate(placed):
        label = one.row.session or f"none-{number}"
        if owner.get(label) != one.placement.session.session_id:
            wrong.append(f"{number} {one.row.name}: {label} by {one.placement.placed_by}")
    return wrong


def _interaction(number: int, row: Row, messages: list[dict[str, Any]]) -> Interaction:
    return Interaction(
        interaction_id=f"row-{number}",
        session_id="",
        turn=0,
        turn_type="main",
        created=row.at,
        messages=messages,
        sampling=Sampling(),
        reply=row.reply,
        weights=Weights(version_first=0, version_last=0, digest=""),
    )
