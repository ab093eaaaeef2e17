"""Which requests belong together, and which main turn of each session waits for its next state."""

from __future__ import annotations

import time
import uuid
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from clawrl.gateway.errors import ApiError
from clawrl.records.nouns import Interaction, TurnType

_LONGEST_ID = 256
_SWITCH = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}


@dataclass(frozen=True, slots=True)
class SessionKey:
    """What a request says about where it belongs."""

    session_id: str | None
    """None: it says nothing, and is a session of its own."""
    turn_type: TurnType
    done: bool
    """True: the client's last request of this session."""


def identify(headers: Mapping[str, str], body: Mapping[str, Any]) -> SessionKey:
    """Read the explicit marks: headers first, then the body's keys of the same meaning.

    Args:
        headers: looked up in lower case: x-session-id, x-turn-type, x-session-done.
        body: session_id, turn_type, session_done.

    Raises:
        ApiError: 400, a mark has a value that means nothing.
    """
    session_id = headers.get("x-session-id", body.get("session_id"))
    turn_type = headers.get("x-turn-type", body.get("turn_type")) or "main"
    done = headers.get("x-session-done", body.get("session_done"))
    if session_id is not None and not isinstance(session_id, str):
        raise ApiError(400, "session_id must be a string", param="session_id")
    if len(session_id or "") > _LONGEST_ID:
        raise ApiError(400, f"session_id is longer than {_LONGEST_ID}", param="session_id")
    if turn_type not in ("main", "side"):
        raise ApiError(400, "turn_type must be main or side", param="turn_type")
    if isinstance(done, str):
        done = _SWITCH.get(done.strip().lower())
        if done is None:
            raise ApiError(400, "session_done must be true or false", param="session_done")
    if done is not None and not isinstance(done, bool):
        raise ApiError(400, "session_done must be a boolean", param="session_done")
    return SessionKey(session_id or None, turn_type, bool(done))


@dataclass(slots=True)
class Session:
    """One conversation as the gateway remembers it."""

    session_id: str
    last_used: float
    turns: int = 0
    """Turns recorded so far; a regenerated one counts once."""
    pending: Interaction | None = None
    """The main turn that waits for its next state."""
    arrivals: int = 0
    newest: int = 0
    """Arrival number of the newest main turn that was answered."""

    def arrive(self) -> int:
        """Number a request: answers may come in another order than the requests did."""
        self.arrivals += 1
        return self.arrivals

    def repeated(self, messages: list[dict[str, Any]]) -> Interaction | None:
        """The pending turn, if this is the same request again: a retry or a regeneration."""
        if self.pending is not None and self.pending.messages == messages:
            return self.pending
        return None

    def answered(self, interaction: Interaction, arrival: int) -> bool:
        """A main turn was answered and waits from now on.

        Returns:
            False if a turn that arrived later has been answered already: this one stays without.
        """
        if arrival < self.newest:
            return False
        self.pending, self.newest = interaction, arrival
        return True


class Sessions:
    """The sessions that may go on. One that was idle for too long is forgotten."""

    def __init__(self, idle_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._idle_s = idle_s
        self._clock = clock
        self._sessions: OrderedDict[str, Session] = OrderedDict()  # longest unused first

    def __len__(self) -> int:
        return len(self._sessions)

    def enter(self, session_id: str | None) -> tuple[Session, list[Interaction]]:
        """The session of a request that arrived, and the pending turns that were forgotten.

        Without an id it is a new one that nothing can ever follow, so it is not kept.
        """
        forgotten = self._forget_idle()
        if session_id is None:
            return Session(f"single-{uuid.uuid4().hex}", self._clock()), forgotten
        session = self._sessions.setdefault(session_id, Session(session_id, self._clock()))
        self._touch(session)
        return session, forgotten

    def leave(self, session: Session, *, done: bool) -> None:
        """A request of this session was answered; `done`: it was the last one."""
        if self._sessions.get(session.session_id) is not session:
            return
        if done:
            del self._sessions[session.session_id]
        else:
            self._touch(session)

    def _touch(self, session: Session) -> None:
        session.last_used = self._clock()
        self._sessions.move_to_end(session.session_id)

    def _forget_idle(self) -> list[Interaction]:
        forgotten: list[Interaction] = []
        limit = self._clock() - self._idle_s
        while self._sessions:
            oldest = next(iter(self._sessions.values()))
            if oldest.last_used > limit:
                break
            self._sessions.popitem(last=False)
            if oldest.pending is not None:
                forgotten.append(oldest.pending)
        return forgotten
