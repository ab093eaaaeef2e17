"""The LLM judge: independent votes on the reply and hints distilled from the next state.

It asks any OpenAI-compatible endpoint. Invariant: a call that fails, takes too long or cannot be
parsed abstains; `judge` never raises for it and never turns it into a score.
Source: arXiv:2603.10165, process reward model and hindsight hints.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable
from importlib import resources
from pathlib import Path
from string import Template
from types import TracebackType

from clawrl.errors import JudgeError, nearest
from clawrl.judge import votes as vote_rules
from clawrl.judge.turns import last_request, reply_text
from clawrl.llm.client import LlmClient
from clawrl.llm.quoting import as_data
from clawrl.protocols import Judge
from clawrl.records.nouns import Cost, Feedback, HintVote, Interaction, Verdict, Vote

_PROMPTS = ("vote.txt", "hint.txt", "turn.txt")
_TURN_PARTS = {"request", "reply", "role", "next_state"}
_BOX = re.compile(r"\\boxed\b")
_MARK = re.compile(r"\[(HINT_START|HINT_END)\]|<(\s*/?\s*think\b)", re.IGNORECASE)


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
        prompts: str | None = None,
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
            prompts: a folder with other words for any of vote.txt, hint.txt and turn.txt; the
                folder's name becomes part of the recorded name.

        Raises:
            ValueError: `prompts` is no such folder, or its turn.txt lacks a part of the turn.
        """
        folder = Path(prompts).expanduser() if prompts is not None else None
        self.name = f"prm/{model}" if folder is None else f"prm/{model}+{folder.resolve().name}"
        self._votes, self._hint_votes = votes, hint_votes
        self._judging_version = judging_version
        self._consulted = LlmClient(
            base_url=base_url,
            model=model,
            api_key=api_key,
            temperature=temperature,
            max_tokens=max_tokens,
            timeout_s=timeout_s,
            concurrent=concurrent,
        )
        self._vote_prompt, self._hint_prompt, turn = _read_prompts(folder)
        self._turn = Template(turn)

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
        await self._consulted.aclose()

    async def judge(self, interaction: Interaction, feedback: Feedback) -> Verdict:
        """Ask for all votes and hints at once; those that fail abstain, and the others stand."""
        started = time.monotonic()
        name = self.name
        if self._judging_version is not None:
            name = f"{name}@v{self._judging_version()}"
        turn = self._turn.substitute(
            request=quoted(last_request(interaction.messages)),
            reply=quoted(reply_text(interaction.reply)),
            role=feedback.role,
            next_state=quoted(feedback.content),
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
            text, cost = await self._consulted.ask(self._vote_prompt, turn)
        except JudgeError as error:
            return Vote(score=None, problem=str(error)), Cost()
        return vote_rules.parse_vote(text), cost

    async def _hint(self, turn: str) -> tuple[HintVote, Cost]:
        try:
            text, cost = await self._consulted.ask(self._hint_prompt, turn)
        except JudgeError as error:
            return HintVote(hint=None, problem=str(error)), Cost()
        return vote_rules.parse_hint(text), cost


def quoted(text: str) -> str:
    r"""A part of the turn as data, in which nothing looks like a judge's answer.

    A judge that repeats a part, or is cut off while it quotes one, must not vote by it: `\boxed` is
    shown as `\fbox`, the hint's markers and `<think>` with other brackets.
    """
    text = _BOX.sub(r"\\fbox", as_data(text))
    return _MARK.sub(lambda m: f"({m[1]})" if m[1] else f"&lt;{m[2]}", text)


def _read_prompts(folder: Path | None) -> tuple[str, str, str]:
    """The texts of vote, hint and turn; what the folder does not hold is clawrl's own."""
    packaged = resources.files("clawrl.judge").joinpath("prompts")
    texts = [packaged.joinpath(name).read_text(encoding="utf-8") for name in _PROMPTS]
    if folder is not None:
        if not folder.is_dir():
            raise ValueError(f"prompts: {folder} is not a folder")
        found = {path.name: path for path in folder.glob("*.txt")}
        unknown = sorted(set(found) - set(_PROMPTS))
        if unknown:
            raise ValueError(f"prompts: {folder / unknown[0]}{nearest(unknown[0], _PROMPTS)}")
        if not found:
            raise ValueError(f"prompts: {folder} holds none of {', '.join(_PROMPTS)}")
        try:
            texts = [
                found[name].read_text(encoding="utf-8") if name in found else text
                for name, text in zip(_PROMPTS, texts, strict=True)
            ]
        except (OSError, UnicodeDecodeError) as error:
            raise ValueError(f"prompts: cannot read {folder}: {error}") from None
        _check_turn(texts[2], folder)
    return texts[0], texts[1], texts[2]


def _check_turn(text: str, folder: Path) -> None:
    template = Template(text)
    if not template.is_valid() or set(template.get_identifiers()) != _TURN_PARTS:
        parts = ", ".join(f"${part}" for part in sorted(_TURN_PARTS))
        raise ValueError(
            f"prompts: {folder / 'turn.txt'} must name {parts} and nothing else ($$ is a dollar)"
        )
