r"""How one number may be written in a reply, and what stands beside it that is no number. Pure.

Read as one number: `1,234.50`, `1 000 000` (also with thin spaces), `$5`, `-5`, `3/4`, `1 1/2`,
`1\frac{1}{2}`, `5e3`, `5 \times 10^3`. What has more than a thousand digits, written out or as a
power of ten, is none: nobody answers so.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction

MINUS = "-\N{MINUS SIGN}"
TIMES = "\N{MULTIPLICATION SIGN}"
_THIN = "\N{NO-BREAK SPACE}\N{THIN SPACE}\N{NARROW NO-BREAK SPACE}"
_MOST_DIGITS = 1000
_WHOLE = (
    r"\d{1,3}(?:,\d{3})+(?!\d)"
    rf"|\d{{1,3}}(?:[{_THIN}]\d{{3}})+(?!\d)"
    r"|\d{1,3}(?: \d{3}){2,}(?![\d/])"
    r"|\d{1,3} 000(?![\d/])"
    r"|\d+"
)
_NUMBER = re.compile(
    rf"(?:(?<![\w)\]}}.])(?P<minus>[{MINUS}])|(?<![\w.])|(?<=[{MINUS}]))"  # `10-3` ends with 3
    r"\$?"
    rf"(?P<inner_minus>(?<=\$)[{MINUS}])?"
    rf"(?P<number>(?:{_WHOLE})(?:\.\d+)?|\.\d+)"
    r"(?:[eE](?P<exponent>[+-]?\d{1,4})(?!\w)"
    rf"|\s*(?:\\times|\\cdot|[{TIMES}*xX])\s*10\s*\^\s*"
    r"(?:\{\s*(?P<braced>[+-]?\d{1,4})\s*\}|(?P<power>[+-]?\d{1,4}))"
    r"|/(?P<below>\d+)(?![\d/])"
    r"|[ ]+(?P<over>\d+)/(?P<under>\d+)(?![\d/]))?"
)
_FRACTION = re.compile(r"(?P<before>\d\s*)?\\[dt]?frac\s*\{(\d+)\}\s*\{(\d+)\}")
_DRESSING = re.compile(
    r"\\(?:text|mathrm|mbox|textbf|mathbf|mathit|operatorname)\s*\{[^{}]*\}"
    r"|\^?\s*\{?\s*\\circ\s*\}?|\\degree|\\%|\\[,;:! ]|\\left|\\right|\\approx|\\quad"
    r"|\\times|\\cdot"
)
_UNKNOWN = re.compile(r"\\[A-Za-z]+|(?<=\d)[A-Za-z](?![A-Za-z])|\^")


@dataclass(frozen=True, slots=True)
class Number:
    """A number and where it stands in its text."""

    value: Fraction
    start: int
    end: int


def normalised(text: str) -> str:
    r"""The same text with `\frac{1}{2}` as `1/2`, and without LaTeX's dress of one number."""
    text = text.replace("{,}", ",").replace(r"\$", "$").replace(r"\,", "").replace(r"\!", "")
    return _FRACTION.sub(_slashed, text)


def _slashed(match: re.Match[str]) -> str:
    """A whole number right before it makes it a mixed number."""
    before = match["before"]
    return f"{before.strip()} {match[2]}/{match[3]}" if before else f"{match[2]}/{match[3]}"


def numbers(text: str) -> list[Number]:
    """The numbers of a normalised text in order. A fraction below which stands 0 is none."""
    found: list[Number] = []
    for match in _NUMBER.finditer(text):
        value = _value(match)
        if value is not None:
            negative = match["minus"] or match["inner_minus"]
            found.append(Number(-value if negative else value, match.start(), match.end()))
    return found


def holds_unknown(content: str) -> bool:
    r"""Whether a box holds more than a number with its unit: `3k`, `3\pi`, `2^n`."""
    bare = _DRESSING.sub(" ", _NUMBER.sub(lambda m: "0", content))
    return _UNKNOWN.search(bare) is not None


def _value(match: re.Match[str]) -> Fraction | None:
    digits = re.sub(rf"[,\s{_THIN}]", "", match["number"])
    if len(digits) > _MOST_DIGITS:
        return None
    value = Fraction(digits)
    exponent = match["exponent"] or match["braced"] or match["power"]
    if exponent is not None:
        return value * Fraction(10) ** int(exponent) if abs(int(exponent)) <= _MOST_DIGITS else None
    if match["below"] is not None:
        return value / int(match["below"]) if int(match["below"]) else None
    if match["over"] is None:
        return value
    over, under = int(match["over"]), int(match["under"])
    return value + Fraction(over, under) if under else None
