r"""The number that a reply ends with, and whether it is the right one.

The rule, the first that applies: the number in the last `\boxed{...}` (of an equation in it, what
stands after the last `=`); the one after the last `####`; the one that the reply calls its answer
(`The answer is 42. (Check: 42 / 6 = 7.)`), unless it takes that back; the result of its last
equation, where only what the result is about follows (`= 15 liters of the 24 liters`) or the last
sentence says it again; the last number. Numbers are compared exactly, as fractions. A heading such
as `#### Step 2` is no answer mark. A box that holds no single number, or an unknown beside one, is
an answer that cannot be read, so it is no answer at all. What a model thinks before `</think>` is
not its reply. How one number may be written: `clawrl.eval.scoring.numerals`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction

from clawrl.eval.scoring.numerals import MINUS, TIMES, Number, holds_unknown, normalised, numbers
from clawrl.llm.quoting import without_thought

_MARKED = re.compile(rf"####[ \t]*(?:=[ \t]*)?(?=[$]?[{MINUS}]?[$]?\.?\d)")
_BOX = re.compile(r"\\f?boxed\s*\{")
_SAID = re.compile(r"\b(?:answer|result)(?:\s+is|\s*[:=]|\s+would\s+be)[\s:*$=]*", re.IGNORECASE)
_ABOUT = re.compile(r"(?:about|approximately|exactly|just|simply)?[\s*$(\\]*", re.IGNORECASE)
_TAKEN_BACK = re.compile(
    r"\b(?:wait|actually|correction|mistake|sorry|wrong|incorrect|hmm|no[,.!])", re.IGNORECASE
)
_SENTENCE_END = re.compile(r"[.!?](?=[\s)*]|$)|\n|\(")
_GOES_ON = re.compile(
    r"\b(?:is|are|was|were|makes|gives|leaves|equals?|so|then|thus|therefore|hence|which|needs|has)\b",
    re.IGNORECASE,
)
"""Between an equation's result and a later number: the sentence goes on to another result."""


@dataclass(frozen=True, slots=True)
class Box:
    """The last box of a text."""

    content: str
    closed: bool
    """False: the text ends inside it, and `content` goes up to the end."""


def last_box(text: str) -> Box | None:
    r"""The last `\boxed{...}`, braces inside it balanced; None: there is none."""
    starts = list(_BOX.finditer(text))
    if not starts:
        return None
    begin = starts[-1].end()
    depth = 1
    for index in range(begin, len(text)):
        depth += {"{": 1, "}": -1}.get(text[index], 0)
        if depth == 0:
            return Box(text[begin:index], closed=True)
    return Box(text[begin:], closed=False)


def final_number(reply: str) -> Fraction | None:
    """The number that the reply gives as its answer; None where there is none."""
    text = normalised(without_thought(reply))
    box = last_box(text)
    if box is not None:
        return _boxed_number(box.content)
    marks = list(_MARKED.finditer(text))
    if marks:
        return next((found.value for found in numbers(text[marks[-1].end() :])), None)
    found = numbers(text)
    if not found:
        return None
    said = _called_answer(text)
    return said if said is not None else _last_result(text, found)


def is_correct(reply: str, answer: str) -> bool:
    """Whether the reply's final number is the answer's. False where either has none."""
    right = final_number(answer)
    return right is not None and final_number(reply) == right


def _boxed_number(content: str) -> Fraction | None:
    found = numbers(content)
    if len(found) != 1:
        content = content.rpartition("=")[2]
        found = numbers(content)
    if len(found) != 1 or holds_unknown(content.rpartition("=")[2]):
        return None
    return found[0].value


def _called_answer(text: str) -> Fraction | None:
    """The number of the last clause that says what the answer is; None: none, or taken back."""
    said = list(_SAID.finditer(text))
    if not said:
        return None
    begin = said[-1].end()
    ended = _SENTENCE_END.search(text, begin)
    end = ended.start() if ended else len(text)
    if _TAKEN_BACK.search(text, end):
        return None
    clause = text[begin:end]
    found = numbers(clause)
    if not found:
        return None
    equal = clause.rfind("=")
    after = [number for number in found if number.start > equal]
    if equal >= 0:
        return after[0].value if after else None
    close = _ABOUT.match(clause)
    direct = close is not None and found[0].start <= close.end()
    if direct and not re.match(
        rf"\s*[-+*/{TIMES}]", clause[found[0].end :]
    ):  # no sum to be worked out
        return found[0].value
    return found[-1].value


def _last_result(text: str, found: list[Number]) -> Fraction:
    last = found[-1]
    equal = text.rfind("=")
    after = [number for number in found if number.start > equal]
    if equal < 0 or len(after) < 2:
        return last.value
    result = after[0]
    between = text[result.end : last.start]
    if not _SENTENCE_END.search(between.replace("(", " ")):
        return last.value if _GOES_ON.search(between) else result.value
    begin = [end.end() for end in _SENTENCE_END.finditer(text, result.end, last.start)][-1]
    first = next(number for number in after if number.start >= begin)
    compared = re.match(r"\s*(?:since|because|as)\b", text[begin:], re.IGNORECASE)
    return result.value if first.value == result.value and not compared else last.value
