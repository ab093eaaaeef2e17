"""Finds the session that a request belongs to, and forgets sessions that nobody uses."""

from __future__ import annotations

import time
import uuid
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Any

from clawrl.gateway.resolving.marks import Marks
from clawrl.gateway.resolving.normal import signature_of, strong_ids
from clawrl.gateway.resolving.session import Pending, Session
from clawrl.gateway.resolving.trail import Key, Trail
from clawrl.records.nouns import Interaction, TurnType

_SAME_OPENING_S = 300.0
"""The same opening within this time is a client that asks again."""
_SEARCHED_LINKS = 32
_QUOTED_SESSIONS = 64
_UNIQUE_REPLY = 24
"""A reply of so many characters is taken for one session's own, where links do not help."""
_FEWER_TOOLS = 3
AMBIGUOUS = "ambiguous_session"


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a request belongs and what it is for."""

    session: Session
    turn_type: TurnType
    kind: str
    """`user` or `tool` for a main turn; a side turn's errand."""
    placed_by: str
    problem: str | None = None
    """Why the turn cannot be learned from, as far as its place tells."""


@dataclass(frozen=True, slots=True)
class _Found:
    session: Session | None
    placed_by: str
    problem: str | None = None


class Sessions:
    """The sessions that may go on. One that was idle for too long is forgotten."""

    def __init__(
        self,
        idle_s: float,
        max_sessions: int = 20_000,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._idle_s = idle_s
        self._max_sessions = max_sessions
        self._clock = clock
        self._sessions: OrderedDict[str, Session] = OrderedDict()  # longest unused first
        self._by_key: dict[Key, dict[str, None]] = {}
        self._by_call: dict[str, str] = {}
        self._by_opening: dict[Key, str] = {}
        self._by_trace: dict[str, str] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def remembered(self) -> int:
        """Entries in all of the maps, for the tests of their bounds."""
        maps = (self._sessions, self._by_key, self._by_call, self._by_opening, self._by_trace)
        return sum(len(one) for one in maps)

    def place(self, marks: Marks, trail: Trail, tools: int) -> Placement:
        """Find a request's session, or begin one, and tell main turns from side turns."""
        errand = trail.errand if marks.turn_type is None else None
        found = self._find(marks, trail, errand.belongs if errand is not None else "id")
        session = found.session
        if session is None:
            nowhere = errand is not None and errand.belongs != "id" and not marks.session_id
            session = self._begin(self._id(marks, trail), trail, kept=not nowhere)
        if errand is not None and errand.spreads and session.turns == 0:
            session.errand = errand.kind
        turn_type, kind = _purpose(marks, trail, tools, session)
        if turn_type == "main":
            session.tools = max(session.tools, tools)
        self._touch(session)
        self._follow_trace(marks, session)
        problem = found.problem if turn_type == "main" else None
        return Placement(session, turn_type, kind, found.placed_by, problem)

    def waiting(
        self, user: str | None, interaction_id: str | None, session_id: str | None
    ) -> Session | None:
        """The user's session of this name, or with this turn pending; None: there is none."""
        mine = (one for one in self._sessions.values() if one.user == user)
        if interaction_id is None:
            names = (session_id, f"{user}:{session_id}")
            return next((one for one in mine if one.session_id in names), None)
        return next(
            (
                one
                for one in mine
                if one.pending is not None
                and one.pending.interaction.interaction_id == interaction_id
            ),
            None,
        )

    def forget_idle(self) -> list[Pending]:
        """Drop sessions that were idle for too long, or are too many.

        Returns:
            Their pending turns, which can get no next state any more.
        """
        forgotten: list[Pending] = []
        limit = self._clock() - self._idle_s
        while self._sessions:
            oldest = next(iter(self._sessions.values()))
            if oldest.last_used > limit and len(self._sessions) <= self._max_sessions:
                break
            self._drop(oldest)
            if oldest.pending is not None:
                forgotten.append(oldest.pending)
        return forgotten

    def learn(self, session: Session, trail: Trail, reply: dict[str, Any]) -> None:
        """A reply was served in this session: later requests are known by it."""
        call_ids = strong_ids(reply)
        dropped = session.learn(trail, signature_of(reply), call_ids)
        if self._sessions.get(session.session_id) is not session:
            return
        for key in dropped:
            self._unlink(key, session)
        for key in islice(reversed(session.keys), 2):
            self._by_key.setdefault(key, {})[session.session_id] = None
        self._by_call.update(dict.fromkeys(call_ids, session.session_id))

    def leave(self, session: Session, *, done: bool) -> None:
        """A request of this session was answered, or failed; `done`: it was the last one.

        A session in which nothing was ever answered is no session: it is forgotten.
        """
        session.running -= 1
        if self._sessions.get(session.session_id) is not session:
            return
        if done or (session.turns == 0 and session.running <= 0 and session.pending is None):
            self._drop(session)
        else:
            self._touch(session)

    def restore(self, interaction: Interaction, trail: Trail, *, waits: bool) -> None:
        """Take in a turn of an earlier life of the gateway, in the order of the records.

        Args:
            interaction: as it was recorded.
            trail: of its messages.
            waits: it is a main turn that can still get its next state.
        """
        session = self._sessions.get(interaction.session_id)
        if session is None:
            session = self._begin(interaction.session_id, trail, kept=True)
        self._touch(session)
        session.turns = max(session.turns, interaction.turn + 1)
        if interaction.turn_type == "main":
            session.tools = max(session.tools, len(interaction.tools or ()))
            session.pending = Pending.of(interaction, trail, interaction.reply) if waits else None
        elif trail.errand is not None and trail.errand.spreads and interaction.turn == 0:
            session.errand = interaction.kind
        self.learn(session, trail, interaction.reply)

    def _find(self, marks: Marks, trail: Trail, belongs: str) -> _Found:
        if belongs == "content":
            by_content = self._by_content(trail)
            if by_content.session is None:
                by_content = self._by_trace_or_quotes(marks, trail)
            if by_content.session is not None:
                return by_content
        if marks.session_id is not None:
            session = self._sessions.get(self._id(marks, trail))
            return _Found(session, marks.placed_by)
        if belongs != "id":
            return _Found(None, "nowhere")
        return self._by_content(trail)

    def _by_content(self, trail: Trail) -> _Found:
        for identity in reversed(trail.call_ids):
            session = self._sessions.get(self._by_call.get(identity, ""))
            if session is not None and session.user == trail.user:
                return _Found(session, "tool_call_id")
        linked = self._best(trail, trail.links)
        if linked.session is not None:
            return linked
        if trail.summary is not None:
            return self._after_compaction(trail)
        return self._same_opening(trail)

    def _best(self, trail: Trail, links: tuple[Key, ...]) -> _Found:
        """The session that shares most of the last links; two alike are ambiguous."""
        recent = links[-_SEARCHED_LINKS:]
        names = dict.fromkeys(name for key in recent for name in self._by_key.get(key, ()))
        ranked = sorted(
            (
                (_likeness(recent, trail, session), session.last_used, session)
                for name in names
                if (session := self._sessions.get(name)) is not None
            ),
            key=lambda one: one[:2],
            reverse=True,
        )
        if not ranked:
            return _Found(None, "new")
        ambiguous = len(ranked) > 1 and ranked[0][0] == ranked[1][0]
        return _Found(ranked[0][2], "own_reply", AMBIGUOUS if ambiguous else None)

    def _after_compaction(self, trail: Trail) -> _Found:
        """The head is gone: the summary quotes it, and the replies that are left are known."""
        quoted = self._most_quoted(trail, trail.summary or "")
        if quoted is not None:
            return _Found(quoted, "summary")
        replied = self._best(trail, trail.replies)
        return _Found(replied.session, "reply_alone", AMBIGUOUS if replied.session else None)

    def _by_trace_or_quotes(self, marks: Marks, trail: Trail) -> _Found:
        session = self._sessions.get(self._by_trace.get(marks.trace or "", ""))
        if session is not None and session.user == trail.user:
            return _Found(session, "trace")
        words = trail.last_user.words if trail.last_user is not None else ""
        return _Found(self._most_quoted(trail, words), "quotes")

    def _most_quoted(self, trail: Trail, words: str) -> Session | None:
        mine = (one for one in reversed(self._sessions.values()) if one.user == trail.user)
        best, most = None, 0
        for session in islice(mine, _QUOTED_SESSIONS):  # the most recent goes first in a tie
            count = sum(quote in words for quote in session.quotes)
            if count > most:
                best, most = session, count
        return best

    def _same_opening(self, trail: Trail) -> _Found:
        """The first request again, or a history whose first reply the client wrote anew."""
        session = self._sessions.get(self._by_opening.get(trail.body, ""))
        if session is not None and session.system == trail.system:
            recent = self._clock() - session.began < _SAME_OPENING_S
            if session.turns <= 1 and recent:
                return _Found(session, "same_opening")
        elif not trail.opens:
            session = self._sessions.get(self._by_opening.get(trail.start, ""))
            if session is not None and session.system == trail.system:
                return _Found(session, "same_opening")
        return _Found(None, "new")

    def _begin(self, session_id: str, trail: Trail, *, kept: bool) -> Session:
        now = self._clock()
        session = Session(session_id, trail.user, now, began=now)
        session.opening, session.first, session.system = trail.body, trail.first, trail.system
        if kept:
            self._sessions[session_id] = session
            self._by_opening[trail.body] = session_id
        return session

    def _follow_trace(self, marks: Marks, session: Session) -> None:
        if marks.trace is None or marks.trace in session.traces:
            return
        if self._sessions.get(session.session_id) is not session:
            return
        if len(session.traces) == session.traces.maxlen:
            self._by_trace.pop(session.traces[0], None)
        session.traces.append(marks.trace)
        self._by_trace[marks.trace] = session.session_id

    def _id(self, marks: Marks, trail: Trail) -> str:
        """Users choose their ids, so each has a room of his own for them."""
        if marks.session_id is None:
            return f"auto-{uuid.uuid4().hex}"
        return marks.session_id if trail.user is None else f"{trail.user}:{marks.session_id}"

    def _touch(self, session: Session) -> None:
        session.last_used = self._clock()
        if self._sessions.get(session.session_id) is session:
            self._sessions.move_to_end(session.session_id)

    def _drop(self, session: Session) -> None:
        del self._sessions[session.session_id]
        for key in session.keys:
            self._unlink(key, session)
        self._unname(self._by_call, session.call_ids, session)
        self._unname(self._by_trace, session.traces, session)
        self._unname(self._by_opening, [session.opening], session)

    @staticmethod
    def _unname(names: dict[Any, str], keys: Iterable[Any], session: Session) -> None:
        for key in keys:
            if names.get(key) == session.session_id:
                del names[key]

    def _unlink(self, key: Key, session: Session) -> None:
        names = self._by_key.get(key)
        if names is not None:
            names.pop(session.session_id, None)
            if not names:
                del self._by_key[key]


def _likeness(
    keys: tuple[Key, ...], trail: Trail, session: Session
) -> tuple[int, bool, int, bool, bool]:
    """How well a session fits a history; the later the shared step, the better."""
    shared = [at for at, key in enumerate(keys) if key in session.keys]
    return (
        shared[-1],
        session.latest == keys[-1],
        len(shared),
        session.system == trail.system,
        session.first == trail.first,
    )


def _purpose(marks: Marks, trail: Trail, tools: int, session: Session) -> tuple[TurnType, str]:
    if marks.turn_type == "side":
        return "side", marks.kind or "side"
    if marks.turn_type is None:
        if trail.errand is not None:
            return "side", trail.errand.kind
        if session.errand is not None:
            return "side", session.errand
        if 0 < tools * _FEWER_TOOLS <= session.tools:
            return "side", "few_tools"
    return "main", "tool" if trail.answers_tool else "user"
