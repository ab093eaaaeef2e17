"""Bounds how many self-driven turns are under way between being asked for and being settled.

A turn holds its place from `admit` until the learner used it or it was given up. The bound is what
keeps samples fresh: what was never admitted cannot become stale. Live users do not pass here.

The place is taken in the gateway, *after* a request delivered the next state of the turn before
and *before* it goes to the engine: a conversation that waits for room has already been heard.
Places are named by interaction, and settling one twice does nothing, so that whoever learns of a
turn's end can say so. Everything runs in one event loop; nothing here is thread-safe.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable


class AdmissionClosed(Exception):
    """No more turns are admitted: the run is ending. A signal to stop, not a failure."""


class Admission:
    """Admits turns, first come first served, while fewer than `limit` hold a place."""

    def __init__(self, limit: int) -> None:
        self._limit = _checked(limit)
        self._places: set[str] = set()
        self._closed = False
        self._waiting: deque[tuple[str, asyncio.Future[None]]] = deque()

    @property
    def outstanding(self) -> int:
        """Turns admitted and not yet settled."""
        return len(self._places)

    @property
    def waiting(self) -> int:
        """Turns that wait for room."""
        return len(self._waiting)

    async def admit(self, interaction_id: str) -> None:
        """Wait for room, then give the turn a place.

        Raises:
            AdmissionClosed: `close` was called, before or while waiting.
        """
        if self._closed:
            raise AdmissionClosed
        if not self._waiting and len(self._places) < self._limit:
            self._places.add(interaction_id)
            return
        turn = asyncio.get_running_loop().create_future()
        entry = (interaction_id, turn)
        self._waiting.append(entry)
        try:
            await turn
        except asyncio.CancelledError:
            if entry in self._waiting:
                self._waiting.remove(entry)
            self.settle([interaction_id])  # it may have been let in at that very moment
            raise

    def hold(self, interaction_ids: Iterable[str]) -> None:
        """Give places to turns of an earlier process that are not settled, whatever the limit."""
        self._places.update(interaction_ids)

    def settle(self, interaction_ids: Iterable[str]) -> None:
        """These turns are done with: used, rejected, or never to come."""
        self._places.difference_update(interaction_ids)
        self._let_in()

    def set_limit(self, limit: int) -> None:
        """Change the bound. Turns already admitted stay, even where they exceed the new one."""
        self._limit = _checked(limit)
        self._let_in()

    def close(self) -> None:
        """Make every waiting and every later `admit` raise AdmissionClosed. Settling goes on."""
        self._closed = True
        while self._waiting:
            _, turn = self._waiting.popleft()
            if not turn.done():
                turn.set_exception(AdmissionClosed())

    def _let_in(self) -> None:
        while self._waiting and len(self._places) < self._limit:
            interaction_id, turn = self._waiting.popleft()
            if not turn.done():  # a cancelled waiter leaves its place to the next
                self._places.add(interaction_id)
                turn.set_result(None)


def _checked(limit: int) -> int:
    if limit < 0:
        raise ValueError(f"limit {limit} is negative; 0 admits nothing")
    return limit
