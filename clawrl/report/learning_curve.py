"""The learning curve: what was measured, and what the next states said meanwhile."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from clawrl.eval.personalization.measurement import Measurement
from clawrl.eval.statistics.estimates import Estimate
from clawrl.records.nouns import Update

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Okabe and Ito's colours: told apart by colour-blind readers and in grey print.
_BLUE, _ORANGE, _GREEN, _GREY = "#0072B2", "#D55E00", "#009E73", "#6B6B6B"
_PURPLE = "#CC79A7"
_SMALL = 9


def draw_curve(
    path: Path, title: str, measured: Sequence[Measurement], updates: Sequence[Update]
) -> bool:
    """Write the picture as PNG. Returns False, and writes nothing, where there is nothing to show.

    The upper panel: the score and the share of replies complained about, with their intervals, and
    the reference rule, by version. The lower one: the mean verdict and the share of hints of the
    batch that made each version.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    panels = [bool(measured), bool(updates)]
    if not any(panels):
        return False
    layout = ConstrainedLayoutEngine(h_pad=0.08, hspace=0.04)
    figure = Figure(figsize=(8, 6.4 if all(panels) else 4.2), layout=layout)
    FigureCanvasAgg(figure)
    heights = [height for height, shown in zip((3, 2), panels, strict=True) if shown]
    grid = figure.subplots(
        len(heights), 1, sharex=True, squeeze=False, gridspec_kw={"height_ratios": heights}
    )
    axes: list[Axes] = list(grid[:, 0])
    figure.suptitle(title, fontsize=13, fontweight="bold", x=0.02, ha="left")
    if measured:
        _draw_measured(axes[0], measured)
    if updates:
        _draw_batches(axes[-1], updates)
    for panel in axes:
        _style(panel)
    axes[-1].set_xlabel("policy version (weight updates since the start)")
    versions = [found.version for found in measured] + [update.version for update in updates]
    margin = 0.08 * (max(versions) - min(versions) or 1)  # room for the values written there
    axes[-1].set_xlim(min(versions) - margin, max(versions) + margin)
    figure.savefig(path, dpi=160)
    return True


def _draw_measured(panel: Axes, measured: Sequence[Measurement]) -> None:
    versions = [found.version for found in measured]
    scores = [found.mean_of(lambda reply: reply.score) for found in measured]
    rule = [found.mean_of(lambda reply: reply.reference_rule).value for found in measured]
    first = measured[0]
    problems = len({reply.problem_id for reply in first.replies})
    panel.plot(
        versions, rule, color=_GREY, linestyle="--", linewidth=1.3, marker="s", markersize=4,
        label="reference rule (share of replies)",
    )  # fmt: skip
    _draw_line(panel, versions, scores, _BLUE, f"{first.metric} (mean share of checks)")
    known = [(found.version, found.complaints) for found in measured]
    shares = [(version, share) for version, share in known if share is not None]
    if shares:
        _draw_line(
            panel, [version for version, _ in shares], [share for _, share in shares], _ORANGE,
            f"complaints (share of replies the {first.taste} complains about)",
        )  # fmt: skip
    panel.set_ylim(0, 1.08)
    panel.set_yticks([0, 0.25, 0.5, 0.75, 1])
    panel.set_ylabel("share, 0 to 1")
    panel.set_title(
        f"Measured: first replies to {problems} fixed problems, {len(first.replies)} in all, "
        f"temperature {first.temperature:g}; 95% intervals over problems",
        fontsize=10, loc="left", color="#333333",
    )  # fmt: skip
    panel.legend(loc="best", fontsize=_SMALL, frameon=False)


def _draw_line(
    panel: Axes, versions: Sequence[int], found: Sequence[Estimate], colour: str, label: str
) -> None:
    """Estimates with their 95% intervals; the first and the last value stand beside the line."""
    panel.fill_between(
        versions, [one.low for one in found], [one.high for one in found],
        color=colour, alpha=0.15, linewidth=0,
    )  # fmt: skip
    values = [one.value for one in found]
    panel.errorbar(
        versions, values, yerr=_whiskers(found), color=colour, linewidth=2.2, marker="o",
        markersize=6, capsize=3, elinewidth=1.2, label=label,
    )  # fmt: skip
    last = len(values) - 1
    for place, side, aside in ((0, "right", -9), (last, "left", 9))[: len(values)]:
        panel.annotate(
            f"{values[place]:.2f}", (versions[place], values[place]), xytext=(aside, 0),
            textcoords="offset points", ha=side, va="center", color=colour, fontsize=10,
            fontweight="bold",
        )  # fmt: skip


def _whiskers(scores: Sequence[Estimate]) -> list[list[float]]:
    """Distances below and above; at least 0, for a skewed bootstrap may leave its mean outside."""
    return [
        [max(0.0, score.value - score.low) for score in scores],
        [max(0.0, score.high - score.value) for score in scores],
    ]


def _draw_batches(panel: Axes, updates: Sequence[Update]) -> None:
    panel.axhline(0, color="#BBBBBB", linewidth=0.8)
    lines = (
        ("score_mean", "mean verdict, \N{MINUS SIGN}1 to +1", _PURPLE, "o"),
        ("hint_rate", "share of samples with a hint, 0 to 1", _GREEN, "^"),
    )
    for key, label, colour, marker in lines:
        known = [update for update in updates if key in update.metrics]
        panel.plot(
            [update.version for update in known],
            [update.metrics[key] for update in known],
            color=colour, linewidth=1.8, marker=marker, markersize=4.5, label=label,
        )  # fmt: skip
    panel.set_ylim(-1.12, 1.12)
    panel.set_yticks([-1, -0.5, 0, 0.5, 1])
    panel.set_ylabel("batch mean")
    panel.set_title(
        "Trained on: what the next states said, in the batch that made each version",
        fontsize=10, loc="left", color="#333333",
    )  # fmt: skip
    panel.legend(loc="best", fontsize=_SMALL, frameon=False)


def _style(panel: Axes) -> None:
    from matplotlib.ticker import MaxNLocator

    panel.spines[["top", "right"]].set_visible(False)
    panel.spines[["left", "bottom"]].set_color("#888888")
    panel.tick_params(colors="#444444", labelsize=_SMALL)
    panel.grid(axis="y", color="#E6E6E6", linewidth=0.8)
    panel.set_axisbelow(True)
    panel.xaxis.set_major_locator(MaxNLocator(integer=True))
