"""The page's picture: what was said of each version's replies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from clawrl.ui.view import VersionRow

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_BLUE, _ORANGE, _PURPLE = "#0072B2", "#D55E00", "#CC79A7"


def draw(rows: Sequence[VersionRow]) -> Figure:
    """Correction rate, turns per session and abnormal replies, by version."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    figure = Figure(figsize=(9, 6), layout="constrained")
    FigureCanvasAgg(figure)
    rows = sorted(rows, key=lambda row: row.version)
    judged = [row for row in rows if row.judged]
    panels = (
        ("corrected replies", _ORANGE, [(r.version, r.corrections / r.judged) for r in judged]),
        ("turns per session", _BLUE, [(r.version, r.turns / len(r.sessions)) for r in rows]),
        ("abnormal replies", _PURPLE, [(r.version, r.abnormal / r.turns) for r in rows]),
    )
    axes = figure.subplots(3, 1, sharex=True)
    for axis, (title, colour, points) in zip(axes, panels, strict=True):
        axis.plot([x for x, _ in points], [y for _, y in points], "o-", color=colour)
        axis.set_title(title, fontsize=10, loc="left")
        axis.set_ylim(bottom=0)
        if "turns" not in title:
            axis.set_ylim(0, 1.05)
        axis.grid(axis="y", alpha=0.3)
        axis.spines[["top", "right"]].set_visible(False)
    versions = [row.version for row in rows] or [0]
    axes[-1].set_xlim(min(versions) - 0.5, max(versions) + 0.5)
    axes[-1].set_xlabel("policy version (weight updates since the start)")
    axes[-1].xaxis.set_major_locator(MaxNLocator(integer=True))
    return figure
