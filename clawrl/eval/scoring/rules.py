r"""What a reply answers to a problem, and whether that is right: one set of rules for each kind.

Every kind reads the last `\boxed{...}` first. A reply that was cut by its length limit has an
answer only where that box is closed: the last number before a cut may be half of one.

    integer   AIME: a whole number 0 to 999; a box that holds more is compared as mathematics
    number    GSM8K: one number, compared exactly as a fraction (`clawrl.eval.scoring.answers`)
    math      MATH-500: compared by math-verify (`clawrl.eval.scoring.symbolic`)
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from clawrl.eval.evaluation.generation import Status
from clawrl.eval.scoring.answers import final_number, last_box
from clawrl.eval.scoring.symbolic import same_mathematics
from clawrl.llm.quoting import without_thought

RULES_VERSION = 2
"""Part of every task's digest: a change of these rules makes old scores another task's."""

CUT = "length"
"""The finish reason of a reply that its length limit ended."""

_REFUSAL = re.compile(
    r"\b(?:I(?:'m| am)? (?:really )?(?:sorry|unable to)|I (?:cannot|can't|can not|won't|will not) "
    r"(?:help|assist|answer|provide|solve|do|fulfil|complete|comply)|as an AI\b|"
    r"I must decline)",
    re.IGNORECASE,
)
_APOSTROPHE = str.maketrans({"\N{RIGHT SINGLE QUOTATION MARK}": "'"})
_SAID = re.compile(r"\banswer(?:\s+is|\s*[:=])\s*:?\s*", re.IGNORECASE)
_FORMULA = re.compile(r"\$\$(.+?)\$\$|\$(.+?)\$|\\\((.+?)\\\)|\\\[(.+?)\\\]", re.DOTALL)
_COMPUTED = re.compile(
    r"\\(?:sqrt|cdot|times|div|pm|pi|[dt]?binom|log|ln|sin|cos|tan)|!"
    r"|\^(?!\s*\{?\s*\\circ)|\d\s*[+*]\s*\d"
)
"""What is no number until it is worked out, whatever numbers stand in it."""
_LONGEST_BARE = 60
"""Characters of a reply that is nothing but its answer."""


@dataclass(frozen=True, slots=True)
class Rules:
    """How one kind of answer is read and compared."""

    read: Callable[[str], str | None]
    """The reply's answer as text, thoughts taken off before; None: there is none."""
    same: Callable[[str, str], bool]
    """`same(right, answer)`: whether an answer that was read equals the right one."""
    is_answer: Callable[[str], bool]
    """Whether a text can be a right answer of this kind."""


@dataclass(frozen=True, slots=True)
class Scored:
    """What a reply came to."""

    status: Status
    parsed: str | None
    right: bool


def score(text: str, finish_reason: str | None, right: str, rules: Rules) -> Scored:
    """Read a reply and compare its answer with the right one. Raises nothing for any text."""
    reply = without_thought(text)
    cut = finish_reason == CUT
    parsed = _closed_box_only(rules, reply) if cut else rules.read(reply)
    return Scored(
        _status(text, reply, parsed, cut=cut),
        parsed,
        parsed is not None and rules.same(right, parsed),
    )


def _closed_box_only(rules: Rules, reply: str) -> str | None:
    box = last_box(reply)
    return rules.read(reply) if box is not None and box.closed else None


def _status(text: str, reply: str, parsed: str | None, *, cut: bool) -> Status:
    if cut:
        return "truncated"
    if not text.strip():
        return "empty"
    if parsed is not None:
        return "ok"
    return "refused" if _REFUSAL.search(reply.translate(_APOSTROPHE)) else "unparsable"


def _read_number(reply: str) -> str | None:
    number = final_number(reply)
    return None if number is None else str(number)


def _read_integer(reply: str) -> str | None:
    box = last_box(reply)
    if box is not None and _COMPUTED.search(box.content.rpartition("=")[2]):
        return plain(box.content.rpartition("=")[2]) or None
    return _read_number(reply) or _boxed(reply)


def _same_number(right: str, answer: str) -> bool:
    wanted = final_number(right)
    return wanted is not None and _fraction(answer) == wanted


def _same_integer(right: str, answer: str) -> bool:
    """A number as a number; what else a box may hold (`2^3 + 4`) as mathematics."""
    if _fraction(answer) is not None:
        return _same_number(right, answer)
    return same_mathematics(right.lstrip("0") or "0", answer)


def _is_aime(answer: str) -> bool:
    return answer.isascii() and answer.isdigit() and int(answer) <= 999


def _fraction(text: str) -> Fraction | None:
    try:
        return Fraction(text)
    except (ValueError, ZeroDivisionError):
        return None


def _boxed(reply: str) -> str | None:
    box = last_box(reply)
    return plain(box.content) or None if box is not None else None


def _read_math(reply: str) -> str | None:
    """The box; else what `answer is` names; else a bare answer, the last formula, a number."""
    if last_box(reply) is not None:
        return _boxed(reply)
    said = list(_SAID.finditer(reply))
    if said and (answer := _first_of(reply[said[-1].end() :])):
        return answer
    bare = plain(reply)
    if bare and len(bare) <= _LONGEST_BARE and not re.search(r"[A-Za-z]{3,} [A-Za-z]{2,}", bare):
        return bare
    formulas = list(_FORMULA.finditer(reply))
    if formulas:
        return plain(formulas[-1].group(0)) or None
    return _read_number(reply)


def _first_of(text: str) -> str:
    """The formula that a text begins with, or its first sentence."""
    formula = _FORMULA.match(text.lstrip("* "))
    if formula:
        return plain(formula.group(0))
    line = text.strip().partition("\n")[0]
    return plain(re.split(r"\.(?:\s|$)", line, maxsplit=1)[0])


def plain(text: str) -> str:
    r"""An answer without what only dresses it: `$`, `\(...\)`, bold, a final dot, thin spaces."""
    text = text.replace(r"\!", "").replace("{,}", ",").replace("\N{MINUS SIGN}", "-").strip()
    text = text.strip("*").strip()
    for left, right in (("$$", "$$"), ("$", "$"), (r"\(", r"\)"), (r"\[", r"\]")):
        if text.startswith(left) and text.endswith(right) and len(text) > len(left + right):
            text = text[len(left) : -len(right)].strip()
    return text.rstrip(".").strip() if not text.endswith("..") else text


def _same_math(right: str, answer: str) -> bool:
    wanted = plain(right)
    if wanted == answer:
        return True
    first, second = _fraction(wanted), _fraction(answer)
    if first is not None and second is not None and (first == second or _whole(first, second)):
        return first == second
    return same_mathematics(wanted, answer)


def _whole(first: Fraction, second: Fraction) -> bool:
    return first.denominator == 1 and second.denominator == 1


RULES: dict[str, Rules] = {
    "integer": Rules(_read_integer, _same_integer, _is_aime),
    "number": Rules(_read_number, _same_number, lambda text: final_number(text) is not None),
    "math": Rules(_read_math, _same_math, lambda text: bool(plain(text))),
}
"""By the name that a task's file gives as `scorer`."""
