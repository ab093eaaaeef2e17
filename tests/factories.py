"""Records for tests: valid by default, each field open to be changed."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from clawrl.eval.personalization.measurement import MeasuredReply, Measurement
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


def make_measurement(version: int, scores: Sequence[float], **changes: Any) -> Measurement:
    """One reply with each score to problems p0, p1, ...; the rule passes from 0.5 on."""
    replies = [
        MeasuredReply(
            problem_id=f"p{number}",
            question="What is 12 + 7?",
            answer="19",
            repeat=0,
            seed=number,
            text="It is 19.",
            finish_reason="stop",
            tokens=4,
            checks={"plain": score >= 0.5},
            score=score,
            reference_rule=score >= 0.5,
            distinct_bigrams=1.0,
            final_number=True,
            correct=True,
        )
        for number, score in enumerate(scores)
    ]
    fields: dict[str, Any] = {
        "version": version,
        "taste": "student",
        "metric": "naturalness",
        "wants": {"plain": "no list and no bold text"},
        "temperature": 0.7,
        "max_tokens": 128,
        "replies": replies,
    }
    return Measurement(**(fields | changes))
