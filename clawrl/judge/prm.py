"""The LLM judge: independent votes on the reply and hints distilled from the next state.

It asks any OpenAI-compatible endpoint. Invariant: a call that fails, takes too long or cannot be
parsed abstains; `judge` never raises for it and never turns it into a score.
Source: arXiv:2603.10165, process reward model and hindsight hints.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Callable
from importlib import resources
from string import Template
from types import TracebackType

import openai
from openai.types.chat import ChatCompletion

from clawrl.errors import JudgeError
from clawrl.judge import votes as vote_rules
from clawrl.judge.turns import last_request, reply_text
from clawrl.protocols import Judge
from clawrl.records.nouns import Cost, Feedback, HintVote, Interaction, Verdict, Vote

log = logging.getLogger(__name__)

PART_CHARS = 12_000
"""Longest text of one part of the turn; of a longer one the middle is left out."""

_TAG = re.compile(r"<(\s*/?\s*(?:request|reply|next_state)\b)", re.IGNORECASE)


class PrmJudge(Judge):
    """m votes and m' hint calls for each turn, at most `concurrent` of them at a time."""

    def __init__(
        self,
        *,
        base_url: str,
        model: str,
        api_key: str | None = None,
        votes: int = 3,
        hint_votes: int = 3,
        temperature: float = 0.6,
        max_tokens: int = 1024,
        timeout_s: float = 120.0,
        concurrent: int = 32,
        judging_version: Callable[[], int] | None = None,
    ) -> None:
        """Prepare the client; nothing is sent yet.

        Args:
            base_url: of the endpoint, with its `/v1`.
            model: as the endpoint names it.
            api_key: sent to the endpoint; None sends no secret, also not one of the environment.
            votes: m, calls for the score.
            hint_votes: m', calls for the hint; 0 asks for none.
            temperature: of the judge's sampling.
            max_tokens: of one answer.
            timeout_s: of one call, its retries included.
            concurrent: calls in flight over all turns.
            judging_version: the judging weights' version where the judge learns too (the policy's
                own engine): it becomes part of the recorded name.
        """
        self.name = f"prm/{model}"
        self._model = model
        self._votes, self._hint_votes = votes, hint_votes
        self._temperature, self._max_tokens = temperature, max_tokens
        self._timeout_s = timeout_s
        self._judging_version = judging_version
        self._slots = asyncio.Semaphore(concurrent)
        self._client = openai.AsyncOpenAI(
            base_url=base_url, api_key=api_key or "none", timeout=timeout_s, max_retries=2
        )
        self._vote_prompt, self._hint_prompt = _prompt("vote.txt"), _prompt("hint.txt")
        self._turn = Template(_prompt("turn.txt"))

    async def __aenter__(self) -> PrmJudge:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.close()

    async def judge(self, interaction: Interaction, feedback: Feedback) -> Verdict:
        """Ask for all votes and hints at once; those that fail abstain, and the others stand."""
        started = time.monotonic()
        name = self.name
        if self._judging_version is not None:
            name = f"{name}@v{self._judging_version()}"
        turn = self._turn.substitute(
            request=as_data(last_request(interaction.messages)),
            reply=as_data(reply_text(interaction.reply)),
            role=feedback.role,
            next_state=as_data(feedback.content),
        )
        async with asyncio.TaskGroup() as group:
            voting = [group.create_task(self._vote(turn)) for _ in range(self._votes)]
            hinting = [group.create_task(self._hint(turn)) for _ in range(self._hint_votes)]
        votes = [task.result()[0] for task in voting]
        hints = [task.result()[0] for task in hinting]
        costs = [task.result()[1] for task in voting] + [task.result()[1] for task in hinting]
        return Verdict(
            interaction_id=interaction.interaction_id,
            session_id=interaction.session_id,
            judge=name,
            votes=votes,
            score=vote_rules.majority(votes),
            hints=hints,
            hint=vote_rules.choose_hint(hints),
            cost=Cost(
                calls=len(costs),
                seconds=time.monotonic() - started,
                prompt_tokens=sum(cost.prompt_tokens for cost in costs),
                completion_tokens=sum(cost.completion_tokens for cost in costs),
            ),
        )

    async def _vote(self, turn: str) -> tuple[Vote, Cost]:
        try:
            text, cost = await self._ask(self._vote_prompt, turn)
        except JudgeError as error:
            return Vote(score=None, problem=str(error)), Cost()
        return vote_rules.parse_vote(text), cost

    async def _hint(self, turn: str) -> tuple[HintVote, Cost]:
        try:
            text, cost = await self._ask(self._hint_prompt, turn)
        except JudgeError as error:
            return HintVote(hint=None, problem=str(error)), Cost()
        return vote_rules.parse_hint(text), cost

    async def _ask(self, instruction: str, turn: str) -> tuple[str, Cost]:
        """One call. Raises JudgeError for every way in which it can fail."""
        try:
            async with self._slots, asyncio.timeout(self._timeout_s):
                answer = await self._client.chat.completions.create(
                    model=self._model,
                    messages=[
                        {"role": "system", "content": instruction},
                        {"role": "user", "content": turn},
                    ],
                    temperature=self._temperature,
                    max_tokens=self._max_tokens,
                )
        except (openai.OpenAIError, TimeoutError, ValueError) as error:
            # ValueError: a body that is no JSON. The message may quote the turn: only its kind
            # is recorded.
            log.debug("judge call failed: %s", error)
            raise JudgeError(type(error).__name__) from error
        return _read(answer)


def as_data(text: str) -> str:
    """Text that cannot close or open one of the turn's tags, its middle left out where too long."""
    if len(text) > PART_CHARS:
        half = PART_CHARS // 2
        text = (
            f"{text[:half]}\n[... {len(text) - 2 * half} characters left out ...]\n{text[-half:]}"
        )
    return _TAG.sub(r"&lt;\1", text)


def _read(answer: object) -> tuple[str, Cost]:
    # Typed as object: an endpoint that answers with something else gives the client a plain string.
    if not isinstance(answer, ChatCompletion) or not answer.choices:
        raise JudgeError("no_completion")
    usage = answer.usage
    cost = Cost(
        calls=1,
        prompt_tokens=usage.prompt_tokens if usage else 0,
        completion_tokens=usage.completion_tokens if usage else 0,
    )
    return answer.choices[0].message.content or "", cost


def _prompt(name: str) -> str:
    return resources.files("clawrl.judge").joinpath("prompts", name).read_text(encoding="utf-8")
