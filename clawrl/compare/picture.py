"""The compared scores as a picture: learning curves over one another, or points with intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from clawrl.compare.differences import Comparison
from clawrl.compare.groups import Group
from clawrl.eval.statistics.estimates import Estimate, Observations, mean

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Okabe and Ito's colours without yellow, which is too pale for a line: told apart by colour-blind
# readers; shapes tell them apart in grey print, and dashes a second round of them.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#333333")
_SHAPES = ("o", "s", "^", "D", "v", "P", "X")
_DASHES = ("-", "--", ":", "-.")
_LONGEST_LABEL, _MOST_KEYS = 60, 2
_SMALL = 9


def draw_comparison(path: Path, comparison: Comparison) -> None:
    """Write the picture as PNG.

    Curves where something was measured at more than one version, with bands that are the intervals
    over problems, thin lines for each seed, and a ring round each score that is compared; else the
    scores alone. Raises OSError when it cannot be written.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    lines = _lines(comparison.groups)
    curves = any(len(group.curve) > 1 for group in lines)
    height = 4.8 if curves else 1.9 + 0.5 * len(comparison.groups)
    figure = Figure(figsize=(8, height), layout="constrained")
    FigureCanvasAgg(figure)
    panel = figure.subplots()
    if curves:
        _draw_curves(panel, comparison, lines)
        panel.set_ylabel(comparison.metric)
    else:
        _draw_points(panel, comparison)
        panel.set_xlabel(comparison.metric)
    _style(panel, "y" if curves else "x")
    figure.suptitle(
        f"{comparison.metric}, 95% intervals over problems",
        fontsize=12, fontweight="bold", x=0.02, ha="left",
    )  # fmt: skip
    figure.savefig(path, dpi=160)


def _lines(groups: Sequence[Group]) -> list[Group]:
    """One group for each curve: two versions of one run lie on the same."""
    return list({group.places: group for group in reversed(groups)}.values())[::-1]


def legend(comparison: Comparison) -> list[str]:
    """What the curves are called: the name, and what they differ in where that is short."""
    lines = _lines(comparison.groups)
    keys = [
        key
        for key in comparison.config
        if key != "seed" and len({group.values(key) for group in lines}) > 1
    ]
    labels: list[str] = []
    for group in lines:
        several = group.label.removeprefix(group.name)
        told = ", ".join(f"{key.rpartition('.')[2]}={group.values(key)}" for key in keys)
        label = f"{group.line}{several}"
        short = 0 < len(keys) <= _MOST_KEYS and len(f"{label}: {told}") <= _LONGEST_LABEL
        labels.append(f"{label}: {told}" if short and "=" not in group.line else label)
    return labels


def _plain(label: str) -> str:
    """No formula where a name holds dollar signs, and no entry hidden for its underscore."""
    text = label.replace("$", "\\$")
    return f" {text}" if text.startswith("_") else text


def _draw_curves(panel: Axes, comparison: Comparison, lines: Sequence[Group]) -> None:
    for place, (group, label) in enumerate(zip(lines, legend(comparison), strict=True)):
        colour, shape = _COLOURS[place % len(_COLOURS)], _SHAPES[place % len(_SHAPES)]
        dash = _DASHES[place // len(_COLOURS) % len(_DASHES)]
        if not group.curve:
            panel.axhline(group.score.value, color=colour, linestyle="--", label=_plain(label))
            continue
        versions, points = list(group.curve), list(group.curve.values())
        panel.fill_between(
            versions, [point.low for point in points], [point.high for point in points],
            color=colour, alpha=0.14, linewidth=0,
        )  # fmt: skip
        for source in group.sources if len(group.sources) > 1 else ():
            panel.plot(
                list(source.curve), [_value(point) for point in source.curve.values()],
                color=colour, linestyle=dash, linewidth=0.8, alpha=0.55,
            )  # fmt: skip
        panel.plot(
            versions, [point.value for point in points], label=_plain(label), color=colour,
            linestyle=dash, linewidth=2.2, marker=shape, markersize=6,
        )  # fmt: skip
        for compared in comparison.groups:
            version = compared.sources[0].version
            if compared.places == group.places and version in group.curve:
                panel.plot(
                    [version], [group.curve[version].value], marker="o", markersize=13,
                    markerfacecolor="none", markeredgecolor=colour, markeredgewidth=1.4,
                )  # fmt: skip
    panel.set_xlabel("policy version (weight updates since the start); rings: what is compared")
    panel.legend(loc="best", fontsize=_SMALL, frameon=False)
    from matplotlib.ticker import MaxNLocator

    panel.xaxis.set_major_locator(MaxNLocator(integer=True))
    panel.margins(y=0.12)


def _value(point: Observations | Estimate) -> float:
    return point.value if isinstance(point, Estimate) else mean(point).value


def _draw_points(panel: Axes, comparison: Comparison) -> None:
    for place, group in enumerate(comparison.groups):
        colour = _COLOURS[place % len(_COLOURS)]
        score = group.score
        ends = [[_distance(score.value, score.low)], [_distance(score.high, score.value)]]
        panel.errorbar(
            [score.value], [place], xerr=ends, color=colour, marker=_SHAPES[place % len(_SHAPES)],
            markersize=8, capsize=4, elinewidth=2, linestyle="none",
        )  # fmt: skip
        panel.annotate(
            f"{score.value:.2f}", (score.value, place), xytext=(0, 8),
            textcoords="offset points", ha="center", color=colour, fontsize=_SMALL + 1,
        )  # fmt: skip
        if len(group.sources) > 1:
            each = [source.score.value for source in group.sources]
            panel.plot(each, [place] * len(each), "|", color=colour, markersize=10, alpha=0.6)
    panel.set_yticks(
        range(len(comparison.groups)), [_plain(group.label) for group in comparison.groups]
    )
    panel.set_ylim(len(comparison.groups) - 0.4, -0.6)
    panel.margins(x=0.12)


def _distance(high: float, low: float) -> float:
    """At least 0: a skewed bootstrap may leave its mean outside; 0 for an end that is unknown."""
    return 0.0 if math.isnan(high - low) else max(0.0, high - low)


def _style(panel: Axes, grid: str) -> None:
    panel.spines[["top", "right"]].set_visible(False)
    panel.spines[["left", "bottom"]].set_color("#888888")
    panel.tick_params(colors="#444444", labelsize=_SMALL)
    panel.grid(axis="x" if grid == "x" else "y", color="#E6E6E6", linewidth=0.8)
    panel.set_axisbelow(True)
