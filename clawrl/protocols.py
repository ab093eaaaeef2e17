"""What the stages ask of one another: methods only.

The stages never import each other; they meet here and in `clawrl.records`. A plug-in named by
`_target_` must be a subclass of one of these.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clawrl.records.nouns import Feedback, Interaction, Sampling, Verdict


@dataclass(frozen=True, slots=True)
class Generation:
    """A reply drawn from given prompt ids.

    `ids` and `logp` have the same length; `logp` is in nats under the sampling temperature.
    """

    ids: list[int]
    logp: list[float]
    finish_reason: str
    text: str = ""


class Engine(ABC):
    """Serves one policy. Every call is time-limited and raises EngineError when it fails."""

    @abstractmethod
    async def chat(self, body: dict[str, Any]) -> dict[str, Any]:
        """A chat completion in OpenAI's format, with `prompt_token_ids`, `token_ids` and log-probs.

        Raises:
            RequestError: the request is wrong (too long a context, an unknown parameter).
            EngineError: the engine failed or did not answer in time.
        """

    @abstractmethod
    def chat_stream(self, body: dict[str, Any]) -> AsyncIterator[dict[str, Any]]:
        """The same as chunks, each as soon as it comes. Raises as `chat` does."""

    @abstractmethod
    async def generate(self, prompt_ids: list[int], sampling: Sampling) -> Generation:
        """Draw a reply from exact prompt ids."""

    @abstractmethod
    async def score(self, prompt_ids: list[int], reply_ids: list[int]) -> list[float]:
        """Log-probabilities (nats, temperature 1) of the reply's ids after the prompt's."""

    @abstractmethod
    async def health(self) -> bool:
        """True when it answers."""


class WeightSink(ABC):
    """Something that can take over new weights without dropping a request."""

    @abstractmethod
    async def update_weights(self, path: Path, version: int) -> float:
        """Serve the weights in `path` as `version`; requests go on. Returns the pause in s."""


class Judge(ABC):
    """Turns a next state into a verdict. It never raises for a failed call: it abstains."""

    name: str
    """With a version, so that verdicts of different judges can be told apart."""

    @abstractmethod
    async def judge(self, interaction: Interaction, feedback: Feedback) -> Verdict:
        """Votes, score and hint for the interaction's reply, given what came back after it."""

    async def aclose(self) -> None:  # noqa: B027 - most judges hold nothing
        """Give back connections, where it holds any."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One task that a persona brings: the text, and the answer where it is known."""

    problem_id: str
    question: str
    answer: str


@dataclass(frozen=True, slots=True)
class Reaction:
    """What a persona says after a reply. `text` None: it says nothing and leaves."""

    text: str | None
    done: bool
    """True: the persona's last word in this session."""


class Persona(ABC):
    """A simulated user with a taste. Deterministic given its seed, unless an LLM plays it."""

    name: str

    @abstractmethod
    def opening(self, problem: Problem, seed: int) -> list[dict[str, str]]:
        """The first request's messages."""

    @abstractmethod
    async def react(
        self, problem: Problem, reply: str, finish_reason: str | None, turn: int, seed: int
    ) -> Reaction:
        """Read a reply and answer it. `turn` counts the persona's replies read so far, from 0."""
