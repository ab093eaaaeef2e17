"""What the next update pushes up and down: each token of a reply with its advantage."""

from __future__ import annotations

import html
from collections.abc import Callable

from clawrl.config import schema
from clawrl.protocols import Engine
from clawrl.records.nouns import Sample

_UP, _DOWN = "0,114,178", "213,94,0"
_STRONGEST = 0.7

Coloured = list[tuple[str, float | None]]


async def coloured(
    sample: Sample,
    *,
    engine: Engine,
    objective: schema.Objective,
    decode: Callable[[int], str],
) -> Coloured:
    """A reply's tokens, each with its advantage under the weights that are served now.

    The score moves all tokens alike; the hint moves each by how much likelier it is to a model that
    has read the hint (log-ratio in nats, clipped as in training).

    Args:
        sample: an accepted one.
        engine: scores the reply after the prompt, with and without the hint.
        objective: the weights of the two signals.
        decode: one id as text.

    Raises:
        EngineError: the engine does not score.
    """
    scalar = objective.w_binary * (sample.score or 0)
    hinted = [0.0] * len(sample.reply_ids)
    if sample.hinted_prompt_ids is not None:
        plain = await engine.score(sample.prompt_ids, sample.reply_ids)
        told = await engine.score(sample.hinted_prompt_ids, sample.reply_ids)
        limit = objective.opd_clip
        hinted = [
            max(-limit, min(limit, b - a)) if limit else b - a
            for a, b in zip(plain, told, strict=True)
        ]
    return [
        (decode(token), scalar + objective.w_opd * ratio)
        for token, ratio in zip(sample.reply_ids, hinted, strict=True)
    ]


def painted(tokens: Coloured) -> str:
    """The tokens as HTML, the strongest advantage in the strongest colour; the text is escaped."""
    most = max((abs(value) for _, value in tokens if value is not None), default=0.0) or 1.0
    spans = "".join(_span(one, most) for one in tokens)
    return f"<div style='line-height:2;white-space:pre-wrap'>{spans}</div>"


def _span(token: tuple[str, float | None], most: float) -> str:
    text, value = token
    if value is None:
        return html.escape(text)
    colour = _UP if value > 0 else _DOWN
    style = f"background:rgba({colour},{abs(value) / most * _STRONGEST:.2f})"
    return f"<span style='{style}' title='{value:+.3f}'>{html.escape(text)}</span>"
