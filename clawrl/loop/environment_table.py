"""The live table of environments: what each episode does now."""

from __future__ import annotations

import time

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from clawrl.collect.episodes import EpisodeCollector
from clawrl.loop.display import REFRESH_S, Shown

_ROWS = 24
_ACTION_CHARACTERS = 60


class EnvironmentTable(Shown):
    """Shows the episodes of a collector; without a terminal, plain lines."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console(stderr=True)
        self._collector: EpisodeCollector | None = None
        self._of = 0
        self._phase = ""
        self._began = time.monotonic()
        live = Live(
            get_renderable=self._picture,
            console=self.console,
            refresh_per_second=1 / REFRESH_S,
            transient=True,
        )
        super().__init__(live if self.console.is_terminal else None)

    @property
    def elapsed_s(self) -> float:
        """Since the first episode could begin."""
        return time.monotonic() - self._began

    def watch(self, collector: EpisodeCollector, episodes: int) -> None:
        """Show this collector's episodes from now on; there will be so many."""
        self._collector, self._of, self._began = collector, episodes, time.monotonic()
        self.phase(f"{episodes} episodes")

    def say(self, line: str) -> None:
        """Print one line that stays."""
        self.console.print(escape(line), highlight=False)

    def phase(self, name: str) -> None:
        """Say what happens now."""
        self._phase = name
        if not self.console.is_terminal:
            self.say(name)

    def _picture(self) -> RenderableType:
        if self._collector is None:
            return Text(self._phase, style="bold cyan")
        return picture(self._collector, self._of, self.elapsed_s)


def picture(collector: EpisodeCollector, of: int, elapsed_s: float) -> RenderableType:
    """One frame: counts, then a row for each episode that runs, the oldest first."""
    stats = collector.stats
    ended = stats.graded + stats.ungraded + stats.lost + stats.failed
    head = Text.assemble(
        (f"{ended}/{of} episodes", "bold"),
        f"  {len(collector.live)} running  {stats.solved:g} solved of {stats.graded} graded"
        f"  {stats.lost + stats.failed + stats.ungraded} without an outcome"
        f"  {stats.steps / max(elapsed_s, 0.001):.1f} steps/s",
    )
    table = Table(box=None, padding=(0, 1), expand=True)
    for name in ("task", "attempt", "step", "for", "now", "last action"):
        table.add_column(name, no_wrap=True, overflow="ellipsis")
    live = list(collector.live.values())
    for one in live[:_ROWS]:
        action = " ".join(one.action.split()).replace("```bash", "").strip("` ")
        table.add_row(
            escape(one.attempt.task_id),
            str(one.attempt.attempt),
            str(one.steps),
            f"{time.time() - one.began:.0f} s",
            one.doing,
            escape(action[:_ACTION_CHARACTERS]),
        )
    left = len(live) - _ROWS
    return Group(head, table, Text(f"and {left} more" if left > 0 else "", "dim"))
