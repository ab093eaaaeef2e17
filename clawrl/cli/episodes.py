"""`clawrl episodes`: the attempts of a run as a table, or one of them as a person would read it."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

from pydantic import ValidationError
from rich.markup import escape
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from clawrl.cli.screen import out
from clawrl.environments.states import state_of
from clawrl.errors import UserError
from clawrl.records.folder import RunFolder
from clawrl.records.nouns import Episode, Interaction, Step, Verdict

_ID_CHARACTERS = 8


def episodes(path: Path, *, show: str | None, as_json: bool) -> None:
    """List a run's episodes, or print the one whose id begins with `show`.

    Raises:
        UserError: no run, no episodes, or no one such episode.
    """
    folder = RunFolder.open(path)
    found = list(folder.episodes.read())
    if not found:
        raise UserError(f"{path}: no episodes here; `clawrl collect recipe=terminal` makes some")
    if show is not None:
        found = [one for one in found if one.session_id.startswith(show)]
        if len(found) != 1:
            raise UserError(f"{path}: {len(found)} episodes have an id that begins with '{show}'")
    if as_json:
        for one in found:
            print(one.model_dump_json())
    elif show is None:
        _list(found)
    else:
        _show(folder, found[0])


def _list(found: list[Episode]) -> None:
    table = Table(box=None, padding=(0, 1))
    for name in ("id", "task", "attempt", "steps", "outcome", "ended", "s"):
        table.add_column(name, justify="left" if name in ("id", "task", "ended") else "right")
    for one in found:
        table.add_row(
            one.session_id[:_ID_CHARACTERS],
            escape(one.task_id),
            f"{one.group}.{one.attempt}",
            str(len(one.steps)),
            _reward(one),
            one.ended.replace("_", " "),
            f"{one.seconds:.1f}",
        )
    out.print(table)
    by_task: dict[str, list[float]] = defaultdict(list)
    for one in found:
        if one.reward is not None:
            by_task[one.task_id].append(one.reward)
    graded = [reward for rewards in by_task.values() for reward in rewards]
    mean = f"{sum(graded) / len(graded):.0%} solved" if graded else "none graded"
    tried = sum(1 for rewards in by_task.values() if 0 < sum(rewards) < len(rewards))
    out.print(
        f"{len(found)} episodes at {len(by_task)} tasks, {mean}; "
        f"{tried} tasks solved by some attempts and not by others"
    )


def _show(folder: RunFolder, episode: Episode) -> None:
    turns = {step.interaction_id for step in episode.steps}
    said = {i.interaction_id: i for i in folder.interactions.read() if i.interaction_id in turns}
    judged = {v.interaction_id: v for v in folder.verdicts.read() if v.interaction_id in turns}
    out.print(
        f"[bold]{escape(episode.task_id)}[/]  attempt {episode.attempt} of group {episode.group}"
        f"  session {episode.session_id}"
    )
    first = said.get(episode.steps[0].interaction_id) if episode.steps else None
    for message in first.messages if first else ():
        out.print(Panel(Text(str(message.get("content"))), title=str(message.get("role"))))
    for number, step in enumerate(episode.steps):
        out.print(_step(number, step, said, judged))
    out.print(
        f"outcome [bold]{_reward(episode)}[/]  {episode.ended.replace('_', ' ')}"
        f" after {episode.seconds:.1f} s  {escape(episode.detail)}"
    )


def _step(
    number: int, step: Step, said: dict[str, Interaction], judged: dict[str, Verdict]
) -> Table:
    """One step: the reply, what came back, and the verdict on it beside."""
    row = Table.grid(padding=(0, 1), expand=True)
    row.add_column(ratio=1)
    row.add_column(width=14)
    turn, verdict = said.get(step.interaction_id), judged.get(step.interaction_id)
    reply = turn.reply if turn else {}
    calls = [f"{c['function']['name']}({c['function']['arguments']})" for c in
             reply.get("tool_calls") or ()]  # fmt: skip
    text = "\n".join(filter(None, [reply.get("content") or "", *calls]))
    row.add_row(Panel(Text(text), title=f"step {number}", border_style="cyan"), _score(verdict))
    row.add_row(Panel(Text(_came_back(step)), title="came back", border_style="dim"), "")
    return row


def _came_back(step: Step) -> str:
    try:
        return state_of(step.state).text()
    except ValidationError:
        return str(step.state)


def _score(verdict: Verdict | None) -> str:
    if verdict is None:
        return "not judged"
    return "abstained" if verdict.score is None else f"verdict {verdict.score:+d}"


def _reward(episode: Episode) -> str:
    return "-" if episode.reward is None else f"{episode.reward:g}"
