"""One turn from request to record: the engine in, the client out, and what is kept on the way."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any

from clawrl.errors import EngineError, RequestError
from clawrl.gateway.capture import CallIds, Capture, View
from clawrl.gateway.redaction import Redactor
from clawrl.gateway.request import Ask
from clawrl.gateway.tracker import SessionTracker, TurnPosition
from clawrl.protocols import Engine
from clawrl.records.nouns import Interaction, Usage, Weights
from clawrl.records.writer import RecordWriter
from clawrl.serving.admission import AdmissionClosed
from clawrl.serving.policy import ServedPolicy

Show = Callable[[dict[str, Any]], Awaitable[None]]
Exchange = tuple[list[dict[str, Any]], dict[str, Any], list[str]]
OnEnd = Callable[[list[dict[str, Any]], dict[str, Any]], None]


@dataclass(frozen=True, slots=True)
class Services:
    """What every turn needs."""

    engine: Engine
    served: ServedPolicy
    writer: RecordWriter
    tracker: SessionTracker
    model_name: str
    record_wait_s: float
    redactor: Redactor | None
    """For live users' turns; None: everything is recorded as it is."""


class Turn:
    """Serves one request. `stream` or `complete` is called once, and records what was served."""

    def __init__(self, ask: Ask, services: Services) -> None:
        """Take the request in; the turn it answers gets its next state here."""
        self.interaction_id = f"chatcmpl-{uuid.uuid4().hex[:24]}"
        self._ask = ask
        self._services = services
        self._created = time.time()
        self._started = time.perf_counter()
        self._first_token_s: float | None = None
        self._capture = Capture()
        self._call_ids = CallIds()
        self._shown = False
        self._filed = False
        self._stands = False
        self._first_version: int | None = None  # None: not yet sent to the engine
        self._last_version = 0
        self._digest = ""
        self._arrival = services.tracker.arrive(ask)
        self._left = False
        self._on_end: OnEnd | None = None
        self._redacted: Exchange | None = None
        self._view = View(
            interaction_id=self.interaction_id,
            model_name=services.model_name,
            logprobs=ask.wants_logprobs,
            ids=ask.wants_ids,
            usage=ask.wants_usage or not ask.stream,
        )

    @property
    def headers(self) -> dict[str, str]:
        """What the client may want to know of its turn, beside the answer."""
        headers = {
            "x-clawrl-interaction-id": self.interaction_id,
            "x-clawrl-turn": self._arrival.placement.turn_type,
        }
        reason = self._untrainable()
        return {**headers, "x-clawrl-untrainable": reason} if reason else headers

    def on_end(self, told: OnEnd) -> None:
        """Have `told` called with the request's messages and the reply, once it is whole."""
        self._on_end = told

    async def stream(self, show: Show) -> None:
        """Pass the reply on chunk by chunk; the last ones wait until the turn is recorded.

        Args:
            show: sends one chunk to the client.

        Raises:
            EngineError: the engine failed; chunks may have been shown.
            asyncio.CancelledError: the client left. What it got is recorded, the engine stops.
        """
        with self._ending_early():
            held = await self._pass_on(show)
            await self._record_in_time()
        for chunk in held:
            await show(chunk)
        self._leave()

    async def complete(self) -> dict[str, Any]:
        """The whole reply, when the turn is recorded. Raises as `stream`."""
        with self._ending_early():
            await self._send_off()
            completion = self._call_ids.mint(
                await self._services.engine.chat(self._ask.engine_body)
            )
            self._capture.add_completion(completion)
            self._last_version = self._services.served.version
            await self._record_in_time()
        self._leave()
        return self._view.completion(completion)

    async def _pass_on(self, show: Show) -> list[dict[str, Any]]:
        """Show chunks as they come; return those from the finish reason on."""
        await self._send_off()
        held: list[dict[str, Any]] = []
        chunks = self._services.engine.chat_stream(self._ask.engine_body)
        async with _closing(chunks):
            async for raw in chunks:
                chunk = self._call_ids.mint(raw)
                self._take(chunk)
                visible = self._view.chunk(chunk)
                if visible is None:
                    continue
                if self._capture.finish_reason is not None:
                    held.append(visible)
                    continue
                self._shown = True
                await show(visible)
        if self._capture.finish_reason is None:
            raise EngineError("the reply ended without a finish reason")
        return held

    async def _send_off(self) -> None:
        """Wait for room and for weights, then note the version that draws the first token."""
        served, admission = self._services.served, self._services.tracker.admission
        if admission is not None and self._ask.driven:
            try:
                await admission.admit(self.interaction_id)
            except AdmissionClosed:
                raise EngineError("the run is ending: no more turns are taken") from None
        while served.changing:
            await served.wait_ready()
        self._first_version, self._digest = served.version, served.digest
        self._last_version = served.version

    def _take(self, chunk: dict[str, Any]) -> None:
        self._capture.add_chunk(chunk)
        self._last_version = self._services.served.version
        if self._first_token_s is None and self._capture.reply_ids:
            self._first_token_s = time.perf_counter() - self._started

    async def _record_in_time(self) -> None:
        """Write the record; if that takes too long the turn is served all the same, not trained."""
        services = self._services
        await asyncio.to_thread(self._redact)
        record = self._file(self._capture.problem(), stands=True)
        late = record.model_copy(update={"untrainable": record.untrainable or "not_recorded"})
        if not await services.writer.written(record, services.record_wait_s, late=late):
            services.tracker.counters.not_recorded += 1
            services.tracker.amend(self._arrival.session, late)

    @contextmanager
    def _ending_early(self) -> Generator[None]:
        """Record what was served of a turn that does not end by itself."""
        tracker = self._services.tracker
        counters = tracker.counters
        try:
            yield
        except asyncio.CancelledError:
            counters.cut_by_client += 1
            if self._first_version is not None and not self._filed:
                # A client may go on from half a reply, but only if it saw some of it.
                self._services.writer.put(self._file("cut_by_client", stands=self._shown))
            raise
        except RequestError:
            raise
        except EngineError:
            counters.failed += 1
            if self._shown:
                self._services.writer.put(self._file("engine_failed", stands=False))
            raise
        finally:
            if not self._stands:
                tracker.give_up(self.interaction_id)
                self._leave()

    def _file(self, problem: str | None, *, stands: bool) -> Interaction:
        """Make the record and enter it into its session.

        Args:
            problem: why the reply cannot be trained on; what the request itself says goes first.
            stands: the client has the reply and may go on from it.
        """
        self._filed, self._stands = True, stands
        tracker = self._services.tracker
        position = tracker.position(self._arrival, self._ask, stands=stands)
        record = self._record(position, self._untrainable() or problem)
        if self._on_end is not None and self._capture.finish_reason is not None:
            self._on_end(self._ask.messages, self._capture.reply)
        if stands:
            tracker.answered(self._arrival, self._ask, record, self._capture.reply)
        return record

    def _redact(self) -> Exchange:
        """Messages and reply as they may be recorded, and the kinds of what was blanked."""
        if self._redacted is None:
            messages, reply, kinds = self._ask.messages, self._capture.reply, list[str]()
            if self._services.redactor is not None and not self._ask.driven:
                asked = self._services.redactor.redact(messages)
                told = self._services.redactor.redact(reply)
                messages, reply = asked.value, told.value
                kinds = sorted({*asked.kinds, *told.kinds})
            self._redacted = (messages, reply, kinds)
        return self._redacted

    def _untrainable(self) -> str | None:
        """Why the reply can never be a sample, as far as is known before there is one."""
        placement = self._arrival.placement
        if placement.turn_type == "side":
            return "side_turn"
        if self._ask.marks.done:
            return "session_done"
        return placement.problem or self._ask.untrainable

    def _leave(self) -> None:
        if not self._left:
            self._left = True
            self._services.tracker.leave(self._arrival, self._ask)

    def _record(self, position: TurnPosition, untrainable: str | None) -> Interaction:
        capture, ask, placement = self._capture, self._ask, self._arrival.placement
        messages, reply, redacted = self._redact()
        exact = not redacted  # ids spell out what the words no longer say
        return Interaction(
            interaction_id=self.interaction_id,
            session_id=placement.session.session_id,
            turn=position.turn,
            turn_type=placement.turn_type,
            created=self._created,
            messages=messages,
            tools=ask.tools,
            template_kwargs=ask.template_kwargs,
            sampling=ask.sampling,
            reply=reply,
            prompt_ids=(capture.prompt_ids or None) if exact else None,
            reply_ids=(capture.reply_ids or None) if exact else None,
            behaviour_logp=(capture.logp or None) if exact else None,
            finish_reason=capture.finish_reason,
            weights=Weights(
                version_first=self._first_version or 0,
                version_last=self._last_version,
                digest=self._digest,
            ),
            usage=capture.usage or Usage(),
            first_token_s=self._first_token_s,
            latency_s=time.perf_counter() - self._started,
            untrainable=untrainable or (None if exact else "redacted"),
            redacted=redacted,
            replaces=position.replaces,
            user=ask.user,
            kind=placement.kind,
            placed_by=placement.placed_by,
            route=ask.route,
            live=not ask.driven,
        )


@asynccontextmanager
async def _closing(chunks: AsyncIterator[dict[str, Any]]) -> AsyncGenerator[None]:
    """Close the engine's stream however its reading ends: an open one keeps the engine busy."""
    try:
        yield
    finally:
        if isinstance(chunks, AsyncGenerator):
            await chunks.aclose()
