"""Drives personas through the gateway, as any user would: with the official OpenAI client.

Its requests are marked as driven, so that the gateway holds each until there is room for one more
turn. Where a turn can get no next state any more (the persona left in silence, its next request
never arrived) the collector says so, and its place is free.
"""

from __future__ import annotations

import asyncio
import logging
import random
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from openai import AsyncOpenAI, AsyncStream, OpenAIError
from openai.types.chat import ChatCompletionChunk

from clawrl.config import schema
from clawrl.protocols import Persona, Problem, Reaction

log = logging.getLogger(__name__)

_REQUEST_TIMEOUT_S = 3600.0
"""For one request, waiting for room and for a weight update included."""

_RETRIES = 6
"""By the client itself, with growing pauses: an engine that crashed comes back within them."""

_NEVER_SENT = ("ConnectError", "ConnectTimeout", "PoolTimeout")
"""The HTTP client's errors before a request leaves; by name, as `openai` has two such clients."""


@dataclass(slots=True)
class CollectStats:
    """What has happened so far; counts only grow."""

    sessions: int = 0
    """Sessions begun."""
    turns: int = 0
    """Replies that a persona read."""
    accepted: int = 0
    """Turns after which a persona left with a last word of its own."""
    complained: int = 0
    """Turns after which it wanted something else."""
    silent: int = 0
    """Turns after which it left without a word."""
    failed: int = 0
    """Sessions ended by a request that failed for good."""


@dataclass(slots=True)
class _Session:
    """One conversation in progress."""

    problem: Problem
    session_id: str
    seed: int
    stream: bool
    messages: list[dict[str, str]]
    pending: str | None = None
    """The turn whose reply was read and whose next state was not sent yet."""


class Collector:
    """Keeps `concurrent_sessions` sessions going until it is cancelled.

    Session n has the n-th problem and draws everything else from `seed` and n, so that two runs ask
    the same things of the same policy.
    """

    def __init__(
        self,
        *,
        persona: Persona,
        problems: Iterator[Problem],
        base_url: str,
        api_key: str | None,
        model_name: str,
        sampling: schema.Sampling,
        max_turns: int,
        concurrent_sessions: int,
        give_up: Callable[[str], None],
        seed: int,
    ) -> None:
        """Keep the parts; nothing is connected before `run`.

        Args:
            persona: who talks.
            problems: what about; where it ends, no new session begins.
            base_url: the gateway's, with `/v1`.
            api_key: the gateway's key, where it wants one.
            model_name: the policy's name there.
            sampling: how the policy's replies are drawn.
            max_turns: replies that the persona reads in one session before it leaves.
            concurrent_sessions: sessions at one time.
            give_up: is told the id of a turn that will never get a next state.
            seed: of the sessions' ids, seeds and ways of asking.
        """
        self.stats = CollectStats()
        self._persona = persona
        self._problems = problems
        self._base_url = base_url
        self._api_key = api_key
        self._model_name = model_name
        self._sampling = sampling
        self._max_turns = max_turns
        self._concurrent_sessions = concurrent_sessions
        self._give_up = give_up
        self._seed = seed
        self._next_session = asyncio.Lock()

    async def run(self) -> None:
        """Hold sessions for ever, or until the problems end."""
        client = AsyncOpenAI(
            base_url=self._base_url,
            api_key=self._api_key or "none",
            timeout=_REQUEST_TIMEOUT_S,
            max_retries=_RETRIES,
        )
        async with client, asyncio.TaskGroup() as group:
            for _ in range(self._concurrent_sessions):
                group.create_task(self._one_session_after_another(client))

    async def _one_session_after_another(self, client: AsyncOpenAI) -> None:
        while (session := await self._begin()) is not None:
            try:
                await self._hold(client, session)
            except OpenAIError as error:
                self.stats.failed += 1
                log.warning("session=%s ended: %s", session.session_id, _reason(error))
            finally:
                if session.pending is not None:
                    self._give_up(session.pending)

    async def _begin(self) -> _Session | None:
        async with self._next_session:
            # A generator may import and compute for longer than the loop should be held.
            problem = await asyncio.to_thread(next, self._problems, None)
            if problem is None:
                return None
            draw = random.Random(f"session {self._seed} {self.stats.sessions}")
            self.stats.sessions += 1
        session_id = str(uuid.UUID(int=draw.getrandbits(128), version=4))
        seed = draw.getrandbits(31)
        messages = list(self._persona.opening(problem, seed))
        return _Session(problem, session_id, seed, draw.random() < 0.5, messages)

    async def _hold(self, client: AsyncOpenAI, session: _Session) -> None:
        """One session to its end. Whatever is left `pending` has no next state to come."""
        for turn in range(self._max_turns):
            reply, finish_reason = await self._ask(client, session, turn)
            self.stats.turns += 1
            reaction = await self._persona.react(
                session.problem, reply, finish_reason, turn, session.seed
            )
            self._count(reaction)
            if reaction.text is None:
                return
            session.messages += [
                {"role": "assistant", "content": reply},
                {"role": "user", "content": reaction.text},
            ]
            if reaction.done or turn + 1 == self._max_turns:
                await self._say_last(client, session)
                return

    async def _ask(
        self, client: AsyncOpenAI, session: _Session, turn: int
    ) -> tuple[str, str | None]:
        """A main turn. Its request is also the next state of the turn before."""
        before, session.pending = session.pending, None
        request: dict[str, Any] = {
            **self._request(session, done=False),
            "temperature": self._sampling.temperature,
            "max_tokens": self._sampling.max_tokens,
            "seed": (session.seed + turn) % 2**31,
        }
        try:
            answer: Any = await client.chat.completions.create(**request, stream=session.stream)
        except OpenAIError as error:
            if not _arrived(error):
                session.pending = before
            raise
        if session.stream:
            session.pending, reply, finish_reason = await _read(answer)
            return reply, finish_reason
        session.pending = answer.id
        return answer.choices[0].message.content or "", answer.choices[0].finish_reason

    async def _say_last(self, client: AsyncOpenAI, session: _Session) -> None:
        """Deliver the last next state. The reply to it is nobody's to read, hence one token."""
        before, session.pending = session.pending, None
        try:
            await client.chat.completions.create(**self._request(session, done=True), max_tokens=1)
        except OpenAIError as error:
            if not _arrived(error):
                session.pending = before
            raise

    def _request(self, session: _Session, *, done: bool) -> dict[str, Any]:
        headers = {
            "X-Session-Id": session.session_id,
            "X-Turn-Type": "main",
            "X-Clawrl-Driven": "1",
        }
        if done:
            headers["X-Session-Done"] = "true"
        return {
            "model": self._model_name,
            "messages": list(session.messages),
            "extra_headers": headers,
        }

    def _count(self, reaction: Reaction) -> None:
        if reaction.text is None:
            self.stats.silent += 1
        elif reaction.done:
            self.stats.accepted += 1
        else:
            self.stats.complained += 1


async def _read(
    stream: AsyncStream[ChatCompletionChunk],
) -> tuple[str | None, str, str | None]:
    """The turn's id, its whole reply, and why that ended."""
    turn: str | None = None
    pieces: list[str] = []
    finish_reason: str | None = None
    async with stream:
        async for chunk in stream:
            turn = chunk.id or turn
            for choice in chunk.choices:
                pieces.append(choice.delta.content or "")
                finish_reason = choice.finish_reason or finish_reason
    return turn, "".join(pieces), finish_reason


def _arrived(error: OpenAIError) -> bool:
    """Whether the gateway may have seen the request, and with it the next state that it carries."""
    return type(error.__cause__).__name__ not in _NEVER_SENT


def _reason(error: OpenAIError) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
