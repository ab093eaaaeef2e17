"""Sessions to effect: how many conversations it takes until the replies are what the user likes.

The number of the session in which the last of three passing first replies in a row is given. A
first reply is the one to a session's first main turn, the sessions are counted in the order in
which they began. Only what went through the gateway counts: measurements ask the engine itself and
leave no interaction behind. An error's text, an empty reply and one that was not served to its end
never pass and break the row; a session that was given no reply at all left no record.
Source: arXiv:2603.10165, personalization: at most 72 sessions, the mean of 5 runs.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from clawrl.errors import DataError
from clawrl.eval.scoring.no_reply import is_no_reply
from clawrl.eval.statistics.estimates import Observations, mean
from clawrl.records.folder import RunFolder
from clawrl.records.nouns import Interaction
from clawrl.tastes.student import reference_rule
from clawrl.tastes.taste import Taste

LIMIT = 72
"""Sessions looked at, as in the paper."""
ROW = 3
"""Passing first replies in a row."""

Rule = Callable[[str, str | None], bool]
"""Whether a reply passes, from its text and finish reason."""


@dataclass(frozen=True, slots=True)
class Effect:
    """When a run's first replies had become what the persona likes."""

    session: int
    """From 1; where it was not reached, how many were looked at: the limit, or all of the run's."""
    reached: bool


@dataclass(frozen=True, slots=True)
class MeanEffect:
    """The mean over runs, with its bootstrap interval over runs.

    A run that did not get there counts with the sessions that were looked at: where `reached` is
    below `n`, the mean is a lower bound.
    """

    value: float
    low: float
    high: float
    spread: float
    """Standard deviation of the runs; 0 for one run."""
    n: int
    """Runs."""
    reached: int
    """Runs that got there."""


def passes_all(taste: Taste) -> Rule:
    """The rule that every check of a taste passes."""
    return lambda text, finish_reason: all(taste.results(text, finish_reason).values())


def passes_reference_rule(text: str, finish_reason: str | None) -> bool:
    """The published setting's rule for the student: no bold, no numbered line, no box."""
    return reference_rule(text)


def sessions_to_effect(
    folder: RunFolder,
    taste: Taste,
    *,
    limit: int = LIMIT,
    row: int = ROW,
    rule: Rule | None = None,
) -> Effect:
    """The session in which the `row`-th passing first reply in a row was given.

    Args:
        folder: a run; its sessions are read, its measurements are not.
        taste: all of its checks must pass.
        limit: sessions looked at; without an effect among them, their number, as not reached.
        row: passing first replies in a row.
        rule: another rule in place of the taste's, such as `passes_reference_rule`.

    Raises:
        DataError: nobody has talked in this run.
        RecordError: a line is no interaction.
    """
    replies = first_replies(folder)[:limit]
    if not replies:
        raise DataError(f"{folder.root}: it has no session to count")
    found = effect_session(replies, rule or passes_all(taste), row=row)
    return Effect(len(replies) if found is None else found, reached=found is not None)


def mean_effect(
    folders: Sequence[RunFolder],
    taste: Taste,
    *,
    limit: int = LIMIT,
    row: int = ROW,
    rule: Rule | None = None,
) -> MeanEffect:
    """The mean over runs that differ in their seeds (the paper: 5).

    Raises:
        DataError: there is no run, or nobody has talked in one.
        RecordError: a line is no interaction.
    """
    if not folders:
        raise DataError("sessions to effect: name at least one run")
    effects = [
        sessions_to_effect(folder, taste, limit=limit, row=row, rule=rule) for folder in folders
    ]
    sessions = [float(effect.session) for effect in effects]
    # The position too: one run may be named twice, and its folder must not become one cluster.
    names = [f"{place} {folder.root}" for place, folder in enumerate(folders)]
    estimate = mean(Observations(sessions, names))
    return MeanEffect(
        value=estimate.value,
        low=estimate.low,
        high=estimate.high,
        spread=statistics.stdev(sessions) if len(sessions) > 1 else 0.0,
        n=len(effects),
        reached=sum(effect.reached for effect in effects),
    )


def first_replies(folder: RunFolder) -> list[Interaction]:
    """The first main turn of each session, in the order in which the sessions began.

    A first turn that the client asked for again counts as it was given first. Raises RecordError.
    """
    first: dict[str, Interaction] = {}
    for turn in folder.interactions.read():
        if turn.turn_type != "main":
            continue
        known = first.get(turn.session_id)
        if known is None or (turn.turn, turn.created) < (known.turn, known.created):
            first[turn.session_id] = turn
    return sorted(first.values(), key=lambda turn: (turn.created, turn.session_id))


def effect_session(replies: Sequence[Interaction], rule: Rule, *, row: int = ROW) -> int | None:
    """The number, from 1, of the reply that completes the row; None: there is no such row."""
    in_a_row = 0
    for number, turn in enumerate(replies, start=1):
        in_a_row = in_a_row + 1 if _passes(turn, rule) else 0
        if in_a_row == row:
            return number
    return None


def _passes(turn: Interaction, rule: Rule) -> bool:
    content: object = turn.reply.get("content")
    text = content if isinstance(content, str) else ""
    served_whole = turn.finish_reason is not None
    return (
        served_whole
        and not is_no_reply(text, turn.finish_reason)
        and rule(text, turn.finish_reason)
    )
