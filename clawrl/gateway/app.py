"""The gateway as an ASGI application: an OpenAI-compatible server that keeps what it serves."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.types import ASGIApp

from clawrl.config import schema
from clawrl.gateway.access import AccessCheck
from clawrl.gateway.errors import ApiError
from clawrl.gateway.feedback import read_feedback
from clawrl.gateway.redaction import Redactor
from clawrl.gateway.request import read_ask
from clawrl.gateway.resolving.rules import Rules, load_rules
from clawrl.gateway.resolving.sessions import Sessions
from clawrl.gateway.respond import TurnResponse
from clawrl.gateway.responses.asked import to_chat
from clawrl.gateway.responses.remembered import RememberedResponses
from clawrl.gateway.responses.told import ResponseTeller
from clawrl.gateway.tracker import Counters, SessionTracker
from clawrl.gateway.turn import Services, Turn
from clawrl.gateway.wire import ChatWire, ResponsesWire
from clawrl.protocols import Engine
from clawrl.records.nouns import Feedback, Interaction
from clawrl.records.writer import RecordWriter
from clawrl.serving.admission import Admission
from clawrl.serving.policy import ServedPolicy


def create_app(
    *,
    engine: Engine,
    served: ServedPolicy,
    writer: RecordWriter,
    config: schema.Gateway,
    model_name: str,
    template_kwargs: dict[str, Any],
    temperature: float,
    on_feedback: Callable[[Interaction, Feedback], None],
    admission: Admission | None = None,
    earlier: Iterable[tuple[Interaction, bool]] = (),
    page: ASGIApp | None = None,
) -> Starlette:
    """Build the gateway.

    Args:
        engine: what replies.
        served: the version in service; requests wait while it changes.
        writer: takes interactions and feedback.
        config: host, key and limits.
        model_name: what `/v1/models` lists; requests may name any model and get this one.
        template_kwargs: the policy's own arguments of the chat template.
        temperature: of replies whose own one is overridden.
        on_feedback: called in the event loop, once for each main turn that got its next state. It
            must return at once and not raise.
        earlier: turns of an earlier life of this gateway, in order, each with whether it can still
            get its next state: their sessions go on.
        page: what people see under `/ui`; it checks its requests itself.
        admission: where turns that clawrl drives wait for room; live users never do.

    Returns:
        The application. `app.state.counters` are its Counters, `app.state.sessions` its Sessions,
        `app.state.tracker` its SessionTracker.
    """
    sessions = Sessions(config.session_idle_s, config.max_sessions)
    redactor = Redactor() if config.redact else None
    tracker = SessionTracker(sessions, writer, on_feedback, admission, redactor)
    rules = load_rules(config.rules)
    for interaction, waits in earlier:
        tracker.restore(interaction, rules, waits=waits)
    services = Services(
        engine=engine,
        served=served,
        writer=writer,
        tracker=tracker,
        model_name=model_name,
        record_wait_s=config.record_wait_ms / 1000,
        redactor=redactor,
    )
    endpoints = _Endpoints(
        services,
        AccessCheck(config),
        template_kwargs,
        rules,
        max_requests=config.max_requests,
        override=temperature if config.sampling == "override" else None,
    )
    app = Starlette(
        routes=[
            Route("/v1/chat/completions", endpoints.chat, methods=["POST"]),
            Route("/v1/responses", endpoints.responses, methods=["POST"]),
            Route("/v1/feedback", endpoints.feedback, methods=["POST"]),
            Route("/v1/models", endpoints.models, methods=["GET"]),
            Route("/healthz", endpoints.health, methods=["GET"]),
            *([Mount("/ui", app=page)] if page is not None else []),
        ],
        exception_handlers={
            ApiError: _refused,
            HTTPException: _no_such_route,
            Exception: _broken,
        },
    )
    app.state.counters = tracker.counters
    app.state.sessions = tracker.sessions
    app.state.tracker = tracker
    return app


class _Endpoints:
    def __init__(
        self,
        services: Services,
        access: AccessCheck,
        template_kwargs: dict[str, Any],
        rules: Rules,
        *,
        max_requests: int,
        override: float | None,
    ) -> None:
        self._services = services
        self._access = access
        self._template_kwargs = template_kwargs
        self._rules = rules
        self._max_requests = max_requests
        self._override = override
        self._remembered = RememberedResponses()
        self._started = int(time.time())

    async def chat(self, request: Request) -> ASGIApp:
        user, body = await self._asked(request)
        turn = self._turn(request, body, user)
        return TurnResponse(turn, ChatWire(), stream=bool(body.get("stream")))

    async def responses(self, request: Request) -> ASGIApp:
        user, body = await self._asked(request)
        before = self._remembered.history(body.get("previous_response_id"), user)
        asked = to_chat(body, before)
        asked.chat["stream_options"] = {"include_usage": True}
        turn = self._turn(request, asked.chat, user, marked=body)
        name = turn.interaction_id.replace("chatcmpl-", "resp_")
        turn.on_end(lambda messages, reply: self._remembered.keep(name, user, messages, reply))
        teller = ResponseTeller(asked, name, self._services.model_name)
        return TurnResponse(turn, ResponsesWire(teller), stream=bool(body.get("stream")))

    async def feedback(self, request: Request) -> Response:
        user, body = await self._asked(request)
        asked = read_feedback(body)
        given = self._services.tracker.rate(
            user,
            asked.rating,
            asked.text,
            interaction_id=asked.interaction_id,
            session_id=asked.session_id,
        )
        return JSONResponse({"interaction_id": given.interaction_id, "object": "feedback"})

    async def _asked(self, request: Request) -> tuple[str | None, dict[str, Any]]:
        """Whose request it is, and its body, when it was checked."""
        self._access.check_origin(request.headers)
        user = self._access.check_key(request.headers)
        return user, await self._access.read_json(request)

    def _turn(
        self,
        request: Request,
        body: dict[str, Any],
        user: str | None,
        marked: dict[str, Any] | None = None,
    ) -> Turn:
        ask = read_ask(
            request.headers,
            body,
            template_kwargs=self._template_kwargs,
            rules=self._rules,
            user=user,
            override=self._override,
            marked=marked,
        )
        if self._services.tracker.running >= self._max_requests and not ask.driven:
            raise ApiError(
                429,
                f"{self._max_requests} requests are being answered (gateway.max_requests): come "
                "again in a moment",
                kind="rate_limit_error",
                code="too_many_requests",
                headers={"retry-after": "1"},
            )
        return Turn(ask, self._services)

    async def models(self, request: Request) -> Response:
        self._access.check_origin(request.headers)
        self._access.check_key(request.headers)
        model = {
            "id": self._services.model_name,
            "object": "model",
            "created": self._started,
            "owned_by": "clawrl",
        }
        return JSONResponse({"object": "list", "data": [model]})

    async def health(self, request: Request) -> Response:
        self._access.check_origin(request.headers)
        served, writer, tracker = (
            self._services.served,
            self._services.writer,
            self._services.tracker,
        )
        counters: Counters = tracker.counters
        healthy = served.changing or await self._services.engine.health()
        state = {
            "status": "ok" if healthy else "engine_down",
            "version": served.version,
            "changing": served.changing,
            "sessions": len(tracker.sessions),
            "records_waiting": writer.waiting,
            "records_dropped": writer.dropped,
            **counters.as_dict(),
        }
        return JSONResponse(state, status_code=200 if healthy else 503)


async def _refused(request: Request, error: Exception) -> Response:
    if not isinstance(error, ApiError):
        raise error
    return error.response()


async def _no_such_route(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    where = f"{request.method} {request.url.path}"
    return ApiError(status, f"{where}: not served here", code="unknown_url").response()


async def _broken(request: Request, error: Exception) -> Response:
    return ApiError(500, "the gateway failed", kind="server_error").response()
