"""One conversation as the gateway remembers it."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any

from clawrl.gateway.resolving.normal import Signature, signature_of, strong_ids
from clawrl.gateway.resolving.trail import Key, Trail, quote_of, reply_key
from clawrl.records.nouns import Interaction

_KEPT_KEYS = 512
_KEPT_QUOTES = 12
_KEPT_REPLIES = 32
_KEPT_TRACES = 4


@dataclass(frozen=True, slots=True)
class Pending:
    """A main turn that waits for its next state."""

    interaction: Interaction
    reply: Signature
    body: Key
    """Of its request: the same again asks for another reply to it."""
    before: int
    """How many equal replies its request's history had."""
    call_ids: frozenset[str]
    """Of its tool calls, letters and digits alone, as far as they are nobody else's."""

    @classmethod
    def of(cls, interaction: Interaction, trail: Trail, reply: dict[str, Any]) -> Pending:
        """The turn that answered the request with this trail, with this reply."""
        own = signature_of(reply)
        before = trail.replies.count(reply_key(trail.user, own))
        return cls(interaction, own, trail.body, before, frozenset(strong_ids(reply)))


@dataclass(slots=True)
class Session:
    """Numbers its turns, holds its pending one, and keeps what its later requests are known by."""

    session_id: str
    user: str | None
    last_used: float
    began: float = 0.0
    turns: int = 0
    """Turns recorded so far; a regenerated one counts once."""
    pending: Pending | None = None
    arrivals: int = 0
    running: int = 0
    """Requests that are being answered."""
    newest: int = 0
    """Arrival number of the newest main turn that was answered."""
    errand: str | None = None
    """The kind of side turn that all of it is, such as `cron`."""
    tools: int = 0
    """Tools of its main line."""
    opening: Key | None = None
    """Its first request's history."""
    system: Key | None = None
    first: Key | None = None
    latest: Key | None = None
    """Its newest link."""
    keys: dict[Key, None] = field(default_factory=dict)
    """Links and replies that were served in it, oldest first."""
    call_ids: dict[str, None] = field(default_factory=dict)
    traces: deque[str] = field(default_factory=lambda: deque(maxlen=_KEPT_TRACES))
    quotes: deque[str] = field(default_factory=lambda: deque(maxlen=_KEPT_QUOTES))
    replies: deque[Signature] = field(default_factory=lambda: deque(maxlen=_KEPT_REPLIES))

    def arrive(self) -> int:
        """Number a request: answers may come in another order than the requests did."""
        self.arrivals += 1
        self.running += 1
        return self.arrivals

    def repeated(self, body: Key) -> Pending | None:
        """The pending turn, if this is the same request again: a retry or a regeneration."""
        if self.pending is not None and self.pending.body == body:
            return self.pending
        return None

    def answered(self, pending: Pending, arrival: int) -> bool:
        """A main turn was answered and waits from now on.

        Returns:
            False if a turn that arrived later has been answered already: this one stays without.
        """
        if arrival < self.newest:
            return False
        self.pending, self.newest = pending, arrival
        return True

    def learn(self, trail: Trail, reply: Signature, call_ids: tuple[str, ...]) -> list[Key]:
        """Remember what the histories of later requests will hold of this turn.

        Returns:
            The keys that are forgotten for it, so that a session without end stays small.
        """
        self.latest = trail.link_of(reply)
        for key in (self.latest, reply_key(trail.user, reply)):
            self.keys.pop(key, None)
            self.keys[key] = None
        self.call_ids.update(dict.fromkeys(call_ids))
        asked = trail.last_user.words if trail.last_user is not None else ""
        for words in (asked, reply.words):
            quote = quote_of(words)
            if quote is not None and quote not in self.quotes:
                self.quotes.append(quote)
        self.replies.append(reply)
        self.system, self.first = trail.system, self.first or trail.first
        dropped = list(self.keys)[: max(0, len(self.keys) - _KEPT_KEYS)]
        for key in dropped:
            del self.keys[key]
        while len(self.call_ids) > _KEPT_KEYS:
            del self.call_ids[next(iter(self.call_ids))]
        return dropped
