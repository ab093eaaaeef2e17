"""The live picture of a run, for people; plain lines where there is no terminal."""

from __future__ import annotations

import io
from pathlib import Path
from types import TracebackType
from typing import Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.markup import escape
from rich.panel import Panel
from rich.progress import Progress
from rich.progress_bar import ProgressBar
from rich.status import Status
from rich.table import Table
from rich.text import Text

from clawrl.loop.state import RunState

REFRESH_S = 0.25
BARS = "▁▂▃▄▅▆▇█"
SVG_COLUMNS = 92


class Shown:
    """Draws something that changes from entering the context until leaving it; None: nothing."""

    def __init__(self, drawn: Live | Status | Progress | None) -> None:
        self._drawn = drawn

    def __enter__(self) -> Self:
        if self._drawn is not None:
            self._drawn.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._drawn is not None:
            self._drawn.stop()


class Display(Shown):
    """Shows a `RunState`; `say` prints a line that stays above the live picture."""

    def __init__(self, state: RunState, console: Console | None = None) -> None:
        self.state = state
        self.console = console or Console(stderr=True)
        live = Live(
            get_renderable=lambda: picture(self.state),
            console=self.console,
            refresh_per_second=1 / REFRESH_S,
            transient=True,
        )
        super().__init__(live if self.console.is_terminal else None)

    def say(self, line: str) -> None:
        """Print one line, whatever it holds."""
        self.console.print(escape(line), highlight=False)

    def phase(self, name: str) -> None:
        """Say what the run does now; without a terminal that is a line."""
        self.state.phase = name
        if self._drawn is None:
            self.say(name)

    def save_svg(self, path: Path) -> None:
        """The picture as it stands, as SVG."""
        console = Console(record=True, width=SVG_COLUMNS, file=io.StringIO(), force_terminal=True)
        console.print(picture(self.state))
        console.save_svg(str(path), title="clawrl train")


def picture(state: RunState) -> RenderableType:
    """One frame: progress, figures, queues, the curve so far."""
    bar = Table.grid(expand=True, padding=(0, 1))
    bar.add_column(no_wrap=True)
    bar.add_column(ratio=1)
    bar.add_column(no_wrap=True, justify="right")
    done, of = state.version, state.target
    if of is None:  # no end: what fills is the next batch
        done, of = max(0, min(state.unused, state.batch_samples)), state.batch_samples
    bar.add_row(
        f"version {state.version}" if state.target is None else f"update {state.version}/{of}",
        ProgressBar(total=of, completed=done),
        f"{int(state.elapsed_s) // 60}:{int(state.elapsed_s) % 60:02d}",
    )
    figures = Table.grid(expand=True, padding=(0, 2))
    for _ in range(4):
        figures.add_column(ratio=1)
    for row in _figures(state):
        figures.add_row(*(cell for label, value in row for cell in (Text(label, "dim"), value)))
    parts: list[RenderableType] = [bar, Text(state.phase, style="bold cyan"), figures]
    if state.rejected:
        reasons = ", ".join(f"{name} {count}" for name, count in state.rejected.most_common(4))
        parts.append(Text(f"rejected: {reasons}", "dim"))
    if state.evals:
        parts.append(_curve(state))
    return Panel(
        Group(*parts), title=f"clawrl · {escape(state.name)}", subtitle=escape(state.folder)
    )


def _figures(state: RunState) -> list[list[tuple[str, str]]]:
    last = state.last
    return [
        [
            ("verdicts, mean", _number(state.score_mean, "+.2f")),
            ("hints", _percent(state.hint_rate)),
        ],
        [
            ("next batch", f"{max(state.unused, 0)}/{state.batch_samples}"),
            ("turns in flight", str(state.in_flight)),
        ],
        [
            ("waiting for judge", str(state.waiting_for_judge)),
            ("waiting for disk", str(state.waiting_for_disk)),
        ],
        [
            ("staleness", str(state.staleness)),
            ("engine mismatch", _number(last.get("mismatch"), ".1e", " nats")),
        ],
        [
            ("learner", _number(last.get("tokens_per_s"), ".0f", " tokens/s")),
            ("weights pause", _number(state.pause_s, ".2f", " s")),
        ],
    ]


def _curve(state: RunState) -> Text:
    values = [value for _, value in state.evals]
    marks = "".join(BARS[min(len(BARS) - 1, int(value * len(BARS)))] for value in values)
    ends = f"{values[0]:.2f} → {values[-1]:.2f}" if len(values) > 1 else f"{values[0]:.2f}"
    return Text.assemble(("measured score  ", "dim"), (marks, "green"), f"  {ends}")


def _number(value: float | None, form: str, unit: str = "") -> str:
    return "-" if value is None else f"{value:{form}}{unit}"


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.0%}"


class StatusLine(Shown):
    """One line that says what a short command does now; plain lines without a terminal."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self._status = console.status("") if console.is_terminal else None
        self._last = ""
        super().__init__(self._status)

    def say(self, line: str) -> None:
        """Print one line that stays."""
        self.console.print(escape(line), highlight=False, soft_wrap=True)

    def phase(self, name: str) -> None:
        """Say what goes on. Without a terminal a counter is said once, not at every step."""
        if self._status is not None:
            self._status.update(escape(name))
            return
        kind = "".join(letter for letter in name if not letter.isdigit())
        if kind != self._last:
            self._last = kind
            self.say(name)
