"""Tracks the sessions: who waits for a next state, who got one, who never will.

A main turn that gets a next state leads to exactly one Feedback record and one call of
`on_feedback`, trainable or not; a turn leaves `pending` at that moment and cannot get another.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

from clawrl.gateway.errors import ApiError
from clawrl.gateway.next_state import next_state
from clawrl.gateway.redaction import Redactor
from clawrl.gateway.request import Ask
from clawrl.gateway.resolving.normal import normalised
from clawrl.gateway.resolving.rules import Rules
from clawrl.gateway.resolving.session import Pending, Session
from clawrl.gateway.resolving.sessions import Placement, Sessions
from clawrl.gateway.resolving.trail import trail_of
from clawrl.records.nouns import Feedback, Interaction, Score
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
class Arrival:
    """A request that was taken in: its place, and its number among those of its session."""

    placement: Placement
    number: int

    @property
    def session(self) -> Session:
        """Its session."""
        return self.placement.session

    @property
    def main(self) -> bool:
        """It is the agent's real work."""
        return self.placement.turn_type == "main"


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
        redactor: Redactor | None = None,
    ) -> None:
        self.sessions = sessions
        self.admission = admission
        self._redactor = redactor
        self.counters = Counters()
        self.running = 0
        """Requests that are being answered."""
        self.asked = 0
        """Requests so far."""
        self._writer = writer
        self._on_feedback = on_feedback

    def arrive(self, ask: Ask) -> Arrival:
        """A request came in: if it answers the pending turn, that turn gets its next state now."""
        self.close_idle()
        placement = self.sessions.place(ask.marks, ask.trail, len(ask.tools or ()))
        session = placement.session
        if placement.turn_type == "main" and not session.repeated(ask.trail.body):
            self._deliver(placement, ask)
        self.running += 1
        self.asked += 1
        return Arrival(placement, session.arrive())

    def restore(self, interaction: Interaction, rules: Rules, *, waits: bool) -> None:
        """Take in a turn of an earlier life of the gateway, in the order of the records."""
        said = normalised(interaction.messages, rules)
        trail = trail_of(said, interaction.user, rules)
        self.sessions.restore(interaction, trail, waits=waits)

    def close_idle(self) -> None:
        """Sessions that nobody uses are forgotten, and their pending turns released."""
        for pending in self.sessions.forget_idle():
            self._discard(pending.interaction)

    def position(self, arrival: Arrival, ask: Ask, *, stands: bool) -> TurnPosition:
        """The turn number of a reply; a regenerated one keeps that of the reply it replaces.

        `stands`: the client has the reply; else the same request again gets the same number.
        """
        session = arrival.session
        if arrival.main:
            self.counters.main += 1
        else:
            self.counters.side += 1
        if arrival.main and arrival.number >= session.newest:
            repeated = session.repeated(ask.trail.body)
            if repeated is not None:
                self.counters.regenerated += 1
                return TurnPosition(repeated.interaction.turn, repeated.interaction.interaction_id)
        turn = session.turns
        session.turns += stands
        return TurnPosition(turn, None)

    def answered(
        self, arrival: Arrival, ask: Ask, interaction: Interaction, reply: dict[str, Any]
    ) -> None:
        """A reply was shown to the client; that of a main turn waits for its next state.

        `interaction` is the record, in which `reply` may be redacted.
        """
        session = arrival.session
        self.sessions.learn(session, ask.trail, reply)
        if not arrival.main or ask.marks.done:
            return
        before = session.pending
        if not session.answered(Pending.of(interaction, ask.trail, reply), arrival.number):
            self._discard(interaction)
        elif before is not None and before.interaction.interaction_id == interaction.replaces:
            self.give_up(before.interaction.interaction_id)
        elif before is not None:
            self._discard(before.interaction)

    def amend(self, session: Session, interaction: Interaction) -> None:
        """The pending turn turned out to be untrainable."""
        pending = session.pending
        if pending is not None and pending.interaction.interaction_id == interaction.interaction_id:
            session.pending = replace(pending, interaction=interaction)

    def leave(self, arrival: Arrival, ask: Ask) -> None:
        """The request was answered to its end, or failed."""
        self.running -= 1
        session = arrival.session
        if ask.marks.done and session.pending is not None:  # a side turn may end a session too
            self._discard(session.pending.interaction)
            session.pending = None
        self.sessions.leave(session, done=ask.marks.done)

    def rate(
        self,
        user: str | None,
        score: Score | None,
        text: str,
        *,
        interaction_id: str | None,
        session_id: str | None,
    ) -> Feedback:
        """Somebody says what he thinks of a reply, beside the conversation: its next state.

        Args:
            user: whose key was sent; other users' turns are not found.
            score: the rating, which is the verdict; None: a judge reads the text.
            text: what the reply should have been; may be empty where there is a score.
            interaction_id: of the turn, or None.
            session_id: of a session, whose newest turn is meant, where there is no interaction id.

        Raises:
            ApiError: 404, no turn of this user waits under this name: it is unknown, a side turn,
                or has got its next state already.
        """
        session = self.sessions.waiting(user, interaction_id, session_id)
        if session is None or session.pending is None:
            raise ApiError(
                404,
                f"no turn waits for feedback under '{interaction_id or session_id}': it is "
                "unknown, a side turn, or was answered already",
                code="no_such_turn",
            )
        interaction, session.pending = session.pending.interaction, None
        feedback = Feedback(
            interaction_id=interaction.interaction_id,
            session_id=interaction.session_id,
            created=time.time(),
            role="user",
            content=text,
            source="explicit",
            score=score,
        )
        self._give(interaction, feedback)
        return feedback

    def give_up(self, interaction_id: str) -> None:
        """A turn will never get a next state: its position is free."""
        if self.admission is not None:
            self.admission.settle([interaction_id])

    def _discard(self, turn: Interaction) -> None:
        self.counters.discarded += 1
        self.give_up(turn.interaction_id)

    def _deliver(self, placement: Placement, ask: Ask) -> None:
        session = placement.session
        pending, session.pending = session.pending, None
        if pending is None:
            return
        interaction = pending.interaction
        state = None
        if placement.problem is None:  # in an uncertain place nothing is known to be an answer
            state = next_state(
                pending.reply,
                pending.before,
                ask.said,
                call_ids=pending.call_ids,
                others=session.replies,
            )
        if state is None:
            self._discard(interaction)
            log.info(
                "no next state session=%s interaction=%s",
                interaction.session_id,
                interaction.interaction_id,
            )
            return
        feedback = Feedback(
            interaction_id=interaction.interaction_id,
            session_id=interaction.session_id,
            created=time.time(),
            role=state.role,
            content=state.content,
            session_done=ask.marks.done,
        )
        self._give(interaction, feedback)

    def _give(self, interaction: Interaction, feedback: Feedback) -> None:
        self.counters.feedback += 1
        if self._redactor is not None and interaction.live:
            content = self._redactor.redact(feedback.content).value
            feedback = feedback.model_copy(update={"content": content})
        self._writer.put(feedback)
        self._on_feedback(interaction, feedback)
