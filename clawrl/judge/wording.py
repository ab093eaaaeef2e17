"""Rewrites a user's corrective clause, as little as possible, into an instruction. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable

from clawrl.judge.votes import MIN_HINT_CHARS

MAX_SENTENCES = 3
MAX_HINT_CHARS = 400

_OPENING = re.compile(
    r"^(?:(?:nope|nah|hm+|ugh+|hey|hi|hello|ok(?:ay)?|oh|well|so|um+|uh|sorry|thanks(?: a lot)?|"
    r"thank you|great|cool|and|also|but|please|pls|plz|just|actually|alright|yeah|yes|lol|man|dude|"
    r"bro|look|listen|honestly|again|maybe|perhaps|anyway|wait)\b[\s,!.:]*|(?:no|good|nice)[,!.:]+\s*)+",
    re.IGNORECASE,
)
_CLOSING = re.compile(
    r"(?:[\s,]+(?:please|pls|plz|ok(?:ay)?|thanks|thank you|thx|lol|will you|would you|could you|"
    r"can you|maybe|if possible|if you can|right|man|dude|bro|tho|though))*"
    r"[\s.!?,…\u3002\uff01\uff1f\uff0c]*$",
    re.IGNORECASE,
)
_MODAL = r"(?:can|could|would|will|can't|couldn't)"
_SOFTENED = r"(?:please |maybe |just |perhaps )*"
_FRAMES: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), plain)
    for pattern, plain in (
        (rf"^{_MODAL} (?:you|u|we) {_SOFTENED}not ", "do not "),
        (rf"^{_MODAL} (?:you|u|we) {_SOFTENED}(?!mind\b)", ""),
        (r"^why (?:don't|not|didn't) (?:you )?(?:just )?", ""),
        (r"^why (?:did|do) (?:you|u) (?:always |even )?", "do not "),
        (r"^did (?:you|u) (?:even |actually |really |ever )+", ""),
        (r"^(?:i need|i want|i'd like|i would like|i'd prefer) (?:you|u) to ", ""),
        (r"^i'd rather (?:you|u) (?:didn't|did not|don't) ", "do not "),
        (r"^(?:you|u) (?:should|need to|have to|must|might want to) (?!have\b|be able\b)", ""),
        (r"^(?:you|u) (?:shouldn't|should not|don't need to|needn't) (?!have\b)", "do not "),
        (r"^(?:be sure|make sure|remember|try) to ", ""),
        (r"^(?:rewrite|redo|reword|rephrase) (?:it|this|that|the reply)\b", "write the reply"),
        (r"^(?:请|麻烦|能不能|可不可以|可以|能)+(?:请|帮我)?", ""),
        (r"(?:吗|呢|好吗|行吗|可以吗)$", ""),
        (r"^(make|keep|write|phrase|word|cut|trim|shorten|put|say|simplify) (?:it|this|that)\b",
         r"\1 the reply"),
    )
)  # fmt: skip
_SAYS_NOTHING = re.compile(
    r"^(?:stop|undo|redo|retry|revert|rewrite|reword|rephrase|again|(?:try|do it) again|"
    r"one more time|once more|regenerate|do better|重新?(?:写|来|做|算))$",
    re.IGNORECASE,
)


def instruction(clause: str) -> str:
    """The clause as one instruction sentence: without greeting, request form and politeness.

    The user's first person stays: the hint stands in the user's own message.
    """
    text = _CLOSING.sub("", _OPENING.sub("", clause.strip()))
    for frame, plain in _FRAMES:
        text = _OPENING.sub("", frame.sub(plain, text))
    if not text or _SAYS_NOTHING.match(text):
        return ""
    text = text[0].upper() + text[1:]
    if re.search(r"[\u4e00-\u9fff]", text):
        text = text.rstrip("\uff0c\u3001\u3002")
        return (
            f"{text}\u3002"
            if len(text) > MIN_HINT_CHARS
            else f"请按这个要求改回答\uff1a{text}\u3002"
        )
    return f"{text}." if len(text) >= MIN_HINT_CHARS else f"Change the reply like this: {text}."


def reminder(clause: str) -> str:
    """The clause as something to keep in mind: what the user said of themselves or the matter."""
    text = instruction(clause)
    if not text or text.startswith(("Change the reply", "请按")):
        text = clause.strip().rstrip(".!,\u3002\uff01\uff0c")
        chinese = re.search(r"[\u4e00-\u9fff]", text)
        return f"请考虑到\uff1a{text}\u3002" if chinese else f"Keep this in mind: {text}."
    return text


def joined(sentences: Iterable[str]) -> str | None:
    """Up to three different sentences as one hint; None where there are none."""
    kept: list[str] = []
    for sentence in sentences:
        fits = sum(map(len, kept)) + len(sentence) <= MAX_HINT_CHARS or not kept
        if sentence and sentence not in kept and fits:
            kept.append(sentence[:MAX_HINT_CHARS])
    return " ".join(kept[:MAX_SENTENCES]) or None
