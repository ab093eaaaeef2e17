"""What the stages ask of one another: methods only.

The stages never import each other; they meet here and in `clawrl.records`. A plug-in named by
`_target_` must be a subclass of one of these.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clawrl.records.nouns import Feedback, Interaction, Record, Sampling, Verdict


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


class ToolCall(Record):
    """A call as the model wrote it."""

    name: str
    arguments: str
    """A JSON object, or what was meant as one."""
    call_id: str = ""


class Action(Record):
    """A reply as an environment gets it; what it asks for is still to be read from it."""

    text: str = ""
    calls: tuple[ToolCall, ...] = ()


class Observation(Record):
    """What an episode begins with."""

    messages: list[dict[str, Any]]
    """In OpenAI's format: the rules, then the task."""
    tools: list[dict[str, Any]] | None = None
    """None: actions are fenced blocks."""


class NextState(Record, ABC):
    """What came back after an action. Every kind of environment has records of its own."""

    seconds: float = 0.0
    done: bool = False
    """True: the policy said that it has finished; nothing is left to do but to grade."""

    @abstractmethod
    def text(self) -> str:
        """The same in words, for the policy and the judge."""


class Outcome(Record):
    """What an episode came to, said by the task's own checker."""

    reward: float | None
    """From 0 to 1; None: the checker failed, which is not a score."""
    detail: str = ""
    """The checker's words, or why there is no reward."""


class Environment(ABC):
    """One attempt at one task: built from it, used once, closed by its context manager.

    Nothing that an action does raises; `EnvironmentLost` says that the world itself is gone.
    """

    @abstractmethod
    async def __aenter__(self) -> Environment:
        """Make the world in the state in which the task begins, the same one for each attempt."""

    @abstractmethod
    async def __aexit__(self, *_error: object) -> None:
        """Leave nothing running."""

    @abstractmethod
    async def observe(self) -> Observation:
        """The rules and the task, as the policy's first request."""

    @abstractmethod
    async def step(self, action: Action) -> NextState:
        """Do what the reply asks for. Raises EnvironmentLost when the world is gone."""

    @abstractmethod
    async def grade(self) -> Outcome:
        """Judge the state as it is now; no step follows. Raises EnvironmentLost."""


class TaskSet(ABC):
    """The tasks of one kind of environment; `environment.tasks._target_` names one."""

    name: str

    @abstractmethod
    def ids(self) -> Sequence[str]:
        """Of all tasks, in a fixed order."""

    @abstractmethod
    def build(self, task_id: str, *, tools: bool) -> Environment:
        """A fresh attempt at a task; `tools`: the model's template has tool calls.

        Raises:
            DataError: there is no such task, or it cannot be read.
        """


class Pool(ABC):
    """Environments that run at one time, here or on other machines."""

    @abstractmethod
    def lease(self, task_id: str) -> AbstractAsyncContextManager[Environment]:
        """Wait for room, then an environment for as long as the context lasts.

        Entering raises EnvironmentLost when none can be made.
        """
