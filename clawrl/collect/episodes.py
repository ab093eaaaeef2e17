"""Drives environments through the gateway: the policy acts, what comes back is its next request.

A step's next state reaches the gateway as the following request's last message, the last one's with
a request that ends the session. So the gateway, its recorder and the judge see an episode as any
conversation; the outcome is recorded here, beside it.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count, islice
from typing import Any, Literal

from openai import AsyncOpenAI, OpenAIError

from clawrl.config import schema
from clawrl.errors import EnvironmentLost
from clawrl.protocols import Action, Environment, NextState, Observation, Pool, ToolCall
from clawrl.records.nouns import Episode, Step

log = logging.getLogger(__name__)

_REQUEST_TIMEOUT_S = 3600.0
_RETRIES = 6
_End = Literal["submitted", "step_limit", "lost", "failed"]


@dataclass(frozen=True, slots=True)
class Attempt:
    """Which task, and which of the attempts that are compared with one another."""

    task_id: str
    group: int
    attempt: int


@dataclass(slots=True)
class Live:
    """One episode as it runs, for whoever watches."""

    attempt: Attempt
    session_id: str
    steps: int = 0
    doing: str = "waiting for room"
    action: str = ""
    """The last reply."""
    began: float = field(default_factory=time.time)


@dataclass(slots=True)
class EpisodeStats:
    """What has happened so far; counts only grow."""

    begun: int = 0
    graded: int = 0
    solved: float = 0.0
    """Rewards together."""
    ungraded: int = 0
    """The checker failed."""
    lost: int = 0
    """The environment was gone."""
    failed: int = 0
    """A request failed for good."""
    steps: int = 0
    state_s: float = 0.0
    """Spent in environments' steps."""


@dataclass(slots=True)
class _Run:
    """An episode's conversation, and what is still to be told."""

    live: Live
    seed: int
    messages: list[dict[str, Any]] = field(default_factory=list)
    tools: list[dict[str, Any]] | None = None
    pending: str | None = None
    """The turn whose next state was not delivered yet."""
    steps: list[Step] = field(default_factory=list)
    ended: _End = "step_limit"


class EpisodeCollector:
    """Makes the attempts that it is given, `parallel` at one time."""

    def __init__(
        self,
        *,
        pool: Pool,
        task_ids: Sequence[str],
        attempts: int,
        parallel: int,
        max_steps: int,
        base_url: str,
        api_key: str | None,
        model_name: str,
        sampling: schema.Sampling,
        give_up: Callable[[str], None],
        record: Callable[[Episode], object],
        seed: int,
        first_group: int = 0,
        episodes: int | None = None,
    ) -> None:
        """Keep the parts; nothing is connected before `run`.

        Args:
            pool: where environments come from.
            task_ids: the tasks; each round has them all, in an order of its own.
            attempts: at each task in a round.
            parallel: episodes at one time.
            max_steps: replies in one episode.
            base_url: the gateway's, with `/v1`.
            api_key: the gateway's key, where it wants one.
            model_name: the policy's name there.
            sampling: how replies are drawn.
            give_up: is told the id of a turn that will never get a next state.
            record: is told each episode that has ended, whatever its end.
            seed: of the order, the sessions' ids and the sampling.
            first_group: number of the first group; a resumed run goes on counting.
            episodes: to make in all; None: for ever.
        """
        self.stats = EpisodeStats()
        self.live: dict[str, Live] = {}
        """Those that run now, by session."""
        self._pool = pool
        self._task_ids = list(task_ids)
        self._attempts = attempts
        self._parallel = parallel
        self._max_steps = max_steps
        self._base_url = base_url
        self._api_key = api_key
        self._model_name = model_name
        self._sampling = sampling
        self._give_up = give_up
        self._record = record
        self._seed = seed
        self._first_group = first_group
        self._episodes = episodes

    async def run(self) -> None:
        """Make attempts until there were enough, or until it is cancelled."""
        client = AsyncOpenAI(
            base_url=self._base_url,
            api_key=self._api_key or "none",
            timeout=_REQUEST_TIMEOUT_S,
            max_retries=_RETRIES,
        )
        attempts = islice(self._in_order(), self._episodes)
        async with client, asyncio.TaskGroup() as group:
            for _ in range(self._parallel):
                group.create_task(self._one_after_another(client, attempts))

    def _in_order(self) -> Iterator[Attempt]:
        """Attempts at one task follow each other: the group is complete before long."""
        for number in count():
            order = list(self._task_ids)
            random.Random(f"round {self._seed} {number}").shuffle(order)
            for place, task_id in enumerate(order):
                group = self._first_group + number * len(order) + place
                for attempt in range(self._attempts):
                    yield Attempt(task_id, group, attempt)

    async def _one_after_another(self, client: AsyncOpenAI, attempts: Iterator[Attempt]) -> None:
        for attempt in attempts:
            await self._attempt(client, attempt)

    async def _attempt(self, client: AsyncOpenAI, attempt: Attempt) -> None:
        draw = random.Random(f"episode {self._seed} {attempt.group} {attempt.attempt}")
        session_id = str(uuid.UUID(int=draw.getrandbits(128), version=4))
        run = _Run(Live(attempt, session_id), draw.getrandbits(31))
        self.stats.begun += 1
        self.live[session_id] = run.live
        began = time.monotonic()
        reward: float | None = None
        detail = ""
        try:
            async with self._pool.lease(attempt.task_id) as world:
                await self._act(client, world, run)
                run.live.doing = "grading"
                outcome = await world.grade()
            reward, detail = outcome.reward, outcome.detail
        except EnvironmentLost as error:
            run.ended, detail = "lost", str(error)
            log.warning("session=%s lost: %s", session_id, error)
        except OpenAIError as error:
            run.ended, detail = "failed", _reason(error)
            log.warning("session=%s ended: %s", session_id, detail)
        finally:
            del self.live[session_id]
            if run.pending is not None:
                self._give_up(run.pending)
        self._count(run.ended, reward)
        self._record(
            Episode(
                session_id=session_id,
                task_id=attempt.task_id,
                attempt=attempt.attempt,
                group=attempt.group,
                steps=run.steps,
                reward=reward,
                detail=detail,
                ended=run.ended,
                created=run.live.began,
                seconds=time.monotonic() - began,
            )
        )

    async def _act(self, client: AsyncOpenAI, world: Environment, run: _Run) -> None:
        """Reply and step by turns; then tell the gateway the last next state."""
        seen: Observation = await world.observe()
        run.messages, run.tools = list(seen.messages), seen.tools
        for step in range(self._max_steps):
            run.live.doing = "thinking"
            message = await self._ask(client, run, step)
            run.live.doing, run.live.action = "acting", message.get("content") or ""
            state = await world.step(_action(message))
            self._took(run, state)
            run.messages += [message, *_answers(message, state.text())]
            if state.done:
                run.ended = "submitted"
                break
        run.live.doing = "ending"
        await self._say_last(client, run)

    def _took(self, run: _Run, state: NextState) -> None:
        self.stats.steps += 1
        self.stats.state_s += state.seconds
        run.live.steps += 1
        if run.pending is not None:
            values = state.model_dump(mode="json")
            run.steps.append(Step(interaction_id=run.pending, state=values))

    async def _ask(self, client: AsyncOpenAI, run: _Run, step: int) -> dict[str, Any]:
        """A main turn. Its request is also the next state of the turn before."""
        more = {
            "temperature": self._sampling.temperature,
            "max_tokens": self._sampling.max_tokens,
            "seed": (run.seed + step) % 2**31,
        }
        answer = await self._send(client, run, {}, more)
        run.pending = answer.id
        return answer.choices[0].message.model_dump(exclude_none=True)

    async def _say_last(self, client: AsyncOpenAI, run: _Run) -> None:
        """Deliver the last next state; nobody reads the reply to it, hence one token."""
        await self._send(client, run, {"X-Session-Done": "true"}, {"max_tokens": 1})

    async def _send(
        self, client: AsyncOpenAI, run: _Run, headers: dict[str, str], more: dict[str, Any]
    ) -> Any:
        request: dict[str, Any] = {
            "model": self._model_name,
            "messages": list(run.messages),
            "extra_headers": {
                "X-Session-Id": run.live.session_id,
                "X-Turn-Type": "main",
                "X-Clawrl-Driven": "1",
                **headers,
            },
            **more,
        }
        if run.tools is not None:
            request["tools"] = run.tools
        answer = await client.chat.completions.create(**request)
        run.pending = None
        return answer

    def _count(self, ended: _End, reward: float | None) -> None:
        if ended == "lost":
            self.stats.lost += 1
        elif ended == "failed":
            self.stats.failed += 1
        elif reward is None:
            self.stats.ungraded += 1
        else:
            self.stats.graded += 1
            self.stats.solved += reward


def _action(message: dict[str, Any]) -> Action:
    calls = [call["function"] | {"id": call["id"]} for call in message.get("tool_calls") or ()]
    return Action(
        text=message.get("content") or "",
        calls=tuple(
            ToolCall(name=call["name"], arguments=call["arguments"], call_id=call["id"])
            for call in calls
        ),
    )


def _answers(message: dict[str, Any], text: str) -> list[dict[str, Any]]:
    """The next state as messages: one for each call that the reply made, else a user's."""
    calls = message.get("tool_calls") or ()
    if not calls:
        return [{"role": "user", "content": text}]
    return [{"role": "tool", "tool_call_id": call["id"], "content": text} for call in calls]


def _reason(error: OpenAIError) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
