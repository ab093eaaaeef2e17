"""Several judges that vote together: other models, other prompts, or a model beside the cues.

Invariant: a member that fails, hangs or cannot be read abstains; the others stand. What a verdict
records is enough to replay it (`clawrl.judge.votes.replay`).
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

from clawrl.config.build import build
from clawrl.config.schema import Plugin
from clawrl.errors import ConfigError
from clawrl.judge.members import Member, committee_name, verdict_name
from clawrl.judge.votes import deliberate
from clawrl.protocols import Judge
from clawrl.records.nouns import Cost, Feedback, Interaction, Verdict, Vote

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Member:
    judge: Judge
    weight: float


class CommitteeJudge(Judge):
    """Members asked at the same time; every parsed vote counts its member's weight."""

    def __init__(
        self, *, members: Mapping[str, Mapping[str, Any]], member_timeout_s: float = 300.0
    ) -> None:
        """Build the members; nothing is asked yet.

        Args:
            members: by a name for messages and overrides: a judge section (`_target_` and its
                arguments) with an optional `weight`, 1 by default. A member with three votes of
                weight 1 weighs three times as much as one with a single vote.
            member_timeout_s: after this long a member that has not answered abstains.

        Raises:
            ConfigError: no members, a committee in a committee, a weight that is no positive
                number, or whatever a member's own section has wrong.
        """
        if not members:
            raise ConfigError("judge.members", "a committee needs at least one member")
        if not member_timeout_s > 0:
            raise ConfigError("judge.member_timeout_s", "must be more than 0 seconds")
        self._members = [_member(name, section) for name, section in members.items()]
        self._timeout_s = member_timeout_s
        self.name = committee_name([(m.judge.name, m.weight) for m in self._members])

    async def judge(self, interaction: Interaction, feedback: Feedback) -> Verdict:
        """Ask all members at once. Calls and tokens are summed; the seconds are those waited."""
        started = time.monotonic()
        async with asyncio.TaskGroup() as group:
            asking = [
                group.create_task(self._ask(member.judge, interaction, feedback))
                for member in self._members
            ]
        verdicts = [task.result() for task in asking]
        members = [
            Member(verdict.judge, member.weight, len(verdict.votes), len(verdict.hints))
            for member, verdict in zip(self._members, verdicts, strict=True)
        ]
        votes = [vote for verdict in verdicts for vote in verdict.votes]
        hints = [hint for verdict in verdicts for hint in verdict.hints]
        score, hint = deliberate(members, votes, hints)
        return Verdict(
            interaction_id=interaction.interaction_id,
            session_id=interaction.session_id,
            judge=verdict_name(members),
            votes=votes,
            score=score,
            hints=hints,
            hint=hint,
            cost=Cost(
                calls=sum(verdict.cost.calls for verdict in verdicts),
                seconds=time.monotonic() - started,
                prompt_tokens=sum(verdict.cost.prompt_tokens for verdict in verdicts),
                completion_tokens=sum(verdict.cost.completion_tokens for verdict in verdicts),
            ),
        )

    async def aclose(self) -> None:
        """Close every member, also where closing another one fails."""
        async with AsyncExitStack() as stack:
            for member in self._members:
                stack.push_async_callback(member.judge.aclose)

    async def _ask(self, judge: Judge, interaction: Interaction, feedback: Feedback) -> Verdict:
        try:
            async with asyncio.timeout(self._timeout_s):
                return await judge.judge(interaction, feedback)
        except Exception as error:  # noqa: BLE001 - whatever a plug-in raises, it abstains
            log.warning("judge=%s abstains: %s", judge.name, type(error).__name__)
            return Verdict(
                interaction_id=interaction.interaction_id,
                session_id=interaction.session_id,
                judge=judge.name,
                votes=[Vote(score=None, problem=type(error).__name__)],
                score=None,
            )


def _member(name: str, section: Mapping[str, Any]) -> _Member:
    key = f"judge.members.{name}"
    settings = dict(section)
    weight = settings.pop("weight", 1)
    if isinstance(weight, bool) or not isinstance(weight, (int, float)):
        raise ConfigError(f"{key}.weight", f"must be a number, not {weight!r}")
    if not (math.isfinite(weight) and weight > 0):
        raise ConfigError(f"{key}.weight", f"must be more than 0, not {weight}; or leave it out")
    if "_target_" not in settings:
        raise ConfigError(f"{key}._target_", "name the member's class, as in conf/judge/*.yaml")
    judge = build(Plugin.model_validate(settings), Judge, key=key)
    if isinstance(judge, CommitteeJudge):
        raise ConfigError(key, "a committee cannot sit in a committee; list its members here")
    return _Member(judge, float(weight))
