"""Records for tests: valid by default, each field open to be changed."""

from __future__ import annotations

import itertools
from typing import Any

from clawrl.records.nouns import Feedback, Interaction, Sampling, Usage, Weights

_numbers = itertools.count(1)


def make_interaction(**changes: Any) -> Interaction:
    """A trainable main turn of two reply tokens; every call has an id of its own."""
    number = next(_numbers)
    fields: dict[str, Any] = {
        "interaction_id": f"chatcmpl-{number:024x}",
        "session_id": f"session-{number}",
        "turn": 0,
        "turn_type": "main",
        "created": 1_700_000_000.0 + number,
        "messages": [{"role": "user", "content": "What is 12 + 7?"}],
        "sampling": Sampling(max_tokens=16),
        "reply": {"role": "assistant", "content": "It is 19."},
        "prompt_ids": [1, 2, 3],
        "reply_ids": [4, 5],
        "behaviour_logp": [-0.5, -1.5],
        "finish_reason": "stop",
        "weights": Weights(version_first=0, version_last=0, digest="d0"),
        "usage": Usage(prompt_tokens=3, completion_tokens=2),
    }
    return Interaction(**(fields | changes))


def make_feedback(interaction: Interaction | None = None, **changes: Any) -> Feedback:
    """What a user answers to `interaction`, or to one made for it."""
    about = interaction or make_interaction()
    fields: dict[str, Any] = {
        "interaction_id": about.interaction_id,
        "session_id": about.session_id,
        "created": about.created + 1.0,
        "role": "user",
        "content": "Please write it without the list.",
    }
    return Feedback(**(fields | changes))
