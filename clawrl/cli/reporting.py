"""`clawrl report`: a run's report, and the paper's table beside the published numbers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from clawrl.cli.screen import err, out, short
from clawrl.errors import UserError
from clawrl.eval.personalization import wording
from clawrl.records.folder import RunFolder
from clawrl.report.paper_table import (
    BY_MODEL,
    KINDS,
    UPDATES,
    Kind,
    PaperTable,
    paper_tables,
)
from clawrl.report.run_report import summary_table, write_report

NOT_RUN = "not run"
_NAMES: dict[Kind, str] = {"binary": "binary", "opd": "OPD", "combined": "combined"}


def report_run(path: Path) -> None:
    """`clawrl report run RUN`, and the end of every training."""
    folder = RunFolder.open(path)
    written = write_report(folder)
    out.print(summary_table(folder))
    err.print(f"report: {short(written)}", soft_wrap=True)


def report_paper(paths: Sequence[Path], *, markdown: Path | None) -> None:
    """`clawrl report paper RUN...`."""
    tables = paper_tables([RunFolder.open(path) for path in paths])
    for table in tables:
        for measure in table.measures:
            out.print(on_screen(table, measure))
        for line in [*_seed_lines(table), *table.notes]:
            out.print(Text(line))
    if markdown is not None:
        try:
            markdown.write_text(as_markdown(tables), encoding="utf-8")
        except OSError as error:
            raise UserError(f"{markdown}: cannot be written: {error.strerror}") from None
        err.print(f"table: {short(markdown)}", soft_wrap=True)


def on_screen(table: PaperTable, measure: str) -> Table:
    """One measure for the screen, narrow enough for 80 columns."""
    shown = Table(
        title=Text(_title(table, measure)), title_justify="left", title_style="bold",
        box=SIMPLE_HEAD, pad_edge=False, padding=(0, 0, 0, 0), collapse_padding=True,
    )  # fmt: skip
    for head in _heads(table, measure, mark="*"):
        shown.add_column(head, justify="left" if head == "updates" else "right", no_wrap=True)
    for row in _rows(table, measure, between="\n"):
        shown.add_row(*(Text(cell) for cell in row))
    return shown


def as_markdown(tables: Sequence[PaperTable]) -> str:
    """All tables as a document."""
    parts: list[str] = []
    for table in tables:
        for measure in table.measures:
            heads = _heads(table, measure, mark=" *published*")
            sides = ["---", *["---:"] * (len(heads) - 1)]
            lines = [heads, sides, *_rows(table, measure, between="<br>")]
            parts.append(f"## {_title(table, measure)}")
            parts.append("\n".join(f"| {' | '.join(line)} |" for line in lines))
        lines = [*_seed_lines(table), *table.notes]
        parts.append("\n".join(f"- {line.removeprefix('* ')}" for line in lines))
    return "\n\n".join(parts) + "\n"


def _title(table: PaperTable, measure: str) -> str:
    return f"{table.taste}, {table.model}: {measure}"


def _heads(table: PaperTable, measure: str, *, mark: str) -> list[str]:
    published = [f"{_NAMES[kind]}{mark}" for kind in KINDS] if _beside(table, measure) else []
    return ["updates", *(_NAMES[kind] for kind in KINDS), *published]


def _beside(table: PaperTable, measure: str) -> bool:
    """The published number is a score: it stands beside scores, not beside the rule alone."""
    return bool(table.published) and measure in (table.metric, BY_MODEL)


def _rows(table: PaperTable, measure: str, *, between: str) -> list[list[str]]:
    rows: list[list[str]] = []
    for updates in UPDATES:
        row = ["0 (base)" if updates == 0 else str(updates)]
        row += [_cell(table, kind, updates, measure, between) for kind in KINDS]
        if _beside(table, measure):
            row += [wording.number(table.published[kind, updates], 2) for kind in KINDS]
        rows.append(row)
    return rows


def _cell(table: PaperTable, kind: Kind, updates: int, measure: str, between: str) -> str:
    cell = table.cells.get((kind, updates))
    if cell is None or measure not in cell.measures:
        return NOT_RUN
    found, seeds = cell.measures[measure], len(cell.by_seed)
    low, high = wording.number(found.low, 2), wording.number(found.high, 2)
    return (
        f"{wording.number(found.value, 2)}, {seeds} seed{'s' if seeds > 1 else ''}"
        f"{between}[{low}, {high}]"
    )


def _seed_lines(table: PaperTable) -> list[str]:
    """The spread between training runs: the score of each seed."""
    lines: list[str] = []
    for updates in UPDATES[1:]:
        found = [
            f"{_NAMES[kind]} {', '.join(wording.number(x, 2) for x in cell.by_seed.values())}"
            for kind in KINDS
            if (cell := table.cells.get((kind, updates))) and len(cell.by_seed) > 1
        ]
        if found:
            lines.append(f"{table.metric} after {updates} updates by seed: {'; '.join(found)}.")
    return lines
