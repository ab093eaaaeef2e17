"""Personas played by a script: what they dislike decides what they say, a phrase file how.

The same problem, reply, turn and seed always give the same reaction. How a persona decides:

- A reply without substance (empty, cut off, repetitive, without a number) is always complained
  about, so that nothing is gained by writing nothing.
- Failed checks of its taste are complained about with probability `failed / patience`, at most 1:
  the more it dislikes, the less it lets pass.
- It complains about one thing at a time, going round over the turns. With both a failed check and
  a lack of substance, either comes up, one as often as the other.
- Now and then (`_SILENT`, `_UNRELATED`) it leaves without a word, or after one on something else.
"""

from __future__ import annotations

import random
from importlib import resources
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict

from clawrl.collect.filled import filled
from clawrl.collect.homework import work_on
from clawrl.errors import ConfigError
from clawrl.protocols import Persona, Problem, Reaction
from clawrl.tastes.assistant import ASSISTANT
from clawrl.tastes.student import STUDENT
from clawrl.tastes.substance import substance_problems
from clawrl.tastes.taste import Taste
from clawrl.tastes.teacher import TEACHER

_SILENT = 0.02
"""Share of reactions that are none."""
_UNRELATED = 0.03
"""Share of reactions that have nothing to do with the reply."""
_IMPLICIT = 0.08
"""Share of the complaints about style that only say that something is wrong."""
_NEW_QUESTION = 0.12
"""Share of the complaints that go on with another question."""


class Phrases(BaseModel):
    """A persona's phrase file, checked."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    openings: list[str]
    style: dict[str, list[str]]
    """By check of the persona's taste."""
    substance: dict[str, list[str]]
    """By substance problem."""
    implicit: list[str]
    new_questions: list[str]
    unrelated: list[str]
    thanks: list[str]


class ScriptedPersona(Persona):
    """A taste and a phrase file. `patience`: so many failed checks are never let pass."""

    def __init__(self, *, taste: Taste, phrases: Phrases, patience: float) -> None:
        self.name = taste.name
        self.taste = taste
        self.patience = patience
        self._phrases = phrases

    def opening(self, problem: Problem, seed: int) -> list[dict[str, str]]:
        """The request, in a phrasing chosen by the problem and the seed."""
        draw = random.Random(f"{self.name} opens {problem.problem_id} {seed}")
        facts = {"question": problem.question, "answer": problem.answer}
        facts |= self._facts(problem, seed)
        text = filled(draw.choice(self._phrases.openings), facts)
        return [{"role": "user", "content": text}]

    async def react(
        self, problem: Problem, reply: str, finish_reason: str | None, turn: int, seed: int
    ) -> Reaction:
        """Complain, accept, or leave; see the module's account of how this is decided."""
        draw = random.Random(f"{self.name} reacts {problem.problem_id} {seed} {turn}")
        whim = draw.random()
        if whim < _SILENT:
            return Reaction(text=None, done=True)
        if whim < _SILENT + _UNRELATED:
            return Reaction(text=draw.choice(self._phrases.unrelated), done=True)
        lacking = substance_problems(reply, finish_reason)
        hollow = "empty" in lacking or "repetitive" in lacking  # there is no style to speak of
        failed = [] if hollow else self.taste.failed(reply, finish_reason)
        annoyed = draw.random() < len(failed) / self.patience
        if not lacking and not annoyed:
            return Reaction(text=draw.choice(self._phrases.thanks), done=True)
        about_style = annoyed and (not lacking or draw.random() < 0.5)
        first = random.Random(f"{self.name} starts {problem.problem_id} {seed}").randrange(1000)
        reasons = failed if about_style else lacking
        reason = reasons[(first + turn) % len(reasons)]
        return Reaction(text=self._complaint(reason, about_style, draw), done=False)

    def _complaint(self, reason: str, about_style: bool, draw: random.Random) -> str:
        phrases = self._phrases.style if about_style else self._phrases.substance
        words = phrases[reason]
        if about_style and draw.random() < _IMPLICIT:
            words = self._phrases.implicit
        said = draw.choice(words)
        if draw.random() < _NEW_QUESTION:
            said = f"{said} {draw.choice(self._phrases.new_questions)}"
        return said

    def _facts(self, problem: Problem, seed: int) -> dict[str, str]:
        """What the openings name besides the problem's own texts."""
        return {}


class ScriptedStudent(ScriptedPersona):
    """Has homework done, and does not want it to look as if an AI had written it."""

    def __init__(self, *, patience: float = 2.0, openings: list[str] | None = None) -> None:
        """Read the phrases.

        Args:
            patience: so many failed checks are never let pass.
            openings: ways to ask, each with a place for `{question}`; None: the phrase file's.

        Raises:
            ConfigError: an opening has no place for the question.
        """
        phrases = read_phrases("student")
        if openings is not None:
            if not openings or not all("{question}" in opening for opening in openings):
                raise ConfigError("persona.openings", "each opening needs a place for {question}")
            phrases = phrases.model_copy(update={"openings": list(openings)})
        super().__init__(taste=STUDENT, phrases=phrases, patience=patience)


class ScriptedTeacher(ScriptedPersona):
    """Has homework commented on, and wants the comments specific and friendly."""

    def __init__(self, *, patience: float = 4.0) -> None:
        super().__init__(taste=TEACHER, phrases=read_phrases("teacher"), patience=patience)

    def _facts(self, problem: Problem, seed: int) -> dict[str, str]:
        return {"work": work_on(problem, seed).text}


class ScriptedAssistant(ScriptedPersona):
    """A teaching assistant: has problems explained to students, and wants nothing left out."""

    def __init__(self, *, patience: float = 4.0) -> None:
        super().__init__(taste=ASSISTANT, phrases=read_phrases("assistant"), patience=patience)


def read_phrases(name: str) -> Phrases:
    """The phrase file that comes with clawrl for a persona."""
    file = resources.files("clawrl.collect").joinpath("phrases", f"{name}.yaml")
    fields: Any = yaml.safe_load(file.read_text(encoding="utf-8"))
    return Phrases.model_validate(fields)
