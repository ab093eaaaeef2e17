"""Takes a next state apart: what is machine output, and the clauses of what the person wrote.

One clause holds one thought, so that "thanks, but too long. And what is 5% of 80?" is read as
thanks, a complaint, and a new question. Pure.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

MAX_CLAUSES = 40
MAX_CLAUSE_CHARS = 400
"""Longer texts are pasted material, not a reaction; what is beyond is not read."""
TASK_WORDS = 8
"""A shorter clause is a reaction even with numbers in it: "so is it 24 or 42?"."""

_FENCE = re.compile(r"```[^\n]*\n(.*?)(?:```|\Z)", re.DOTALL)
_TRACE = re.compile(
    r"Traceback \(most recent call last\).*|^[\w.]*(?:Error|Exception): [^\n]*"
    r"|^(?:(?:ba|z|fi)?sh|npm|pip|git|make|cargo|docker|fatal|error|ERROR)(?: \w+!?)?: [^\n]*",
    re.DOTALL | re.MULTILINE,
)
_QUOTED_LINE = re.compile(r"^\s*>.*$", re.MULTILINE)
_BULLET = re.compile(r"^\s*(?:[-*•]|\d+[.)])\s+")
_ABBREVIATION = re.compile(r"\b(e\.g|i\.e|vs|etc|mr|mrs|ms|dr|no)\.(?=\s)", re.IGNORECASE)
_SENTENCE_END = re.compile(
    r"(?<=[.!?…])[\"')]*\s+|(?<=[\u3002\uff01\uff1f\uff1b])|\n+|;\s+|\s+(?:--?|\u2013|—)\s+|—"
)
_CONTRAST = re.compile(
    r"(?<!\bnot)(?<!\bnothing)(?<!\banything)[,.]?\s+"
    r"(?:but|though|however|except(?: that)?)\b,?\s+"
    r"|[,\uff0c\s]*(?:但(?!愿)是?|不过(?!如此)|可是|然而|(?<!不)只是|"
    r"就是(?!这|那|它|说|你|我(?:要|想)))[,\uff0c]?",
    re.IGNORECASE,
)
_OPENING_CONTRAST = re.compile(
    r"^(?:(?:yes|ok(?:ay)?|sure),? )?(?:but|however)\b,?\s*", re.IGNORECASE
)
_CLOSING_CONTRAST = re.compile(r",?\s+(?:though|tho)[.!]*$", re.IGNORECASE)
_NEXT_QUESTION = re.compile(
    r"[,\uff0c]?\s+(?:and|also|and also|oh and|and then|btw|by the way|plus|then)\b,?\s+"
    r"(?=(?:what|how|if|when|where|who|which|does|do|is|are|next|now|the next|heres|here.s|i have|"
    r"i also|could you (?:do|solve|help)|can you (?:do|solve|help|also))\b)"
    r"|[,\uff0c]\s*(?=(?:what|how (?:many|much|long|far|old)|also|next|now)\b)"
    r"|\uff0c(?=(?:那|另外|还有|下一|接下来))",
    re.IGNORECASE,
)
_ABOUT_REPLY = re.compile(
    r"\b(?:you|your|u|answers?|repl(?:y|ies)|responses?|comments?|feedback|please|pls|wrong|sounds?|"
    r"sentences?|paragraphs?|words|lists?|bullets?|bold|steps?|ai|chat ?gpt|gpt|bots?|redo|rewrite|"
    r"wordy|stiff|formal|vague|harsh|thanks?|rephrase|slip|mistakes?|mention|tell|say|meant|"
    r"asked|don't|dont|make it|"
    r"i (?:need|want|wanted|said)|at least|at most|than before)\b"
    r"|\b(?:this|that) (?:is|was|sounds)\b"
    r"|^(?:bought|tried|made|ran|used|checked|tested|sent|printed|cooked|baked|followed|measured)\b",
    re.IGNORECASE,
)
_NUMBER = re.compile(
    r"\d+|\b(?:two|three|four|five|six|seven|eight|nine|ten|twelve|dozen|hundred|half|twice|double|"
    r"third|quarter|fourth|seventh)\b",
    re.IGNORECASE,
)
_QUANTITY = re.compile(
    r"\bhow (?:many|much|long|far|old|fast|tall|heavy)\b"
    r"|\bwhat (?:is|was|are|will|percent\w*|fraction)\b",
    re.IGNORECASE,
)
_STORY = re.compile(
    r"(?:he|she|they|his|her|their|each|every|after|before|if|on|there|when|another|then|in|during|"
    r"as|by|at|for|over)\b(?!.*\b(?:this|it|i|me|my)\b)",
    re.IGNORECASE,
)
_QUOTED = re.compile(r'"[^"]*"')


def machine_text(text: str) -> str:
    """Fenced blocks and a traceback in a person's message; empty where there is none."""
    found = [match.group(1) for match in _FENCE.finditer(text)]
    if not found and (trace := _TRACE.search(text)):
        found = [trace.group(0)]
    return "\n".join(found)


@dataclass(frozen=True, slots=True)
class Clause:
    """One thought."""

    text: str
    contrasted: bool = False
    """Whether it was set against what stands before it: "..., but this"."""


def clauses(text: str) -> list[Clause]:
    """The clauses that a person wrote, in order; without pasted blocks and quoted lines."""
    prose = _QUOTED_LINE.sub("", _TRACE.sub("", _FENCE.sub("\n", text)))
    prose = (
        prose.replace("\u2019", "'")
        .replace("\u2018", "'")
        .replace("\u201c", '"')
        .replace("\u201d", '"')
    )
    prose = _ABBREVIATION.sub(r"\1", prose)
    found: list[Clause] = []
    for sentence in _SENTENCE_END.split(prose):
        for number, part in enumerate(_CONTRAST.split(_BULLET.sub("", sentence))):
            for piece, words in enumerate(_NEXT_QUESTION.split(part)):
                found.append(_clause(" ".join(words.split()), number > 0 and piece == 0))
    return [clause for clause in found if clause.text.strip(" .,\uff0c")][:MAX_CLAUSES]


def _clause(words: str, contrasted: bool) -> Clause:
    stripped = _CLOSING_CONTRAST.sub("", _OPENING_CONTRAST.sub("", words))
    return Clause(stripped[:MAX_CLAUSE_CHARS], contrasted or stripped != words)


def plain(clause: str) -> str:
    """The clause as the phrases expect it: no apostrophes, no drawn-out letters or short forms."""
    text = clause.replace("'", "").replace("`", "").replace("\uff01", "!").replace("\uff1f", "?")
    text = re.sub(r"([a-z])\1{2,}", r"\1\1", text, flags=re.IGNORECASE)
    text = re.sub(r"\b(?:pls|plz|plss|plzz)\b", "please", text, flags=re.IGNORECASE)
    text = re.sub(r"\bu\b", "you", text, flags=re.IGNORECASE)
    return text.strip()


def unquoted(clause: str) -> str:
    """The clause without what it quotes: those are someone else's words."""
    return _QUOTED.sub('""', clause)


def without_tasks(found: list[Clause]) -> list[tuple[Clause, bool]]:
    """Each clause with whether it belongs to a new problem and so says nothing about the reply.

    A problem is a run of clauses that tell a story with numbers, around at least one that can be
    nothing else: two numbers in it, or a question for a quantity.
    """
    told = [_tells_story(clause.text) for clause in found]
    in_task = [_is_task(clause.text) for clause in found]
    for indices in (range(1, len(found)), range(len(found) - 2, -1, -1)):
        step = 1 if indices.step == 1 else -1
        for i in indices:
            in_task[i] = in_task[i] or (in_task[i - step] and told[i])
    return list(zip(found, in_task, strict=True))


def _is_task(clause: str) -> bool:
    if len(clause.split()) < TASK_WORDS or _ABOUT_REPLY.search(clause):
        return False
    return len(_NUMBER.findall(clause)) >= 2 or bool(_QUANTITY.search(clause))


def _tells_story(clause: str) -> bool:
    if _ABOUT_REPLY.search(clause):
        return False
    return bool(_NUMBER.search(clause)) or bool(_STORY.match(clause))
