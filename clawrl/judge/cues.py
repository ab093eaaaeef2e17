"""The judge without a model: phrases, exit codes and error messages in the next state.

Invariant: it reads the next state and nothing else, so that no property of the reply can earn a
reward. The hint is made of the user's own words. What the next state says to a judge ("score this
1") is not read, and beside it only a fault counts: approval from such a place is not believed.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from dataclasses import dataclass, replace
from functools import cache

from clawrl.judge.clauses import Clause, clauses, machine_text, plain, unquoted, without_tasks
from clawrl.judge.injections import without_injections
from clawrl.judge.phrasebook import Rule, language_rules
from clawrl.judge.shape import (
    blames,
    mark,
    meant_else,
    next_work,
    not_yet,
    notice,
    own_fault,
    own_words,
    requests,
    says_right,
    shrug,
)
from clawrl.judge.tool_output import exit_code, read_output
from clawrl.judge.votes import choose_hint, majority
from clawrl.judge.wording import instruction, joined, reminder
from clawrl.protocols import Judge
from clawrl.records.nouns import Cost, Feedback, HintVote, Interaction, Score, Verdict, Vote

log = logging.getLogger(__name__)

BARE_WORDS = 5
"""A complaint without advice must have this many words to be a hint: "that's wrong" is none."""
FACT_CHARS = 6
"""A shorter one says too little: "no", "wrong sum" in Chinese."""
TERSE_CHARS = 40
"""A longer message is no fragment."""

_TAKING_AWAY = ("reassurance", "aside")
_PRAISE = ("approval", "used", "moving_on")
"""Not looked for in what the person quotes."""


class CuesJudge(Judge):
    """One vote and at most one hint, the same ones each time for the same next state."""

    name = "cues/4"

    async def judge(self, interaction: Interaction, feedback: Feedback) -> Verdict:
        """Read the next state; of the interaction only its ids are used."""
        started = time.monotonic()
        # In a thread: a long message takes longer than the serving loop may be held.
        score, hint = await asyncio.to_thread(read_next_state, feedback.role, feedback.content)
        votes = [Vote(score=score, problem=_why_none(feedback.content) if score is None else None)]
        hints = [HintVote(hint=hint)] if hint else []
        return Verdict(
            interaction_id=interaction.interaction_id,
            session_id=interaction.session_id,
            judge=self.name,
            votes=votes,
            score=majority(votes),
            hints=hints,
            hint=choose_hint(hints),
            cost=Cost(seconds=time.monotonic() - started),
        )


def read_next_state(role: str, content: str) -> tuple[Score | None, str | None]:
    """Score and hint of a next state.

    Args:
        role: `user` or `tool`.
        content: its text.

    Returns:
        -1 where anything in it asks for a change or tells of a failure, also beside thanks; else +1
        where it thanks, agrees, has used it or moves on, or is a tool's output without an error;
        else 0. None where a person wrote nothing, or where nothing but approval stands beside an
        instruction to the judge that could be meant to raise the score. A hint goes with -1, and
        with the +1 of a reply that was used though the next one is wished to be different.
    """
    cleaned = without_injections(role, content)
    score, hint = _read(role, cleaned.text)
    return (None, None) if cleaned.raising and score != -1 else (score, hint)


def _why_none(content: str) -> str:
    return "instructs_the_judge" if content.strip() else "empty_next_state"


@dataclass(frozen=True, slots=True)
class _Reading:
    """What one clause says."""

    clause: Clause
    score: Score = 0
    hints: tuple[str, ...] = ()
    used: bool = False
    """The reply was put to use."""
    wish: bool = False
    """Its only fault is a wish for the next time."""
    asks: bool = False
    """All that was found is a request."""
    skipped: bool = False
    """It belongs to a new problem or puts the matter off, so nothing was looked for."""


def _read(role: str, content: str) -> tuple[Score | None, str | None]:
    if role == "tool":
        return read_output(content)
    if not content.strip():
        return None, None
    if (marked := mark(content)) is not None:
        return marked, None
    if notice(content):
        return 0, None
    if len(content.strip()) <= TERSE_CHARS and shrug(content):
        return -1, None
    found = [_read_clause(clause, task) for clause, task in without_tasks(clauses(content))]
    found = [_set_against(found[:i], one) for i, one in enumerate(found)]
    found = _taking_back([_going_on(found[:i], one) for i, one in enumerate(found)])
    pasted_score, pasted_hint = read_output(_pasted(content))
    faults = [one for one in found if one.score == -1]
    hint = joined([*(words for one in faults for words in one.hints), pasted_hint or ""])
    if pasted_score == -1:
        return -1, hint
    if faults:
        kept = any(one.used for one in found) and all(one.wish for one in faults)
        return (1 if kept else -1), hint
    if any(one.score == 1 for one in found):
        return 1, None
    return _read_terse(content)


def _going_on(before: list[_Reading], one: _Reading) -> _Reading:
    """After praise a request for another piece of work is no fault of the last one."""
    praised = any(earlier.score == 1 for earlier in before)
    if one.asks and praised and not one.clause.contrasted and next_work(one.clause.text):
        return replace(one, score=1, hints=(), wish=False)
    return one


def _taking_back(found: list[_Reading]) -> list[_Reading]:
    """Where people correct themselves, what they ask for follows from that.

    Blame of the reply stays. Thanks behind it are for what is asked: only praise before it counts.
    """
    texts = [one.clause.text for one in found]
    asked = any(one.score == -1 for one in found) or any(requests(text) for text in texts)
    own = [meant_else(text) or (asked and (own_words(text) or own_fault(text))) for text in texts]
    if not any(own):
        return _unread(found) if any(not_yet(text) for text in texts) else found
    first = own.index(True)
    kept = [
        not own[i]
        and (
            (one.score == -1 and (blames(one.clause.text) or one.clause.contrasted))
            or (one.score == 1 and (i < first or says_right(one.clause.text)))
        )
        for i, one in enumerate(found)
    ]
    return [
        one if keep else replace(one, score=0, hints=(), used=False, wish=False)
        for one, keep in zip(found, kept, strict=True)
    ]


def _unread(found: list[_Reading]) -> list[_Reading]:
    """Of who has not looked at the reply only thanks and blame of the reply itself count."""
    return [
        replace(one, score=0, hints=()) if one.score == -1 and not blames(one.clause.text) else one
        for one in found
    ]


def _set_against(before: list[_Reading], one: _Reading) -> _Reading:
    """After "but" an unknown thought is a fault if praise stands before it or it asks again."""
    if one.score != 0 or one.skipped or not one.clause.contrasted:
        return one
    text = one.clause.text
    if text.endswith(("?", "\uff1f")):
        return one if _WONDERS.match(text) else replace(one, score=-1)
    if not any(earlier.score == 1 for earlier in before):
        return one
    return replace(one, score=-1, hints=(instruction(text),))


_WONDERS = re.compile(
    r"(?:why|what if|isn'?t|wouldn'?t|couldn'?t|can you also)\b|为什么|为何", re.I
)


def _read_terse(content: str) -> tuple[Score, str | None]:
    """A message of a few words in which nothing else was found."""
    text = plain(content.strip())
    if len(text) > TERSE_CHARS or "\n" in text:
        return 0, None
    if any(rule.kind == "terse" and rule.found(text) for rule in _in_order()):
        return -1, joined([instruction(content)])
    return 0, None


def _pasted(content: str) -> str:
    """Tool output inside a person's message; all of it where it tells an exit code."""
    return content if exit_code(content) is not None else machine_text(content)


@dataclass(frozen=True, slots=True)
class _Fault:
    """A phrase that found fault, where it stands in its clause, and the advice for it."""

    rule: Rule
    at: int
    advice: str | None


def _read_clause(clause: Clause, task: bool) -> _Reading:
    """One clause alone; of a new problem only its announcement counts."""
    text, approved, praised, used, skipped = plain(clause.text), False, False, False, task
    faults: list[_Fault] = []
    for rule in _in_order():
        if rule.kind == "terse" or (task and rule.kind != "moving_on"):
            continue
        if rule.kind in _TAKING_AWAY:
            # What was denied must not be read as said; the rest of the clause still counts.
            text, taken = rule.taken_from(text)
            approved = approved or (taken and rule.kind == "reassurance")
            skipped = skipped or (taken and rule.kind == "aside")
            continue
        match = rule.found(unquoted(text) if rule.kind in _PRAISE else text)
        if match is None:
            continue
        if rule.kind in _PRAISE:
            approved, used = True, used or rule.kind == "used"
            praised = praised or rule.kind != "moving_on"
        else:
            faults.append(_Fault(rule, match.start(), rule.instruction(match)))
    if praised and all(fault.rule.kind == "fact" for fault in faults):
        # "good to know that it isn't my fault": of one thought the praise counts.
        faults = [fault for fault in faults if _COMMA.search(text, 0, fault.at)]
    if faults:
        log.debug("clause read as %s", [fault.rule.about for fault in faults])
        kinds = {fault.rule.kind for fault in faults}
        return _Reading(
            clause, -1, _instructions(clause.text, faults), used, "wish" in kinds,
            asks=kinds <= {"directive", "wish"},
        )  # fmt: skip
    return _Reading(clause, 1 if approved else 0, used=used, skipped=skipped)


_COMMA = re.compile("[,\uff0c]")


def _instructions(clause: str, faults: list[_Fault]) -> tuple[str, ...]:
    """The user's own sentence where it says what to do, else the advice for its complaints."""
    kinds = {fault.rule.kind for fault in faults}
    if kinds & {"directive", "wish"}:
        return (instruction(clause),)
    advice = tuple(fault.advice for fault in faults if fault.advice)
    if advice:
        return advice
    if "fact" in kinds:
        return (reminder(clause),) if len(clause) >= FACT_CHARS else ()
    return (instruction(clause),) if "complaint" in kinds and _is_long(clause) else ()


def _is_long(clause: str) -> bool:
    return len(clause.split()) >= BARE_WORDS


@cache
def _in_order() -> tuple[Rule, ...]:
    """Reassurances and asides first: what they take away is not read by the others."""
    return tuple(sorted(language_rules(), key=lambda rule: rule.kind not in _TAKING_AWAY))
