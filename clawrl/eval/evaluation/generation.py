"""The record of one measured reply: what the model said and what it scored."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from clawrl.records.nouns import Line

Status = Literal["ok", "truncated", "refused", "unparsable", "empty", "error"]
"""How a reply ended: only `ok` and `truncated` can be right; the others are counted apart."""


class Generation(Line):
    """One draw for one item: what the model said and what it scored. Nothing else is derived."""

    item_id: str
    sample: int
    """Which of the item's draws, from 0."""
    seed: int
    question: str
    answer: str
    text: str
    finish_reason: str | None = None
    tokens: int = 0
    status: Status = "ok"
    parsed: str | None = None
    """The answer that was read out of the text; None: there was none to read."""
    scores: dict[str, float] = Field(default_factory=dict)
    """By name, each 0 to 1; the task's `metric` is one of them."""
    problem: str | None = None
    """Why there is no reply, where `status` is `error`."""
