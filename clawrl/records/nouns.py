"""The nouns of a run, as frozen records: one line of JSON each.

A record is identified by the interaction it is about: feedback, verdict and sample of one main turn
share its `interaction_id`. Nothing here is ever changed after it was written.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

SCHEMA_VERSION = 1

TurnType = Literal["main", "side"]
Score = Literal[-1, 0, 1]


class Record(BaseModel):
    """A frozen line of JSON; an unknown key is an error, so that a typo cannot pass for data."""

    # Not-a-number is written as a string that reads back as itself: the default, null, does not.
    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="strings")


class Line(Record):
    """A record that stands on a line of its own."""

    schema_version: Literal[1] = SCHEMA_VERSION


class Sampling(Record):
    """How the reply's tokens were drawn; what the learner must know to repeat their probability."""

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    max_tokens: int | None = None
    seed: int | None = None


class Weights(Record):
    """The behaviour policy of a reply: the versions at its first and last token."""

    version_first: int
    version_last: int
    digest: str
    """Of the version at the first token."""


class Usage(Record):
    """What the engine says that it spent, in tokens."""

    prompt_tokens: int = 0
    completion_tokens: int = 0


class Interaction(Line):
    """One request served and its reply, with the exact token ids and log-probabilities."""

    interaction_id: str
    session_id: str
    turn: int
    """Index within the session, from 0; a regenerated turn keeps its index."""
    turn_type: TurnType
    created: float
    """Unix seconds at which the request arrived."""
    messages: list[dict[str, Any]]
    """The request's messages, as the client sent them."""
    tools: list[dict[str, Any]] | None = None
    template_kwargs: dict[str, Any] = Field(default_factory=dict)
    sampling: Sampling
    reply: dict[str, Any]
    """The assistant message as served: role, content, tool_calls, reasoning_content."""
    prompt_ids: list[int] | None = None
    reply_ids: list[int] | None = None
    behaviour_logp: list[float] | None = None
    """Nats, one per reply id, under the sampling temperature."""
    finish_reason: str | None = None
    weights: Weights
    usage: Usage = Usage()
    first_token_s: float | None = None
    latency_s: float | None = None
    untrainable: str | None = None
    """Why this turn can never be a sample; None: it can."""
    replaces: str | None = None
    """The interaction that this one regenerates: the client sent the same request again."""
    user: str | None = None
    """Name of the API key that asked; None: there is one key, or none."""
    kind: str | None = None
    """What the request was for: `user`, `tool`, or a side turn's errand such as `title`."""
    placed_by: str | None = None
    """How its session was found: `header`, `tool_call_id`, `own_reply`, `new`, ..."""
    route: Literal["chat", "responses", "messages"] = "chat"
    """The API that the client spoke."""
    live: bool = False
    """A live user asked, not a persona or an environment of clawrl's."""
    redacted: list[str] = Field(default_factory=list)
    """Kinds of personal data that were blanked before this was written."""


class Feedback(Line):
    """The next state of a main turn: what came back after its reply."""

    interaction_id: str
    session_id: str
    created: float
    role: Literal["user", "tool"]
    content: str
    session_done: bool = False
    """True: this was the session's last word."""
    source: Literal["conversation", "explicit"] = "conversation"
    """`explicit`: somebody rated the reply, beside the conversation."""
    score: Score | None = None
    """The rating, where one was given: it is the verdict. None: a judge reads the content."""


class Vote(Record):
    """One judge call's opinion; `score` None: it failed or could not be parsed."""

    score: Score | None
    problem: str | None = None
    """Why it abstained."""


class HintVote(Record):
    """One hint call's answer; `hint` None: there is nothing to distil, or it failed."""

    hint: str | None
    problem: str | None = None


class Cost(Record):
    """What a verdict cost."""

    calls: int = 0
    seconds: float = 0.0
    prompt_tokens: int = 0
    completion_tokens: int = 0


class Verdict(Line):
    """The votes on one main turn, their majority, and the hint that was chosen."""

    interaction_id: str
    session_id: str
    judge: str
    """Name and version of the judge, such as `cues/1` or `prm/Qwen3-4B@v3`."""
    votes: list[Vote]
    score: Score | None
    """Majority of the parsed votes, a tie is 0; None: abstained, which is not 0."""
    hints: list[HintVote] = Field(default_factory=list)
    hint: str | None = None
    cost: Cost = Cost()


class Sample(Line):
    """What the learner eats, or why this turn is not eaten.

    A rejected sample carries its reason and no ids.
    """

    interaction_id: str
    session_id: str
    accepted: bool
    reason: str | None = None
    """Why it was rejected: no_feedback_score, score_0, no_hint, untrainable:..., stale, ..."""
    prompt_ids: list[int] = Field(default_factory=list)
    reply_ids: list[int] = Field(default_factory=list)
    behaviour_logp: list[float] = Field(default_factory=list)
    score: Score | None = None
    reward: float | None = None
    """Of an episode's step: its outcome and the votes on it; None: it is no step, or not known."""
    advantage: float | None = None
    """Of an episode's step: its reward against the same step of the other attempts, standardised.
    It stands in place of the score. None: this is no step of an episode."""
    hint: str | None = None
    hinted_prompt_ids: list[int] | None = None
    hint_dropped: str | None = None
    """Why there are no hinted ids though the judge gave a hint."""
    temperature: float = 1.0
    finish_reason: str | None = None
    weights: Weights | None = None
    live: bool = False
    """A live user's turn: it may be older than one that clawrl drove."""

    @property
    def signal(self) -> float:
        """What the reply as a whole is reinforced by: the advantage, else the score, else 0."""
        return self.advantage if self.advantage is not None else float(self.score or 0)


class Step(Record):
    """One action of an episode and what came back."""

    interaction_id: str
    """The turn whose reply was the action."""
    state: dict[str, Any]
    """The environment's typed next state; its `kind` says which."""


class Episode(Line):
    """One attempt at one task of an environment, from its first state to its outcome."""

    session_id: str
    task_id: str
    attempt: int
    """From 0, among the attempts of its group."""
    group: int
    """The attempts that are compared with one another: at the same task, in the same round."""
    steps: list[Step]
    reward: float | None
    """The outcome, from 0 to 1; None: it could not be graded, which is not 0."""
    detail: str = ""
    """The checker's words, or why there is no reward."""
    ended: Literal["submitted", "step_limit", "lost", "failed"]
    """By the policy, by the limit, because its world was gone, or because a request failed."""
    created: float
    """Unix seconds at which it began."""
    seconds: float


class Update(Line):
    """One line of the ledger: which samples made which weights."""

    kind: Literal["update"] = "update"
    version: int
    parent: int
    sample_ids: list[str]
    """In the order in which the batch held them."""
    stale: dict[str, int] = Field(default_factory=dict)
    """Samples passed over since the last update because they were too old, with their staleness."""
    digest_before: str
    digest_after: str
    created: float
    metrics: dict[str, float] = Field(default_factory=dict)


class Retired(Line):
    """A provisional update that a restart took back; its batch is trained again."""

    kind: Literal["retired"] = "retired"
    version: int
    digest: str
    sample_ids: list[str]
    created: float


class Remainder(Line):
    """Accepted samples that no update used: fewer than a batch, named when a run ends."""

    kind: Literal["remainder"] = "remainder"
    sample_ids: list[str]
    created: float


LedgerLine = Update | Retired | Remainder


class Closed(Line):
    """The last line of a file: no more records will follow; readers go on to the next file."""

    closed: Literal[True] = True
    records: int
