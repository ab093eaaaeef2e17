r"""The number that a reply ends with, and whether it is the right one.

The rule: the number in the last `\boxed{...}` (of an equation in it, the number after the last
`=`); else the one after the last `####`; else the last number of the text. Numbers are compared
exactly, as fractions; `$`, thousands commas and units do not count. A heading such as
`#### Step 2` is no answer mark, and a box that holds no single number is an answer that cannot be
read, so it is no answer at all. What a model thinks before `</think>` is not its reply.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction

from clawrl.llm.quoting import without_thought

_MINUS = "-\N{MINUS SIGN}"
_NUMBER = re.compile(
    rf"(?:(?<![\w)\]}}.])(?P<minus>[{_MINUS}])|(?<![\w.])|(?<=[{_MINUS}]))"  # `10-3` ends with 3
    r"\$?"
    rf"(?P<inner_minus>(?<=\$)[{_MINUS}])?"
    r"(?P<number>\d{1,3}(?:,\d{3})+(?!\d)(?:\.\d+)?|\d+(?:\.\d+)?|\.\d+)"
    r"(?:/(?P<below>\d+)(?![\d/]))?"
)
_MARKED = re.compile(rf"####[ \t]*(?:=[ \t]*)?(?=[$]?[{_MINUS}]?[$]?\.?\d)")
_FRACTION = re.compile(r"\\[dt]?frac\{(\d+)\}\{(\d+)\}")
_BOX = re.compile(r"\\f?boxed\s*\{")


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
    text = without_thought(reply).replace("{,}", ",").replace(r"\$", "$")
    text = text.replace(r"\,", "").replace(r"\!", "")
    text = _FRACTION.sub(r"\1/\2", text)
    box = last_box(text)
    if box is not None:
        numbers = _numbers(box.content)
        if len(numbers) > 1:
            numbers = _numbers(box.content.rpartition("=")[2])
        return numbers[0] if len(numbers) == 1 else None
    marks = list(_MARKED.finditer(text))
    if marks:
        return _numbers(text[marks[-1].end() :])[0]
    numbers = _numbers(text)
    return numbers[-1] if numbers else None


def is_correct(reply: str, answer: str) -> bool:
    """Whether the reply's final number is the answer's. False where either has none."""
    right = final_number(answer)
    return right is not None and final_number(reply) == right


def _numbers(text: str) -> list[Fraction]:
    found: list[Fraction] = []
    for match in _NUMBER.finditer(text):
        below = match["below"]
        if below is not None and int(below) == 0:
            continue
        value = Fraction(match["number"].replace(",", "")) / int(below or 1)
        found.append(-value if match["minus"] or match["inner_minus"] else value)
    return found
