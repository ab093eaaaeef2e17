"""A reply's tokens as HTML, each coloured by a number that belongs to it.

Blue is up and red is down: a pair that colour-blind readers tell apart. The numbers stand in the
tokens' tooltips too. Pure.
"""

from __future__ import annotations

import html
from collections.abc import Sequence

_UP, _DOWN, _MIDDLE = (33, 102, 172), (178, 24, 43), (255, 255, 255)
_DARK = 140
"""Below this luminance (0 to 255) black text is hard to read."""
_LEGEND_STEPS = 9


def coloured_tokens(
    tokens: Sequence[str], values: Sequence[float], *, bound: float, label: str
) -> str:
    """The tokens in their order, as one block of HTML with a legend.

    Args:
        tokens: the text of each; shown as it is, nothing in it is read as HTML.
        values: one number for each token; 0 is white.
        bound: this and more is full blue, minus this and less is full red; above 0.
        label: what the numbers are.

    Raises:
        ValueError: not one number for each token, or `bound` is not above 0.
    """
    if len(tokens) != len(values):
        raise ValueError(f"{len(tokens)} tokens and {len(values)} values: there must be as many")
    if bound <= 0:
        raise ValueError(f"bound must be above 0, not {bound}")
    spans = [
        _span(_shown(token), value / bound, f"{value:+.2f}")
        for token, value in zip(tokens, values, strict=True)
    ]
    return (
        '<div style="background:#fff;color:#000;padding:8px;line-height:1.7;max-width:52em">'
        f'<div style="font-size:85%;margin-bottom:6px">{_legend(bound, label)}</div>'
        f'<div style="font-family:monospace;white-space:pre-wrap">{"".join(spans)}</div></div>'
    )


def _shown(token: str) -> str:
    """A line break is shown as a sign, so that its colour can be seen, and breaks the line."""
    return html.escape(token).replace("\n", "\N{DOWNWARDS ARROW WITH CORNER LEFTWARDS}\n")


def _span(escaped: str, strength: float, title: str) -> str:
    back = _colour(max(-1.0, min(1.0, strength)))
    luminance = 0.299 * back[0] + 0.587 * back[1] + 0.114 * back[2]
    text = "#fff" if luminance < _DARK else "#000"
    shade = "#" + "".join(f"{part:02x}" for part in back)
    return f'<span style="background:{shade};color:{text}" title="{title}">{escaped}</span>'


def _colour(strength: float) -> tuple[int, ...]:
    end = _UP if strength > 0 else _DOWN
    return tuple(
        round(middle + abs(strength) * (far - middle))
        for middle, far in zip(_MIDDLE, end, strict=True)
    )


def _legend(bound: float, label: str) -> str:
    half = (_LEGEND_STEPS - 1) / 2
    steps = [(step - half) / half for step in range(_LEGEND_STEPS)]
    blocks = "".join(_span("&nbsp;&nbsp;&nbsp;", step, f"{step * bound:+.2f}") for step in steps)
    low = f"\N{MINUS SIGN}{bound:g} and less"
    return f"{html.escape(label)}: {low} {blocks} +{bound:g} and more"
