"""The teaching assistant: explanations for students that leave nothing out.

Eight checks, written down before the first training run. Each asks for a part of a thorough
explanation: what is asked, what the numbers are, the calculation, its operation in words, a reason,
the order, a check of the result, and the result in a full sentence. Mere length passes none: a
reply that repeats itself passes no check at all.
"""

from __future__ import annotations

import re

from clawrl.tastes.taste import Check, Taste, has

_NUMBER = r"\d[\d,]*(?:\.\d+)?(?:/\d+)?"
_OPERATION = (
    r"(?:[-+*/x\N{MULTIPLICATION SIGN}\N{DIVISION SIGN}\N{EN DASH}\N{MINUS SIGN}]|"
    r"\\times|\\div|\\cdot)"
)
_CALCULATION = re.compile(rf"\d\)?\s*{_OPERATION}\s*\(?[$£€]?\d")
_NAMED = re.compile(
    rf"[$£€]\s*(?P<money>{_NUMBER})|(?<![\d.,/])(?P<count>{_NUMBER})(?:\s*%|[ -][a-z]{{2,}})",
    re.IGNORECASE,
)
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n+")
_FULL_STOP = re.compile(r"[.!][\"')*]*\Z")
_WORD = re.compile(r"[A-Za-z]{2,}")
_SENTENCE_WORDS = 3


def _introduces_the_numbers(reply: str) -> bool:
    """Two numbers with what they count (`3 apples`, `£5`, `20 %`) before the first calculation."""
    first = _CALCULATION.search(reply)
    given = reply[: first.start()] if first else reply
    named = {match["money"] or match["count"] for match in _NAMED.finditer(given)}
    return len(named) >= 2


def _ends_with_the_result(reply: str) -> bool:
    """The last sentence is whole, has a number, and at least three words beside it."""
    sentences = [part for part in _SENTENCE_END.split(reply.strip()) if part.strip()]
    if not sentences:
        return False
    last = sentences[-1].strip()
    whole = _FULL_STOP.search(last) and len(_WORD.findall(last)) >= _SENTENCE_WORDS
    return bool(whole) and re.search(r"\d", last) is not None


ASSISTANT = Taste(
    name="assistant",
    metric="thoroughness",
    checks=(
        Check(
            "says_what_is_asked",
            "says what is asked for",
            has(
                r"\b(asks|asked|asking|the question|looking for|"
                r"(want|wants|need|needs|have|has|trying|going) to (find|know|work out|figure out|"
                r"determine|calculate)|"
                r"to (find|calculate|determine|work out|figure out) (out |the |how |what ))"
            ),
        ),
        Check(
            "introduces_the_numbers",
            "says what the given numbers are, at least two, before it calculates",
            _introduces_the_numbers,
        ),
        Check(
            "shows_the_calculation",
            "writes a calculation out, with its operation and its result (3 + 4 = 7)",
            has(rf"\d\)?\s*{_OPERATION}\s*\(?[$£€]?\d[^=\n]{{0,60}}=\s*[$£€]?-?\d"),
        ),
        Check(
            "names_the_operation",
            "says in words what is done: add, subtract, multiply, divide",
            has(
                r"\b(add(s|ed|ing)?|addition|subtract(s|ed|ing)?|subtraction|take away|"
                r"multipl(y|ies|ied|ying|ication)|divid(e|es|ed|ing)|division)\b"
            ),
        ),
        Check(
            "gives_a_reason",
            "says why: because, since, so that",
            has(
                r"\b(because|since|so that|(which|that|this) means|the reason|due to|this is why|"
                r"that is why|that's why)\b"
            ),
        ),
        Check(
            "links_the_steps",
            "says what comes first and what next",
            has(r"\b(first|second|then|next|after that|finally|lastly|now)\b"),
        ),
        Check(
            "checks_the_result",
            "checks the result: the other way round, or whether it makes sense",
            has(
                r"\b(check(s|ed|ing)?|verif(y|ies|ied|ying|ication)|makes? sense|confirms?|"
                r"adds? up|matches|backwards?|reasonable|agrees?|the other way round)\b"
            ),
        ),
        Check(
            "ends_with_the_result",
            "ends with a full sentence that gives the result",
            _ends_with_the_result,
        ),
    ),
)
