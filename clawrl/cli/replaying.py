"""`clawrl replay RUN`: the table of what came out equal, and the first difference."""

from __future__ import annotations

from pathlib import Path

from rich.markup import escape
from rich.table import Table

from clawrl.cli.run import supervise
from clawrl.cli.screen import err, out
from clawrl.errors import ClawRLError
from clawrl.loop.display import StatusLine
from clawrl.offline.replay import Outcome, Tally, replay_run
from clawrl.records.folder import RunFolder


def replay(path: Path, *, records: bool) -> None:
    """`clawrl replay RUN`. Raises ClawRLError that names the first difference."""
    folder = RunFolder.open(path)
    found: list[Outcome] = []

    async def work(display: StatusLine) -> None:
        found.append(await replay_run(folder, display.phase, records=records))

    supervise(work)
    outcome = found[0]
    out.print(outcome_table(outcome, folder.root.name))
    for note in outcome.notes:
        err.print(f"note: {escape(note)}", soft_wrap=True, highlight=False)
    if outcome.difference is not None:
        raise ClawRLError(f"not bit-equal: {outcome.difference}")
    out.print("bit-equal")


def outcome_table(outcome: Outcome, name: str) -> Table:
    """What was recorded, what came out equal, and which fields that means."""
    table = Table("", "recorded", "equal", "compared", title=escape(name))
    open_turns = f"{outcome.unfinished} without a sample yet" if outcome.unfinished else ""
    table.add_row("turns", str(outcome.turns), "", open_turns)
    table.add_row("verdicts", *_counts(outcome.verdicts), "every field but cost")
    table.add_row("samples", *_counts(outcome.samples), "every field")
    if outcome.trained:
        compared = "samples in order, stale, digests before and after"
        table.add_row("updates", *_counts(outcome.updates), compared)
    else:
        table.add_row("updates", str(outcome.updates.of), "-", "not trained again")
    return table


def _counts(tally: Tally) -> tuple[str, str]:
    colour = "green" if tally.equal == tally.of else "red"
    return str(tally.of), f"[{colour}]{tally.equal}[/]"
