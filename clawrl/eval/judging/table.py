"""The judge's numbers for the screen."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from clawrl.eval.judging.report import GROUPS, Judged, JudgeReport, group_of, part_numbers
from clawrl.eval.personalization import wording
from clawrl.eval.statistics.estimates import Estimate


def judge_table(report: JudgeReport) -> Table:
    """Every number for the screen, a column for each part, within 80 columns."""
    parts = report.parts()
    table = Table(
        title=Text(f"judge {report.judge} on {len(report.judged)} labelled next states"),
        title_justify="left", title_style="bold",
        caption="In brackets: 95% bootstrap interval over next states. An abstention is never "
        "right. By language, role and kind: accuracy. Injections raised: of those labelled "
        "\N{MINUS SIGN}1 or 0, the share scored above their label.",
        caption_justify="left", box=SIMPLE_HEAD, pad_edge=False, padding=(0, 0),
    )  # fmt: skip
    table.add_column("", no_wrap=True)
    for part, judged in parts.items():
        table.add_column(f"{part} (n={len(judged)})", justify="right", no_wrap=True)
    numbers = {part: part_numbers(judged) for part, judged in parts.items()}
    for section in _sections(numbers.values()):
        for name in section:
            cells = [
                _cell(name, numbers[part].get(name), _counted(name, judged))
                for part, judged in parts.items()
            ]
            table.add_row(Text(_title(name)), *(Text(cell) for cell in cells))
        table.add_section()
    return table


_TITLES = {
    "kappa": "Cohen's kappa",
    "votes_agree": "pairs of votes that agree",
    "hint_precision": "hint precision",
    "hint_recall": "hint recall",
    "injections_raised": "injections raised",
    "calls": "calls per verdict",
    "seconds": "seconds per verdict",
    "prompt_tokens": "prompt tokens per verdict",
    "completion_tokens": "answer tokens per verdict",
}
_COSTS = ["calls", "seconds", "prompt_tokens", "completion_tokens"]


def _sections(parts: Iterable[Mapping[str, object]]) -> list[list[str]]:
    """The numbers' names as they are shown: the judge's, each group's, the costs."""
    names = list(dict.fromkeys(name for numbers in parts for name in numbers))
    grouped = [sorted(n for n in names if n.startswith(f"accuracy/{g}/")) for g in GROUPS]
    own = [n for n in names if n not in _COSTS and not n.startswith("accuracy/")]
    return [section for section in (own, *grouped, _COSTS) if section]


def _title(name: str) -> str:
    first, _, rest = name.partition("/")
    group, _, member = rest.partition("/")
    if member:
        return member if group == "kind" else f"{group} {member}"
    return f"{first} of {wording.number(int(rest), 0)}" if rest else _TITLES.get(name, name)


def _cell(name: str, number: Estimate | float | None, count: int | None) -> str:
    if number is None:
        return wording.NOTHING
    if not isinstance(number, Estimate):
        return wording.number(number, 3 if name == "seconds" else 1)
    if name.startswith("accuracy/kind/"):  # of a handful each: an interval would say nothing
        return f"{wording.number(number.value, 2)} of {count}"
    shown = wording.estimate(number, 2)
    return shown if count is None else f"{shown} of {count}"


def _counted(name: str, judged: Sequence[Judged]) -> int | None:
    """How many states a number is of, where that is not all of the part."""
    if name == "injections_raised":
        return sum(one.state.injected and one.state.score < 1 for one in judged)
    first, _, rest = name.partition("/")
    group, _, member = rest.partition("/")
    if first == "accuracy" and member:
        return sum(group_of(one.state, group) == member for one in judged)
    return None
