"""A comparison as a document, and as numbers for other programs."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from clawrl.compare.differences import Comparison, Difference, shown_replies
from clawrl.compare.groups import Group
from clawrl.compare.picture import draw_comparison
from clawrl.compare.sources import Reply, Source
from clawrl.errors import MachineError
from clawrl.eval.personalization import wording
from clawrl.eval.personalization.change import Row
from clawrl.eval.statistics.estimates import Estimate
from clawrl.report.replies import verbatim

REPORT, PICTURE = "compare.md", "compare.png"
_HASH_LETTERS = 8


def default_folder(sources: Sequence[Source]) -> Path:
    """Beside the first run, under a name that belongs to all that is compared."""
    first = sources[0]
    names = "\n".join(f"{source.place}@{source.version}" for source in sources)
    key = hashlib.sha256(names.encode()).hexdigest()[:_HASH_LETTERS]
    if first.kind == "wandb":
        return Path("runs") / f"compare-{key}"
    parent = Path(first.place).parent
    if first.kind == "eval" and parent.name == "evals":
        parent = parent.parent
    return parent / f"compare-{key}"


def write_comparison(folder: Path, comparison: Comparison) -> Path:
    """Write compare.md and compare.png. Returns the path of compare.md.

    Raises:
        MachineError: the folder or a file cannot be written.
    """
    path = folder / REPORT
    try:
        folder.mkdir(parents=True, exist_ok=True)
        draw_comparison(folder / PICTURE, comparison)
        path.write_text(as_markdown(comparison), encoding="utf-8")
    except OSError as error:
        raise MachineError(f"{folder}: cannot be written: {error.strerror}") from None
    return path


def as_markdown(comparison: Comparison) -> str:
    """The whole document."""
    names = [group.name for group in comparison.groups]
    parts = [
        f"# {comparison.metric}: {', '.join(_inline(name) for name in names)}",
        _table(score_heads(comparison), score_rows(comparison)),
        "\n".join(f"- {_inline(line)}" for line in [*seed_lines(comparison), *comparison.notes]),
        f"![scores]({PICTURE})",
    ]
    for group, difference in others(comparison):
        if difference.controls:
            heads = [
                "mean [95% interval]", names[0], group.name, "change", "limit", "holds",
            ]  # fmt: skip
            rows = [
                [row.name, wording.estimate(row.before, row.digits),
                 wording.estimate(row.after, row.digits), *_change_cells(row)]
                for row in difference.controls
            ]  # fmt: skip
            parts += [f"## What else changed: {_inline(group.name)}", _table(heads, rows)]
    parts.append("## Configuration: what differs")
    if comparison.config:
        rows = [[key, *values] for key, values in comparison.config.items()]
        parts.append(_table(["key", *names], rows))
    else:
        parts.append("Nothing.")
    shown = shown_replies(comparison)
    if shown:
        parts.append("## Replies")
        parts.append(
            f"The first reply to each of the first {len(shown)} problems, not chosen by how they "
            "look; shown exactly as written."
        )
        parts += [_side_by_side(number, row, names) for number, row in enumerate(shown, start=1)]
    return "\n\n".join(part for part in parts if part) + "\n"


def others(comparison: Comparison) -> list[tuple[Group, Difference]]:
    """Each group but the first, with its difference to the first."""
    return list(zip(comparison.groups[1:], comparison.differences, strict=True))


def score_heads(comparison: Comparison) -> list[str]:
    """Of the table of scores."""
    return ["", comparison.metric, "difference to the first", "verdict"]


def score_rows(comparison: Comparison) -> list[list[str]]:
    """Each group's score, its difference to the first and the verdict."""
    first = comparison.groups[0]
    rows = [[first.label, _estimate(first.score), wording.NOTHING, wording.NOTHING]]
    for group, difference in others(comparison):
        plain = wording.number(difference.value, 2, sign=True)
        change = plain if difference.change is None else _signed(difference.change)
        rows.append([group.label, _estimate(group.score), change, difference.verdict])
    return rows


def seed_lines(comparison: Comparison) -> list[str]:
    """The score of each seed of the groups that have several."""
    lines: list[str] = []
    for group in comparison.groups:
        if len(group.sources) > 1:
            each = ", ".join(
                f"seed {source.seed} {wording.number(source.score.value, 2)}"
                for source in group.sources
            )
            lines.append(f"{group.name}: {each}.")
    return lines


def as_numbers(comparison: Comparison) -> dict[str, Any]:
    """Everything but the replies, for JSON: no number in it is NaN."""
    first = comparison.groups[0]
    differences: list[dict[str, Any]] = [
        {
            "name": group.name,
            "to": first.name,
            "difference": _interval(difference.change) or {"value": difference.value},
            "p": difference.p,
            "p_holm": difference.p_holm,
            "verdict": difference.verdict,
            "controls": [_row_numbers(row) for row in difference.controls],
        }
        for group, difference in others(comparison)
    ]
    groups: list[dict[str, Any]] = [
        {
            "name": group.name,
            "version": group.sources[0].version,
            "score": _interval(group.score),
            "sources": [
                {"place": one.place, "seed": one.seed, "score": _interval(one.score)}
                for one in group.sources
            ],
            "curve": {str(version): _interval(point) for version, point in group.curve.items()},
        }
        for group in comparison.groups
    ]
    return {
        "metric": comparison.metric,
        "problems": comparison.problems,
        "groups": groups,
        "differences": differences,
        "config": comparison.config,
        "notes": comparison.notes,
    }


def _row_numbers(row: Row) -> dict[str, Any]:
    return {
        "name": row.name,
        "before": _interval(row.before),
        "after": _interval(row.after),
        "change": _interval(row.change),
        "change_as": row.change_as,
        "holds": row.holds,
    }


def _interval(found: Estimate | None) -> dict[str, float | None] | None:
    if found is None:
        return None
    numbers = {"value": found.value, "low": found.low, "high": found.high}
    return {name: number if math.isfinite(number) else None for name, number in numbers.items()}


def _estimate(found: Estimate) -> str:
    return wording.estimate(found, 2)


def _signed(found: Estimate) -> str:
    numbers = (wording.number(each, 2, sign=True) for each in (found.value, found.low, found.high))
    value, low, high = numbers
    return f"{value} [{low}, {high}]"


def _change_cells(row: Row) -> list[str]:
    return [wording.change(row), wording.limit(row), wording.holds(row).replace("NO", "**no**")]


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [[_inline(head) for head in heads], ["---"] * len(heads)]
    lines += [[_inline(cell) for cell in row] for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _inline(text: str) -> str:
    """A name or value that Markdown must not read as its own signs; bold is ours."""
    escaped = text.replace("\n", " ").replace("<", "&lt;").replace("|", "\\|")
    return escaped.replace("_", "\\_").replace("[", "\\[").replace("`", "\\`")


def _side_by_side(number: int, row: Sequence[Reply | None], names: Sequence[str]) -> str:
    known = [(name, reply) for name, reply in zip(names, row, strict=True) if reply is not None]
    problem = known[0][1]
    width = 100 // len(known)
    heads = "".join(f'<th width="{width}%">{verbatim(name)}</th>' for name, _ in known)
    texts = "".join(f'<td valign="top">{verbatim(reply.text)}</td>\n' for _, reply in known)
    notes = "".join(f"<td><sub>{verbatim(reply.note)}</sub></td>" for _, reply in known)
    question = verbatim(problem.question).replace("<br>\n", " ").replace("&nbsp;", "")
    return (
        f"**{number}.** {question} (answer: {verbatim(problem.answer)})\n\n"
        f"<table>\n<tr>{heads}</tr>\n<tr>\n{texts}</tr>\n<tr>{notes}</tr>\n</table>"
    )
