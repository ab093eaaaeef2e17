"""The judge without a model: phrases, exit codes and error messages in the next state.

Invariant: it reads the next state and nothing else, so that no property of the reply can earn a
reward. The hint is made of the user's own words.
"""

from __future__ import annotations

import asyncio
import logging
import time
from functools import cache

from clawrl.judge.clauses import clauses, machine_text, plain, unquoted, without_tasks
from clawrl.judge.phrasebook import Rule, language_rules
from clawrl.judge.tool_output import exit_code, read_output
from clawrl.judge.votes import choose_hint, majority
from clawrl.judge.wording import instruction, joined
from clawrl.protocols import Judge
from clawrl.records.nouns import Cost, Feedback, HintVote, Interaction, Score, Verdict, Vote

log = logging.getLogger(__name__)

BARE_WORDS = 5
"""A complaint without advice must have this many words to be a hint: "that's wrong" is none."""


class CuesJudge(Judge):
    """One vote and at most one hint, the same ones each time for the same next state."""

    name = "cues/1"

    async def judge(self, interaction: Interaction, feedback: Feedback) -> Verdict:
        """Read the next state; of the interaction only its ids are used."""
        started = time.monotonic()
        # In a thread: a long message takes longer than the serving loop may be held.
        score, hint = await asyncio.to_thread(read_next_state, feedback.role, feedback.content)
        votes = [Vote(score=score, problem="empty_next_state" if score is None else None)]
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
        where it thanks, agrees or moves on, or is a tool's output without an error; else 0; None
        where there is nothing to read. A hint goes with -1 only.
    """
    if role == "tool":
        return read_output(content)
    if not content.strip():
        return None, None
    found = [_read_clause(clause, task) for clause, task in without_tasks(clauses(content))]
    pasted_score, pasted_hint = read_output(_pasted(content))
    scores = [score for score, _ in found]
    if pasted_score == -1:
        scores.append(-1)
    if -1 in scores:
        hints = [hint for _, sentences in found for hint in sentences]
        return -1, joined([*hints, pasted_hint or ""])
    return (1 if 1 in scores else 0), None


def _pasted(content: str) -> str:
    """Tool output inside a person's message; all of it where it tells an exit code."""
    return content if exit_code(content) is not None else machine_text(content)


def _read_clause(clause: str, task: bool) -> tuple[Score, list[str]]:
    """Score of one clause and its instructions; of a new problem only its announcement counts."""
    text, approved = plain(clause), False
    negative: list[tuple[Rule, str | None]] = []
    for rule in _reassurances_first():
        praise = rule.kind not in ("complaint", "directive", "rejection")
        match = rule.found(unquoted(text) if praise else text)
        if match is None or (task and rule.kind != "moving_on"):
            continue
        if rule.kind == "reassurance":
            approved = True
            # What was denied must not be read as said; the rest of the clause still counts.
            text = text.replace(match.group(), " , ")
        elif rule.kind in ("approval", "moving_on"):
            approved = True
        else:
            negative.append((rule, rule.instruction(match)))
    if negative:
        log.debug("clause read as %s", [rule.about for rule, _ in negative])
        return -1, _instructions(clause, negative)
    return (1 if approved else 0), []


def _instructions(clause: str, negative: list[tuple[Rule, str | None]]) -> list[str]:
    """The user's own sentence where it says what to do, else the advice for its complaints."""
    if any(rule.kind == "directive" for rule, _ in negative):
        return [instruction(clause)]
    advice = [words for _, words in negative if words]
    if advice:
        return advice
    complains = any(rule.kind == "complaint" for rule, _ in negative)
    return [instruction(clause)] if complains and len(clause.split()) >= BARE_WORDS else []


@cache
def _reassurances_first() -> tuple[Rule, ...]:
    return tuple(sorted(language_rules(), key=lambda rule: rule.kind != "reassurance"))
