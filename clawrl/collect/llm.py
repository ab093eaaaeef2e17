"""A persona that a language model plays, behind any OpenAI-compatible endpoint.

Two prompt files say who the persona is. `NAME.opening.txt` is the first request, as any user would
type it, with places for `{question}`, `{answer}` and `{work}` (a pupil's answer, right or wrong).
`NAME.react.txt` is the system prompt of the player, who ends what it types with a tag: [DONE] when
it is satisfied, [LEAVE] when it says nothing more.
"""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import Literal

from openai import APIError, AsyncOpenAI

from clawrl.collect.filled import filled
from clawrl.collect.homework import work_on
from clawrl.errors import ConfigError, nearest
from clawrl.protocols import Persona, Problem, Reaction

_DONE = "[DONE]"
_LEAVE = "[LEAVE]"


class LlmPersona(Persona):
    """Plays `persona`: `student`, `teacher`, `assistant`, or a prefix of the user's own prompts."""

    def __init__(
        self,
        *,
        base_url: str,
        model: str,
        persona: str = "student",
        prompts: str | None = None,
        api_key: str | None = None,
        temperature: float = 0.7,
        max_tokens: int = 200,
        timeout_s: float = 60.0,
    ) -> None:
        """Read the prompts.

        Args:
            base_url: the player's endpoint, such as `http://127.0.0.1:8000/v1`.
            model: the player's model there.
            persona: the prompt files' name.
            prompts: the user's own folder of prompt files; None: the ones that come with clawrl.
            api_key: the endpoint's key, where it wants one.
            temperature: of the player.
            max_tokens: of one reaction.
            timeout_s: for one reaction; two retries at most.

        Raises:
            ConfigError: there are no such prompt files.
        """
        self.name = persona
        self._opening_prompt = _prompt(prompts, persona, "opening")
        self._react_prompt = _prompt(prompts, persona, "react")
        self._model = model
        self._temperature = temperature
        self._max_tokens = max_tokens
        self._client = AsyncOpenAI(
            base_url=base_url, api_key=api_key or "none", timeout=timeout_s, max_retries=2
        )

    def opening(self, problem: Problem, seed: int) -> list[dict[str, str]]:
        """The first request, from the opening prompt; only the pupil's work depends on the seed."""
        facts = {
            "question": problem.question,
            "answer": problem.answer,
            "work": work_on(problem, seed).text,
        }
        return [{"role": "user", "content": filled(self._opening_prompt, facts)}]

    async def react(
        self, problem: Problem, reply: str, finish_reason: str | None, turn: int, seed: int
    ) -> Reaction:
        """Ask the player. A player that fails, or says nothing, leaves in silence."""
        facts = [
            f"You had asked:\n{self.opening(problem, seed)[0]['content']}",
            f"The assistant replied:\n<reply>\n{reply}\n</reply>",
        ]
        if finish_reason == "length":
            facts.append("(The reply broke off before its end.)")
        facts.append("What do you type?")
        try:
            completion = await self._client.chat.completions.create(
                model=self._model,
                messages=[
                    {"role": "system", "content": self._react_prompt},
                    {"role": "user", "content": "\n\n".join(facts)},
                ],
                temperature=self._temperature,
                max_tokens=self._max_tokens,
                seed=(seed * 31 + turn) % 2**31,
            )
        except APIError:
            return Reaction(text=None, done=True)
        return parse_reaction(completion.choices[0].message.content if completion.choices else None)

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()


def parse_reaction(said: str | None) -> Reaction:
    """What the player typed: [DONE] makes it the last word, [LEAVE] or nothing is silence.

    A player that thinks aloud first is heard only after its `</think>`.
    """
    text = (said or "").rpartition("</think>")[2].strip()
    if _LEAVE in text:
        return Reaction(text=None, done=True)
    done = _DONE in text
    text = text.replace(_DONE, "").strip().strip('"').strip()
    return Reaction(text=text or None, done=done or not text)


def _prompt(folder: str | None, persona: str, part: Literal["opening", "react"]) -> str:
    known = resources.files("clawrl.collect").joinpath("prompts")
    source = Path(folder).expanduser() if folder else known
    file = source.joinpath(f"{persona}.{part}.txt")
    try:
        return file.read_text(encoding="utf-8").strip()
    except OSError:
        names = {entry.name.split(".")[0] for entry in source.iterdir()} if source.is_dir() else ()
        problem = f"no prompt file {file}{nearest(persona, names)}"
        raise ConfigError("persona.persona", problem) from None
