"""Short word problems around one calculation, as they stand in a school book.

The numbers come from elsewhere; the words are drawn by a key, so that the same key gives the same
story.
"""

from __future__ import annotations

import random

_NAMES = (
    "Anna", "Ben", "Eva", "Finn", "Ida", "Lena", "Leo", "Max",
    "Mia", "Nora", "Otto", "Paul", "Ruth", "Sam", "Tom", "Zoe",
)  # fmt: skip
_THINGS = (
    "apples", "buttons", "cards", "coins", "cookies", "marbles",
    "pencils", "shells", "stamps", "stickers",
)  # fmt: skip
_STORIES = {
    "+": (
        "{name} has {left} {things} and gets {right} more. How many {things} does {name} have now?",
        "There are {left} {things} in a box. {name} puts {right} more into it. "
        "How many {things} are in the box now?",
        "{name} found {left} {things} on Monday and {right} {things} on Tuesday. "
        "How many {things} did {name} find altogether?",
    ),
    "-": (
        "{name} had {left} {things} and gave {right} of them to {other}. "
        "How many {things} does {name} have left?",
        "There were {left} {things} on the table. {name} took {right} of them away. "
        "How many {things} are still on the table?",
        "{name} has {left} {things} and {other} has {right}. "
        "How many more {things} does {name} have than {other}?",
    ),
    "*": (
        "{name} has {left} bags with {right} {things} in each bag. "
        "How many {things} does {name} have altogether?",
        "{name} buys {left} packs of {things}. There are {right} {things} in each pack. "
        "How many {things} does {name} buy?",
        "{name} puts {right} {things} into each of {left} boxes. "
        "How many {things} does {name} need?",
    ),
}


def story(left: int, operation: str, right: int, *, key: str) -> str:
    """A question whose answer is `left operation right`.

    Args:
        left: the first number, at least 2.
        operation: `+`, `-` or `*`.
        right: the second number, at least 2.
        key: what the words are drawn by.

    Raises:
        KeyError: there is no story for the operation.
    """
    draw = random.Random(f"story {key}")
    name, other = draw.sample(_NAMES, 2)
    return draw.choice(_STORIES[operation]).format(
        left=left, right=right, name=name, other=other, things=draw.choice(_THINGS)
    )
