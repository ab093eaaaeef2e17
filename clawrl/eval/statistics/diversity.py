"""How much a reply repeats itself."""

from __future__ import annotations

import re
from itertools import pairwise

_WORD = re.compile(r"\w+")


def distinct_bigrams(reply: str) -> float:
    """Different pairs of neighbouring words, divided by all of them, from 0 to 1.

    A reply of fewer than two words is 0: nothing may be gained by writing nothing.
    """
    bigrams = list(pairwise(_WORD.findall(reply.lower())))
    return len(set(bigrams)) / len(bigrams) if bigrams else 0.0
