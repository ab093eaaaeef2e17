"""Putting facts into a prompt's or phrase's places, once."""

from __future__ import annotations

import re

_PLACE = re.compile(r"\{(\w+)\}")


def filled(template: str, facts: dict[str, str]) -> str:
    """`template` with each `{name}` replaced by its fact.

    Unknown places stay, and so do braces within the facts: a problem may hold LaTeX.
    """
    return _PLACE.sub(lambda place: facts.get(place[1], place[0]), template)
