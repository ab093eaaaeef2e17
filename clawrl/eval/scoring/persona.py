r"""A first reply scored from 0 to 1 by a language model that plays the persona.

The prompts, `prompts/score_NAME.txt`, say who scores and what 0, 0.25, 0.5, 0.75 and 1 mean.
Invariants: a call that fails or cannot be read abstains, which is not 0; an error's text or an
empty reply is 0 by rule, and nobody is asked; what the reply says stays data.
Source: arXiv:2603.10165, personalization scored by the simulated user's own model.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib import resources
from types import TracebackType

from pydantic import BaseModel, ConfigDict, Field

from clawrl.errors import ConfigError, JudgeError, nearest
from clawrl.eval.scoring.no_reply import is_no_reply
from clawrl.llm.client import LlmClient
from clawrl.llm.quoting import as_data, last_boxed

_SCORE = re.compile(r"\+?(?:\d+(?:\.\d*)?|\.\d+)")
_PROMPT = "score_{}.txt"


class Scorer(BaseModel):
    """Who scores: the `scorer` section of a persona's task."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    base_url: str | None = None
    """The endpoint, with its `/v1`; without it and `model`, the rules alone score."""
    model: str | None = None
    """As the endpoint names it."""
    api_key: str | None = None
    temperature: float = Field(default=0.0, ge=0, le=2)
    max_tokens: int = Field(default=1024, ge=1)
    """Of one answer, its thinking included."""
    timeout_s: float = Field(default=120.0, gt=0)
    """Of one call, its retries included."""
    concurrent: int = Field(default=16, ge=1)
    """Calls at one time."""

    @property
    def asked(self) -> bool:
        """Whether a model scores. Raises ConfigError where only half of what it takes is set."""
        if (self.base_url is None) != (self.model is None):
            lacking = "base_url" if self.base_url is None else "model"
            raise ConfigError(f"scorer.{lacking}", "scorer.base_url and scorer.model go together")
        return self.model is not None


@dataclass(frozen=True, slots=True)
class PersonaScore:
    """What the persona's model gave; `score` None: it abstained."""

    score: float | None
    problem: str | None = None
    """Why it abstained, or `no_reply` where the score is 0 by rule."""


class PersonaScorer:
    """Asks the persona's model about one reply at a time, at most `concurrent` at once."""

    def __init__(self, persona: str, scorer: Scorer) -> None:
        """Prepare the client; nothing is sent yet.

        Args:
            persona: whose prompt is used: `student`, `teacher` or `assistant`.
            scorer: the endpoint; `scorer.asked` must hold.

        Raises:
            ConfigError: there is no prompt for this persona, or no endpoint.
        """
        if not scorer.asked:
            raise ConfigError("scorer.model", "set it and scorer.base_url to have a model score")
        self.prompt = score_prompt(persona)
        self._consulted = LlmClient(
            base_url=scorer.base_url,
            model=scorer.model or "",
            api_key=scorer.api_key,
            temperature=scorer.temperature,
            max_tokens=scorer.max_tokens,
            timeout_s=scorer.timeout_s,
            concurrent=scorer.concurrent,
        )

    async def __aenter__(self) -> PersonaScorer:
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

    async def score(self, request: str, reply: str, finish_reason: str | None) -> PersonaScore:
        """The persona's score of a reply to its request. Never raises for a failed call.

        Args:
            request: what the persona had typed.
            reply: the whole reply.
            finish_reason: `length`: the persona is told that it broke off.
        """
        if is_no_reply(reply, finish_reason):
            return PersonaScore(0.0, "no_reply")
        try:
            turn = _turn(request, reply, finish_reason)
            answer, _cost = await self._consulted.ask(self.prompt, turn)
        except JudgeError as error:
            return PersonaScore(None, str(error))
        return parse_score(answer)


def parse_score(answer: str) -> PersonaScore:
    r"""Read the last `\boxed{}` outside the thinking: a number from 0 to 1, or an abstention."""
    boxed = last_boxed(answer)
    if boxed is None or not _SCORE.fullmatch(boxed):
        return PersonaScore(None, "no_boxed_score")
    score = float(boxed)
    return PersonaScore(score) if score <= 1 else PersonaScore(None, "score_above_1")


def score_prompt(persona: str) -> str:
    """The prompt that says what each score means. Raises ConfigError where there is none."""
    folder = resources.files("clawrl.eval.scoring").joinpath("prompts")
    file = folder.joinpath(_PROMPT.format(persona))
    if not file.is_file():
        prefix, suffix = _PROMPT.split("{}")
        names = {
            entry.name.removeprefix(prefix).removesuffix(suffix)
            for entry in folder.iterdir()
            if entry.name.startswith(prefix)
        }
        problem = f"there is no scoring prompt for '{persona}'{nearest(persona, names)}"
        raise ConfigError("taste", problem)
    return file.read_text(encoding="utf-8").strip()


def _turn(request: str, reply: str, finish_reason: str | None) -> str:
    """What is scored, each part where nothing in it can end the part."""
    parts = [
        f"<request>\n{as_data(request)}\n</request>",
        f"<reply>\n{as_data(reply)}\n</reply>",
    ]
    if finish_reason == "length":
        parts.append("(The reply broke off before its end.)")
    return "\n\n".join(parts)
