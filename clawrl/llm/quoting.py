r"""Other people's text inside a prompt, and what a model's `\boxed{}` answer to that prompt says.

For all that asks a model about a reply: the LLM judge, and the personas that score. Invariant:
quoted text can neither close the part of the prompt that it stands in nor open another one.
"""

from __future__ import annotations

import re

PART_CHARS = 12_000
"""Longest text of one part of a prompt; of a longer one the middle is left out."""

_TAG = re.compile(r"<(\s*/?\s*(?:request|reply|next_state)\b|\|)", re.IGNORECASE)
"""A prompt's own tags, and what chat templates mark turns with (`<|im_end|>`)."""
_BOXED = re.compile(r"\\boxed\s*\{\s*([^{}]*?)\s*\}")
_THOUGHT = re.compile(r"<think>.*?(?:</think>|\Z)", re.DOTALL)


def as_data(text: str) -> str:
    """Text that cannot close or open a tag or a turn, its middle left out where too long."""
    if len(text) > PART_CHARS:
        half = PART_CHARS // 2
        text = (
            f"{text[:half]}\n[... {len(text) - 2 * half} characters left out ...]\n{text[-half:]}"
        )
    return _TAG.sub(r"&lt;\1", text)


def last_boxed(answer: str) -> str | None:
    r"""What stands in the last `\boxed{}` outside the thinking; None where there is no box."""
    boxed = _BOXED.findall(without_thought(answer))
    return boxed[-1].replace("\N{MINUS SIGN}", "-").replace(" ", "") if boxed else None


def without_thought(answer: str) -> str:
    """Drop the reasoning, also one that was cut before its end or whose start was in the prompt."""
    return _THOUGHT.sub("", answer).rpartition("</think>")[2]
