"""`clawrl compare`: the comparison on the screen, and its files."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from clawrl.cli.screen import err, out, short
from clawrl.compare.differences import Comparison, compare, shown_replies
from clawrl.compare.report import (
    as_numbers,
    default_folder,
    others,
    score_heads,
    score_rows,
    seed_lines,
    write_comparison,
)
from clawrl.compare.sources import Reply, read_source
from clawrl.eval.personalization import wording
from clawrl.eval.personalization.change import Row

_LONGEST_REPLY = 420
_SIDE_BY_SIDE = 3
"""More replies than this stand below one another: their columns would be too narrow to read."""


def compare_runs(given: Sequence[str], *, out_dir: Path | None, as_json: bool) -> None:
    """`clawrl compare RUN RUN ...`."""
    sources = [read_source(name) for name in given]
    comparison = compare(sources)
    written = write_comparison(out_dir or default_folder(sources), comparison)
    if as_json:
        print(json.dumps(as_numbers(comparison), ensure_ascii=False, allow_nan=False))
    else:
        show(comparison)
    err.print(f"written: {short(written)} and {written.with_suffix('.png').name}", soft_wrap=True,
              highlight=False, markup=False)  # fmt: skip


def show(comparison: Comparison) -> None:
    """Everything on the screen, readable in 80 columns."""
    out.print(_scores(comparison))
    for line in [*seed_lines(comparison), *comparison.notes]:
        out.print(Text(line))
    for group, difference in others(comparison):
        if difference.controls:
            first = comparison.groups[0].name
            out.print()
            out.print(_controls(f"what else: {first} and {group.name}", difference.controls))
    out.print()
    if comparison.config:
        out.print(_config(comparison))
    else:
        out.print("configuration: no difference")
    names = [group.name for group in comparison.groups]
    for number, row in enumerate(shown_replies(comparison), start=1):
        _show_replies(number, row, names)


def _scores(comparison: Comparison) -> Table:
    table = _plain_table(None)
    for place, head in enumerate(score_heads(comparison)):
        table.add_column(
            Text(head), justify="left" if place in (0, 3) else "right", no_wrap=place > 0,
            overflow="fold",
        )  # fmt: skip
    styles = {"better": "green", "worse": "red"}
    for row in score_rows(comparison):
        *cells, verdict = row
        table.add_row(*map(Text, cells), Text(verdict, style=styles.get(verdict, "")))
    return table


def _controls(title: str, rows: Sequence[Row]) -> Table:
    table = _plain_table(title)
    table.add_column("")
    for head in ("first", "other", "change", "limit", "kept"):
        table.add_column(head, justify="right", no_wrap=True)
    for row in rows:
        after = (
            wording.NOTHING if row.after is None else wording.number(row.after.value, row.digits)
        )
        cells = (row.name, wording.number(row.before.value, row.digits), after,
                 wording.change(row), wording.limit(row), wording.holds(row))  # fmt: skip
        table.add_row(*map(Text, cells), style="red" if row.holds is False else "")
    return table


def _config(comparison: Comparison) -> Table:
    table = _plain_table("configuration: what differs")
    table.add_column("key", overflow="fold")
    for group in comparison.groups:
        table.add_column(Text(group.name), overflow="fold")
    for key, values in comparison.config.items():
        table.add_row(Text(key), *map(Text, values))
    return table


def _show_replies(number: int, row: Sequence[Reply | None], names: Sequence[str]) -> None:
    known = [(name, one) for name, one in zip(names, row, strict=True) if one is not None]
    problem = known[0][1]
    out.print()
    out.print(Text(f"{number}. {_cut(problem.question)} (answer: {problem.answer})", style="bold"))
    if len(known) <= _SIDE_BY_SIDE:
        table = _plain_table(None)
        for name, _ in known:
            table.add_column(Text(name), ratio=1, overflow="fold")
        table.add_row(*(Text(_cut(reply.text)) for _, reply in known))
        table.add_row(*(Text(reply.note, style="dim") for _, reply in known))
        out.print(table)
        return
    for name, reply in known:
        out.print(Text(f"{name}: {reply.note}", style="dim"))
        out.print(Text(_cut(reply.text)))


def _plain_table(title: str | None) -> Table:
    return Table(
        title=None if title is None else Text(title), title_justify="left", title_style="bold",
        box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0),
    )  # fmt: skip


def _cut(text: str) -> str:
    text = text.strip() or "(empty)"
    rest = len(text) - _LONGEST_REPLY
    return text if rest <= 0 else f"{text[:_LONGEST_REPLY]} ... ({rest} more characters)"
