"""Tracks the sessions: who waits for a next state, who got one, who never will.

A main turn that gets a next state leads to exactly one Feedback record and one call of
`on_feedback`, trainable or not; a turn leaves `pending` at that moment and cannot get another.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass

from clawrl.gateway.next_state import next_state
from clawrl.gateway.request import Ask
from clawrl.gateway.sessions import Session, Sessions
from clawrl.records.nouns import Feedback, Interaction
from clawrl.records.writer import RecordWriter
from clawrl.serving.admission import Admission

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Counters:
    """What happened since the gateway started; for metrics and `/healthz`."""

    main: int = 0
    side: int = 0
    feedback: int = 0
    regenerated: int = 0
    discarded: int = 0
    """Main turns that can get no next state any more: their reply was taken back or forgotten."""
    cut_by_client: int = 0
    not_recorded: int = 0
    failed: int = 0
    """Requests that the engine did not answer."""

    def as_dict(self) -> dict[str, int]:
        """All of them by name."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class TurnPosition:
    """Where a reply stands in its session."""

    turn: int
    replaces: str | None


class SessionTracker:
    """Takes requests in, hands next states out, and files the answers."""

    def __init__(
        self,
        sessions: Sessions,
        writer: RecordWriter,
        on_feedback: Callable[[Interaction, Feedback], None],
        admission: Admission | None,
    ) -> None:
        self.sessions = sessions
        self.admission = admission
        self.counters = Counters()
        self._writer = writer
        self._on_feedback = on_feedback

    def arrive(self, ask: Ask) -> tuple[Session, int]:
        """A request came in: if it answers the pending turn, that turn gets its next state now.

        Returns:
            The session, and the request's arrival number in it.
        """
        session, forgotten = self.sessions.enter(ask.key.session_id)
        for turn in forgotten:
            self._discard(turn)
        if ask.key.turn_type == "main" and not session.repeated(ask.messages):
            self._deliver(session, ask)
        return session, session.arrive()

    def position(self, session: Session, ask: Ask, arrival: int, *, stands: bool) -> TurnPosition:
        """The turn number of a reply; a regenerated one keeps that of the reply it replaces.

        `stands`: the client has the reply; else the same request again gets the same number.
        """
        if ask.key.turn_type == "main":
            self.counters.main += 1
        else:
            self.counters.side += 1
        if ask.key.turn_type == "main" and arrival >= session.newest:
            repeated = session.repeated(ask.messages)
            if repeated is not None:
                self.counters.regenerated += 1
                return TurnPosition(repeated.turn, repeated.interaction_id)
        turn = session.turns
        session.turns += stands
        return TurnPosition(turn, None)

    def answered(self, session: Session, interaction: Interaction, arrival: int) -> None:
        """A main turn's reply was shown to the client: it waits for its next state from now on."""
        before = session.pending
        if not session.answered(interaction, arrival):
            self._discard(interaction)
        elif before is not None and before.interaction_id == interaction.replaces:
            self.give_up(before.interaction_id)
        elif before is not None:
            self._discard(before)

    def amend(self, session: Session, interaction: Interaction) -> None:
        """The pending turn turned out to be untrainable."""
        pending = session.pending
        if pending is not None and pending.interaction_id == interaction.interaction_id:
            session.pending = interaction

    def leave(self, session: Session, ask: Ask) -> None:
        """The request was answered to its end."""
        if ask.key.done and session.pending is not None:  # a side turn may end a session too
            self._discard(session.pending)
            session.pending = None
        self.sessions.leave(session, done=ask.key.done)

    def give_up(self, interaction_id: str) -> None:
        """A turn will never get a next state: its position is free."""
        if self.admission is not None:
            self.admission.settle([interaction_id])

    def _discard(self, turn: Interaction) -> None:
        self.counters.discarded += 1
        self.give_up(turn.interaction_id)

    def _deliver(self, session: Session, ask: Ask) -> None:
        pending, session.pending = session.pending, None
        if pending is None:
            return
        state = next_state(pending, ask.messages)
        if state is None:
            self._discard(pending)
            log.info(
                "no next state session=%s interaction=%s",
                pending.session_id,
                pending.interaction_id,
            )
            return
        feedback = Feedback(
            interaction_id=pending.interaction_id,
            session_id=pending.session_id,
            created=time.time(),
            role=state.role,
            content=state.content,
            session_done=ask.key.done,
        )
        self.counters.feedback += 1
        self._writer.put(feedback)
        self._on_feedback(pending, feedback)
