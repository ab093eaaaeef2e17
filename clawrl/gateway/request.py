"""One chat completion as the client asked for it, and as the engine is asked for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from clawrl.gateway.errors import ApiError
from clawrl.gateway.resolving.marks import OWN_FIELDS, Marks, read_marks
from clawrl.gateway.resolving.normal import Said, normalised
from clawrl.gateway.resolving.rules import Rules
from clawrl.gateway.resolving.trail import Trail, trail_of
from clawrl.records.nouns import Sampling

# What leaves the drawing of tokens as the learner repeats it: softmax(logits / temperature) over
# the whole vocabulary. Any other value is served as asked and not trained on.
_NEUTRAL: dict[str, tuple[object, ...]] = {
    "top_p": (1,),
    "top_k": (0, -1),
    "min_p": (0,),
    "frequency_penalty": (0,),
    "presence_penalty": (0,),
    "repetition_penalty": (1,),
    "logit_bias": ({},),
    "min_tokens": (0,),
    "bad_words": ([],),
    "allowed_token_ids": (),
    "use_beam_search": (False,),
    "response_format": ({"type": "text"},),
    "structured_outputs": (),
    "tool_choice": ("auto", "none"),
}
_FORMS = ("response_format", "structured_outputs", "tool_choice")
"""Of these, what says what a reply must look like."""
_COLDEST = 0.01
"""vLLM draws at this temperature when a lower one, but not 0, is asked for."""
_GUIDED = "guided_"
DRIVEN = "x-clawrl-driven"
"""Header of the requests that clawrl itself drives."""


class ChatBody(BaseModel):
    """The keys of a request that the gateway reads; all others go to the engine unseen."""

    model_config = ConfigDict(extra="allow", frozen=True)

    messages: list[dict[str, Any]] = Field(min_length=1)
    tools: list[dict[str, Any]] | None = None
    stream: bool | None = None
    stream_options: dict[str, Any] | None = None
    n: int | None = None
    temperature: float | None = Field(default=None, ge=0)
    top_p: float | None = None
    top_k: int | None = None
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    seed: int | None = None
    chat_template_kwargs: dict[str, Any] | None = None
    logprobs: bool | None = None
    return_token_ids: bool | None = None


@dataclass(frozen=True, slots=True)
class Ask:
    """A checked request."""

    marks: Marks
    said: list[Said]
    """The messages, normalised."""
    trail: Trail
    user: str | None
    """Whose key it was sent with."""
    messages: list[dict[str, Any]]
    tools: list[dict[str, Any]] | None
    template_kwargs: dict[str, Any]
    sampling: Sampling
    engine_body: dict[str, Any]
    """What the engine gets: ours stripped, defaults written out."""
    stream: bool
    wants_usage: bool
    """The client asked for usage in its stream."""
    wants_logprobs: bool
    wants_ids: bool
    driven: bool
    """clawrl's own persona or environment asks: the turn waits for room before it is sent."""
    route: Literal["chat", "responses"]
    untrainable: str | None
    """What about the sampling keeps the reply from being a sample."""


def read_ask(
    headers: Mapping[str, str],
    body: dict[str, Any],
    *,
    template_kwargs: Mapping[str, Any],
    rules: Rules,
    user: str | None = None,
    override: float | None = None,
    marked: Mapping[str, Any] | None = None,
) -> Ask:
    """Check a request.

    Args:
        headers: looked up in lower case.
        body: the request's JSON object.
        template_kwargs: the policy's own arguments of the chat template; the request's come on top.
        rules: how clients' requests are read.
        user: whose key it was sent with.
        override: draw at this temperature, over the whole vocabulary, instead of as asked where
            the reply could not be learned from; None: as asked.
        marked: the body as the client sent it, where `body` was translated from `/v1/responses`.

    Raises:
        ApiError: 400, with the name of the key that is wrong.
    """
    if override is not None:
        body = _within_support(body, override)
    asked = _validated(body)
    marks = read_marks(headers, body if marked is None else marked, asked.messages, rules)
    driven = headers.get(DRIVEN) == "1" and marks.turn_type != "side"
    if driven:  # its own turns are real work, whatever they talk about
        marks = replace(marks, turn_type="main")
    said = normalised(asked.messages, rules)
    trail = trail_of(said, user, rules)
    may_be_main = marks.turn_type == "main" or (marks.turn_type is None and not trail.errand)
    if may_be_main and asked.n not in (None, 1):
        raise ApiError(
            400, "n must be 1 on a main turn: only one reply can get the next state", param="n"
        )
    longest = asked.max_completion_tokens  # OpenAI's newer name goes before the older one
    merged = {**template_kwargs, **(asked.chat_template_kwargs or {})}
    sampling = Sampling(
        temperature=1.0 if asked.temperature is None else asked.temperature,
        top_p=1.0 if asked.top_p is None else asked.top_p,
        top_k=max(0, asked.top_k or 0),
        max_tokens=asked.max_tokens if longest is None else longest,
        seed=asked.seed,
    )
    return Ask(
        marks=marks,
        said=said,
        trail=trail,
        user=user,
        messages=asked.messages,
        tools=asked.tools or None,
        template_kwargs=merged,
        sampling=sampling,
        engine_body=_engine_body(body, asked, sampling, merged),
        stream=bool(asked.stream),
        wants_usage=bool((asked.stream_options or {}).get("include_usage")),
        wants_logprobs=bool(asked.logprobs),
        wants_ids=bool(asked.return_token_ids),
        driven=driven and not marks.done,
        route="chat" if marked is None else "responses",
        untrainable=_untrainable(body, sampling),
    )


def _validated(body: dict[str, Any]) -> ChatBody:
    try:
        asked = ChatBody.model_validate(body)
    except ValidationError as error:
        first = error.errors()[0]
        param = ".".join(str(part) for part in first["loc"])
        raise ApiError(400, f"{param}: {first['msg']}", param=param) from None
    for index, message in enumerate(asked.messages):
        if not isinstance(message.get("role"), str):
            raise ApiError(400, f"messages.{index}.role is missing", param=f"messages.{index}.role")
    return asked


def _engine_body(
    body: dict[str, Any], asked: ChatBody, sampling: Sampling, template_kwargs: dict[str, Any]
) -> dict[str, Any]:
    ours = {*OWN_FIELDS, "max_completion_tokens", "stream_options"}
    forwarded = {key: value for key, value in body.items() if key not in ours}
    forwarded["temperature"] = sampling.temperature
    if sampling.max_tokens is not None:
        forwarded["max_tokens"] = sampling.max_tokens
    if template_kwargs:
        forwarded["chat_template_kwargs"] = template_kwargs
    forwarded["stream"] = bool(asked.stream)
    if asked.stream:
        forwarded["stream_options"] = {**(asked.stream_options or {}), "include_usage": True}
    return forwarded


def _within_support(body: dict[str, Any], temperature: float) -> dict[str, Any]:
    """The body without what cuts the vocabulary; what a reply must look like stays as asked."""
    kept = {key: value for key, value in body.items() if key not in _NEUTRAL or key in _FORMS}
    asked = body.get("temperature")
    if isinstance(asked, (int, float)) and asked < _COLDEST:
        kept["temperature"] = temperature
    return kept


def _untrainable(body: dict[str, Any], sampling: Sampling) -> str | None:
    if sampling.temperature < _COLDEST:
        return "sampling:temperature"
    for name, neutral in _NEUTRAL.items():
        if body.get(name) is not None and body[name] not in neutral:
            return f"sampling:{name}"
    guided = (name for name in body if name.startswith(_GUIDED) and body[name] is not None)
    return next((f"sampling:{name}" for name in guided), None)
