"""The report of a run: before and after, what it was trained on, and replies to read.

Only the run folder is read, so a report can be written again at any time:
`eval/vN.jsonl`, `updates.jsonl`, `samples/` and `config.yaml`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml
from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from clawrl.errors import DataError
from clawrl.eval.personalization import wording
from clawrl.eval.personalization.change import (
    Row,
    check_rows,
    complaint_row,
    control_rows,
    first_and_last,
    score_row,
)
from clawrl.eval.personalization.measurement import Measurement, measurements
from clawrl.eval.personalization.sessions_to_effect import ROW, sessions_to_effect
from clawrl.eval.statistics.estimates import DRAWS
from clawrl.records.folder import RunFolder
from clawrl.records.nouns import Retired, Update
from clawrl.report.learning_curve import draw_curve
from clawrl.report.replies import side_by_side
from clawrl.tastes.known import TASTES

REPORT, CURVE = "report.md", "learning_curve.png"
_SHOWN_REPLIES = 5


def write_report(folder: RunFolder) -> Path:
    """Write report.md and learning_curve.png into the run folder, over what was there.

    Returns:
        The path of report.md.

    Raises:
        UserError: the first and the last measurement cannot be compared.
        RecordError: a file of the run holds a bad line.
    """
    measured = measurements(folder)
    updates = folder.surviving_updates()
    title = _title(folder, measured)
    heading = _heading(folder, measured)
    drawn = draw_curve(folder.root / CURVE, "\n".join(heading), measured, updates)
    parts = [f"# {title}", *heading[:-1], _settings(folder)]
    if measured:
        before, after = first_and_last(measured)
        parts += [_summary(before, after)]
        parts += [f"![learning curve]({CURVE})"] if drawn else []
        parts += _tables(before, after)
        parts += [_training(folder, updates)]
        parts += _replies(before, after)
    else:
        parts += ["Nothing was measured in this run."]
        parts += [f"![learning curve]({CURVE})"] if drawn else []
        parts += [_training(folder, updates)]
    path = folder.root / REPORT
    path.write_text("\n\n".join(part for part in parts if part) + "\n", encoding="utf-8")
    return path


def summary_table(folder: RunFolder) -> Table:
    """The report's numbers for the screen, narrow enough for 80 columns.

    Raises:
        UserError: nothing was measured, or the measurements cannot be compared.
    """
    measured = measurements(folder)
    before, after = first_and_last(measured)
    table = Table(
        title=Text("\n".join(_heading(folder, measured))), title_justify="left", title_style="bold",
        caption="In brackets: 95% bootstrap interval over problems.", caption_justify="left",
        box=SIMPLE_HEAD, pad_edge=False, padding=(0, 0),
    )  # fmt: skip
    for name in ("mean", "before", "after", "change", "limit", "kept"):
        table.add_column(name, justify="left" if name == "mean" else "right", no_wrap=True)
    groups = (_headline(before, after), check_rows(before, after), control_rows(before, after))
    for place, rows in enumerate(groups):
        for row in rows:
            style = "bold" if place == 0 else "red" if row.holds is False else ""
            table.add_row(*(Text(cell) for cell in _narrow_cells(row)), style=style)
        table.add_section()
    return table


def _narrow_cells(row: Row) -> list[str]:
    """Without the intervals of both sides, where there is a change to show one for."""
    if row.after is None:
        before, after = wording.estimate(row.before, row.digits), wording.NOTHING
    else:
        before = wording.number(row.before.value, row.digits)
        after = wording.number(row.after.value, row.digits)
    return [row.name, before, after, wording.change(row), wording.limit(row), wording.holds(row)]


def _heads(before: Measurement, after: Measurement | None) -> list[str]:
    last = f"version {after.version}" if after else wording.NOTHING
    return ["mean [95% interval]", f"version {before.version}", last, "change", "limit", "holds"]


def _cells(row: Row) -> list[str]:
    return [
        row.name,
        wording.estimate(row.before, row.digits),
        wording.estimate(row.after, row.digits),
        wording.change(row),
        wording.limit(row),
        wording.holds(row).replace("NO", "**no**"),
    ]


def _config(folder: RunFolder) -> dict[str, Any]:
    try:
        loaded = yaml.safe_load(folder.config.read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError):
        return {}
    return loaded if isinstance(loaded, dict) else {}


def _title(folder: RunFolder, measured: Sequence[Measurement]) -> str:
    """The recipe and what came out, such as `student_persona: naturalness 0.37 to 0.90, ...`."""
    recipe = _config(folder).get("recipe", folder.root.name)
    if not measured:
        return str(recipe)
    first, last = measured[0], measured[-1]
    if first is last:
        return f"{recipe}: {first.metric} {first.score:.2f} at version {first.version}"
    return (
        f"{recipe}: {first.metric} {first.score:.2f} \N{RIGHTWARDS ARROW} {last.score:.2f} "
        f"after {last.version - first.version} updates"
    )


def _settings(folder: RunFolder) -> str:
    """One line of what a reader must know to repeat it."""
    config = _config(folder)
    wanted = (
        ("model", ("model", "name")),
        ("learning rate", ("learner", "lr")),
        ("samples per update", ("learner", "batch_samples")),
        ("binary weight", ("objective", "w_binary")),
        ("hindsight weight", ("objective", "w_opd")),
        ("judge", ("judge", "_target_")),
        ("seed", ("seed",)),
    )
    found = [f"Run `{folder.root.name}`"]
    for label, keys in wanted:
        value: Any = config
        for key in keys:
            value = value.get(key) if isinstance(value, dict) else None
        if value is not None:
            found.append(f"{label} `{value}`")
    return ", ".join(found) + ". The whole configuration: `config.yaml`."


def _headline(before: Measurement, after: Measurement | None) -> list[Row]:
    """The score, and the complaints where they are known."""
    complaints = complaint_row(before, after)
    return [score_row(before, after), *([complaints] if complaints else [])]


def _heading(folder: RunFolder, measured: Sequence[Measurement]) -> list[str]:
    """What came out, in a sentence for a stranger where complaints are known; then the title."""
    title = _title(folder, measured)
    if not measured:
        return [title]
    before, after = first_and_last(list(measured))
    row = complaint_row(before, after)
    return [wording.complaints(row, before.taste), title] if row else [title]


def _summary(before: Measurement, after: Measurement | None) -> str:
    row = score_row(before, after)
    start = f"**{before.metric} {wording.estimate(row.before, 2)}"
    if after is None or row.change is None:
        return f"{start}** at version {before.version}; no second measurement to compare with."
    sure = "excludes 0" if row.change.excludes_zero else "does not exclude 0"
    controls = [control for control in control_rows(before, after) if control.holds is not None]
    broken = [control.name for control in controls if not control.holds]
    kept = (
        f"All {len(controls)} controls hold."
        if not broken
        else f"{len(broken)} of {len(controls)} controls do not hold: {'; '.join(broken)}."
    )
    return (
        f"{start} \N{RIGHTWARDS ARROW} {wording.estimate(row.after, 2)}** from version "
        f"{before.version} to {after.version}: a change of {wording.change(row)}, "
        f"whose interval {sure}. {kept}"
    )


def _tables(before: Measurement, after: Measurement | None) -> list[str]:
    problems = len({reply.problem_id for reply in before.replies})
    note = (
        f"First replies to {problems} fixed problems, {len(before.replies)} in all, temperature "
        f"{before.temperature:g}, at most {before.max_tokens} tokens, the same seeds each time. "
        f"In brackets: 95% bootstrap intervals that draw problems ({DRAWS} draws); changes are "
        "drawn in pairs, the same problems on both sides."
    )
    wants = "\n".join(f"- `{name}`: {words}" for name, words in before.wants.items())
    taste = _table([*_headline(before, after), *check_rows(before, after)], before, after, 4)
    controls = _table(control_rows(before, after), before, after, 6)
    return [
        "## Before and after",
        note,
        taste,
        "What the checks ask for (each is the share of replies that pass it; "
        f"{before.metric} is their mean; an empty or repetitive reply passes none). The share "
        "complained about is of the replies that the persona says anything to:",
        wants,
        "## Controls",
        "What learning a taste should not cost. A control is judged by its estimate; the interval "
        "says how sure that is.",
        controls,
    ]


def _table(rows: list[Row], before: Measurement, after: Measurement | None, columns: int) -> str:
    heads = _heads(before, after)[:columns]
    sides = ["---", "---:", "---:", "---:", "---", "---"][:columns]
    lines = [heads, sides, *(_cells(row)[:columns] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _training(folder: RunFolder, updates: list[Update]) -> str:
    reasons: Counter[str] = Counter()
    accepted = 0
    for sample in folder.samples.read():
        if sample.accepted:
            accepted += 1
        else:
            reasons[(sample.reason or "unknown").replace("|", "/")] += 1
    retired = sum(isinstance(line, Retired) for line in folder.ledger_lines())
    rows = [
        ("updates", f"{len(updates)}" + (f" ({retired} retired by restarts)" if retired else "")),
        ("samples trained on", str(sum(len(update.sample_ids) for update in updates))),
        ("samples accepted", str(accepted)),
        (
            "samples rejected",
            ", ".join(f"{reason} {count}" for reason, count in reasons.most_common()) or "0",
        ),
        ("passed over as too old", str(sum(len(update.stale) for update in updates))),
        ("accepted, left over at the end", str(len(folder.remainder()))),
        *_effect(folder),
        *_extremes(updates),
    ]
    body = "\n".join(f"| {name} | {value} |" for name, value in rows)
    return f"## Training\n\n| | |\n| --- | --- |\n{body}"


def _effect(folder: RunFolder) -> list[tuple[str, str]]:
    """After how many sessions the replies were what the persona likes; none talked: no row."""
    taste = TASTES.get(str(_config(folder).get("taste")))
    try:
        effect = sessions_to_effect(folder, taste) if taste else None
    except DataError:
        effect = None
    if effect is None:
        return []
    session = str(effect.session) if effect.reached else f"not reached in {effect.session}"
    return [(f"sessions until {ROW} first replies in a row pass all checks", session)]


def _extremes(updates: list[Update]) -> list[tuple[str, str]]:
    """Mean and largest of what tells whether the learner was well."""
    labels = (
        ("mismatch", "engine against learner, same weights, nats a token", ".4f"),
        ("grad_norm", "gradient norm", ".3g"),
        ("clip_fraction", "share of tokens clipped", ".3f"),
        ("seconds", "seconds of learning per update", ".1f"),
    )
    rows: list[tuple[str, str]] = []
    for key, label, digits in labels:
        values = [update.metrics[key] for update in updates if key in update.metrics]
        if values:
            average = sum(values) / len(values)
            rows.append((label, f"mean {average:{digits}}, largest {max(values):{digits}}"))
    return rows


def _replies(before: Measurement, after: Measurement | None) -> list[str]:
    blocks = side_by_side(before, after, _SHOWN_REPLIES)
    note = (
        f"The first reply to each of the first {len(blocks)} problems of the fixed order, "
        "not chosen by how they look; shown exactly as written."
    )
    return ["## Replies", note, *blocks]
