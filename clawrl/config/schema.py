"""The configuration as frozen, typed sections: every key, its range, its unit and what it is for.

A misspelt key is an error that names the nearest right one (see `clawrl.config.compose`). A section
with a `_target_` names the class that is built from its other keys.
"""

from __future__ import annotations

import ipaddress
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator


class Section(BaseModel):
    """A frozen group of keys; unknown keys are errors."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", populate_by_name=True, use_attribute_docstrings=True
    )


class Plugin(BaseModel):
    """A section whose `_target_` says which class is built; its other keys are that class's own."""

    model_config = ConfigDict(frozen=True, extra="allow", populate_by_name=True)

    target: str = Field(alias="_target_")
    """Dotted path of the class to build from the keys beside it."""


class Lora(Section):
    """Low-rank adapters instead of full fine-tuning."""

    rank: int = Field(default=16, ge=1)
    alpha: int = Field(default=32, ge=1)
    dropout: float = Field(default=0.0, ge=0, lt=1)
    target_modules: str | list[str] = "all-linear"


class Model(Section):
    """The policy."""

    name: str
    """What `clawrl model prepare` knows it by, a hub id, or a local path."""
    context_tokens: int = Field(default=2048, ge=64)
    """The longest prompt and reply together that the engine takes."""
    dtype: Literal["float32", "bfloat16"] = "float32"
    """The engine's precision; the learner always keeps float32 master weights."""
    parameters: float | None = Field(default=None, gt=0)
    """Number of parameters, for memory estimates where the model is not on this machine."""
    hidden_layers: int | None = Field(default=None, gt=0)
    kv_bytes_per_token: int | None = Field(default=None, gt=0)
    """Size of the key-value cache per token at the engine's dtype, for the same estimate."""
    learning_rate: float = Field(default=1e-5, gt=0)
    """What full fine-tuning of this model takes; `learner=full` uses it."""
    template_kwargs: dict[str, Any] = Field(default_factory=dict)
    """Extra arguments of the chat template, such as `enable_thinking: false`."""
    trust_remote_code: bool = False
    tool_parser: str = "hermes"
    """How vLLM finds tool calls in a reply: the name of one of its parsers."""
    reasoning_parser: str | None = None
    """How vLLM tells thinking from the answer; None: a reply is all answer."""
    lora: Lora | None = None


class Engine(Section):
    """The vLLM server process."""

    device: Literal["cpu", "cuda", "external"] = "cpu"
    """`external`: it runs already, at `base_url`, and is neither started nor stopped."""
    base_url: str | None = None
    """Of an external server, without `/v1`."""
    start_timeout_s: float = Field(default=300, gt=0)
    request_timeout_s: float = Field(default=600, gt=0)
    update_timeout_s: float = Field(default=120, gt=0)
    kv_cache_gib: int = Field(default=2, ge=1)
    """CPU only: memory for the key-value cache; vLLM takes whole GiB."""
    gpu_memory_share: float = Field(default=0.85, gt=0, lt=1)
    """CUDA only: the part of a GPU's memory that the engine may take."""
    max_restarts: int = Field(default=5, ge=0)
    """How often a crashed engine is started again before the run fails."""
    extra_args: list[str] = Field(default_factory=list)
    """More command-line arguments for vLLM, as they are."""

    @model_validator(mode="after")
    def _is_here_or_there(self) -> Engine:
        if (self.device == "external") != (self.base_url is not None):
            raise ValueError("base_url: belongs to engine=external, and to nothing else")
        return self


class Resources(Section):
    """Which devices each process gets. GPU lists empty: everything shares the CPU."""

    policy_gpus: list[int] = Field(default_factory=list)
    judge_gpus: list[int] = Field(default_factory=list)
    learner_gpus: list[int] = Field(default_factory=list)
    gpu_memory_gib: float = Field(default=80, gt=0)
    """Assumed memory of one GPU, for the plan where the GPU is not here to be asked."""
    tensor_parallel: int = Field(default=1, ge=1)
    data_parallel: int = Field(default=1, ge=1)
    cpu_cores: str | None = None
    """CPU only: the engine's cores, such as `0-1`; None: all that this process may use."""
    learner_processes: int = Field(default=1, ge=1)
    """CPU only: how many learner processes; on GPUs it is one for each of `learner_gpus`."""
    learner_threads: int | None = Field(default=None, ge=1)
    """CPU only: threads of one learner process; None: all cores divided by the processes."""


class Gateway(Section):
    """The OpenAI-compatible server in front of the engine."""

    host: str = "127.0.0.1"
    port: int = Field(default=0, ge=0, le=65535)
    """0: any free port."""
    api_key: str | None = None
    keys: dict[str, str] = Field(default_factory=dict)
    """A key for each user, by the user's name; beside `api_key`, which names nobody."""
    record_wait_ms: float = Field(default=50, gt=0)
    """How long a turn's last chunk waits for its record; after that it is served, not trained."""
    queue_records: int = Field(default=10_000, ge=1)
    session_idle_s: float = Field(default=3600, gt=0)
    """A session without a request for this long is forgotten."""
    max_sessions: int = Field(default=20_000, ge=1)
    """The longest unused of more than these are forgotten."""
    rules: str | None = None
    """A file of rules about clients, beside clawrl's own: clawrl/gateway/resolving/rules.yaml."""
    max_body_mib: float = Field(default=32, gt=0)
    sampling: Literal["as_asked", "override"] = "as_asked"
    """`as_asked`: a request whose sampling the learner cannot repeat is served and not trained on;
    `override`: it is drawn over the whole vocabulary, and at the run's temperature if it
    wants 0."""
    page: bool = True
    """Serve the page to talk on, under `/ui`."""
    redact: bool = True
    """Blank personal data of live users before anything is recorded."""
    max_requests: int = Field(default=512, ge=1)
    """Requests that are answered at one time; more are told to come again (429)."""

    @model_validator(mode="after")
    def _keys_tell_users_apart(self) -> Gateway:
        given = given_keys(self)
        if not all(self.keys) or not all(key.strip() for key in self.keys.values()):
            raise ValueError("keys: a name or a key is empty")
        if len(set(given)) < len(given):
            raise ValueError("keys: two users have the same key")
        return self

    @model_validator(mode="after")
    def _open_doors_have_keys(self) -> Gateway:
        if not given_keys(self) and not is_loopback(self.host):
            raise ValueError(
                f"host: {self.host} can be reached by others: set gateway.api_key or gateway.keys"
            )
        return self


def given_keys(gateway: Gateway) -> list[str]:
    """All keys that let somebody in."""
    return [*gateway.keys.values(), *([] if gateway.api_key is None else [gateway.api_key])]


def is_loopback(host: str) -> bool:
    """Whether nobody but this machine reaches a host of this name."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class Sampling(Section):
    """How the policy's replies are drawn while it learns. top_p = 1 and no top_k: full support."""

    temperature: float = Field(default=1.0, gt=0, le=2)
    max_tokens: int = Field(default=512, ge=1)


class Data(Section):
    """The personas' problems: a local file, a hub data set, or a generator."""

    source: Literal["file", "hub", "reasoning_gym"] = "reasoning_gym"
    path: str | None = None
    """`file`: a JSONL with id, question, answer to train on."""
    eval_path: str | None = None
    """`file`: a JSONL to measure on."""
    eval_order: str | None = None
    """`file`: a JSON with a list `order` of ids; the first `eval_problems` are measured."""
    hub_id: str = "openai/gsm8k"
    hub_config: str = "main"
    eval_problems: int = Field(default=36, ge=1)
    seed: int = 0
    """Of the generator and of the training order."""


class Objective(Section):
    """Rewards and losses (ALGORITHMS: combined binary and hindsight-guided distillation)."""

    w_binary: float = Field(default=1.0, ge=0)
    """Weight of the verdict."""
    baseline: Literal["none", "batch"] = "none"
    """What is taken off a verdict: nothing (the paper), or the mean of the batch's other ones."""
    w_opd: float = Field(default=1.0, ge=0)
    """Weight of the token-level hindsight signal."""
    opd_clip: float | None = Field(default=None, gt=0)
    """Bound of the hindsight signal per token, in nats; None: no bound."""
    opd_over: Literal["sampled", "vocabulary"] = "sampled"
    """The hindsight signal of the sampled token alone (the paper), or its mean over all tokens that
    could have been sampled: the same gradient without the sampling's noise."""
    opd_kept: int = Field(default=64, ge=1)
    """`vocabulary`: the teacher's most likely tokens that count one by one; others as one."""
    clip_low: float = Field(default=0.2, gt=0, lt=1)
    """Largest fall of the ratio that still carries gradient."""
    clip_high: float = Field(default=0.28, gt=0)
    """Largest rise; wider than `clip_low`, so that rare tokens can grow."""
    truncate_weight: float = Field(default=2.0, ge=1)
    """Upper bound of the importance weight between learner and sampler."""
    kl_beta: float = Field(default=0.0, ge=0)
    """Weight of the KL divergence to the base model (k2 estimator)."""
    aggregation: Literal["token_mean", "sequence_mean"] = "sequence_mean"
    mask_cut_replies: bool = False
    """True: a reply that was cut by length carries no gradient."""

    @property
    def kind(self) -> Literal["binary", "opd", "combined"]:
        """Which of the two signals are learned from, by the name of the option in conf/."""
        if self.w_opd == 0:
            return "binary"
        return "opd" if self.w_binary == 0 else "combined"

    @model_validator(mode="after")
    def _learns_from_something(self) -> Objective:
        if self.w_binary == 0 and self.w_opd == 0:
            raise ValueError("w_binary and w_opd are both 0: nothing would be learned")
        return self


class Learner(Section):
    """The PPO learner."""

    lr: float = Field(default=1e-5, ge=0)
    betas: tuple[float, float] = (0.9, 0.98)
    weight_decay: float = Field(default=0.1, ge=0)
    warmup_updates: int = Field(default=0, ge=0)
    max_grad_norm: float = Field(default=1.0, gt=0)
    batch_samples: int = Field(default=16, ge=1)
    """Accepted samples in one update, over all ranks."""
    when: str = Field(
        default="always", pattern=r"^(always|idle|hours\((1?\d|2[0-3])-(1?\d|2[0-4])\))$"
    )
    """`always`; `idle`: while nobody asks; `hours(22-7)`: at night."""
    idle_s: float = Field(default=120, gt=0)
    """After so many seconds without a request nobody is there."""
    idle_batch_samples: int | None = Field(default=None, ge=1)
    """Samples that make a batch while nobody is there; None: as many as always."""
    steps_per_batch: int = Field(default=1, ge=1)
    """Optimiser steps on one batch."""
    micro_batch_tokens: int = Field(default=2048, ge=1)
    """Budget of one forward pass, padding included; a longer sample goes alone."""
    logit_chunk_tokens: int = Field(default=512, ge=1)
    """Reply tokens whose logits are held at once."""
    mixed_precision: Literal["no", "bf16"] = "no"
    gradient_checkpointing: bool = False
    checkpoint_every: int = Field(default=1, ge=1)
    """Updates between checkpoints; versions between them are provisional."""
    max_restarts: int = Field(default=5, ge=0)


class Weights(Section):
    """How new weights reach the engine."""

    transfer: Literal["disk", "lora"] = "disk"
    keep: int = Field(default=3, ge=1)
    """Versions kept on the disk; older ones are deleted."""
    probe_tolerance: float = Field(default=0.02, gt=0)
    """Largest mean |engine - learner| log-probability, in nats, before the run is stopped."""


class Loop(Section):
    """The loop around it all."""

    updates: int = Field(default=8, ge=1)
    max_staleness: int = Field(default=1, ge=0)
    """Versions by which a sample may be behind; 0: sampling and learning take turns."""
    max_staleness_live: int = Field(default=8, ge=0)
    """The same for the turns of live users, who are never held back."""
    concurrent_sessions: int = Field(default=24, ge=1)
    """More than a batch holds, so that each batch mixes first and later turns."""
    live: bool = False
    """`clawrl serve` judges and learns too, and not only records."""
    judge_calls: int = Field(default=32, ge=1)
    """Verdicts in the making at one time."""


class Eval(Section):
    """The measure of a persona's taste on fixed problems, outside the training data."""

    every: int = Field(default=0, ge=0)
    """Updates between measurements; 0: only before and after."""
    replies_per_problem: int = Field(default=4, ge=1)
    seed: int = 1234
    concurrent: int = Field(default=32, ge=1)


class Tracking(Section):
    """Where metrics go, besides the run folder."""

    wandb: Literal["auto", "online", "offline", "off"] = "auto"
    """auto: online where a key is configured, else offline; it never asks."""
    project: str = "clawrl"
    entity: str | None = None
    sweep: str | None = None
    """The sweep that this run is a point of, which is its group in W&B; `train -m` sets it."""


class Environment(Section):
    """The worlds that the policy acts in, in place of a persona that talks to it."""

    tasks: Plugin
    """Which tasks, and the settings of their kind."""
    parallel: int = Field(default=16, ge=1)
    """Environments at one time."""
    attempts: int = Field(default=8, ge=1)
    """At each task, from the same state: they are compared with one another."""
    max_steps: int = Field(default=10, ge=1)
    """Replies in one episode; then it is graded as it stands."""
    process: Literal["step", "trajectory_mean", "none"] = "step"
    """What the judge's votes add to the outcome: each step's own votes (the paper), their mean over
    the episode, or nothing."""
    outcome: Literal["zero_one", "pm1"] = "zero_one"
    """An episode's reward as it is, or as -1 to +1, which gives it twice the weight."""
    tools: bool = False
    """Actions are tool calls: the model's template must have them. False: fenced blocks."""
    script: list[str] = Field(default_factory=list)
    """What `collect --scripted` replies in turn, in place of a model."""


class Config(Section):
    """A whole run."""

    recipe: str
    """The recipe's name, for logs and folders."""
    seed: int = 0
    run: str | None = None
    """Name of the run folder; None: the recipe and the time."""
    runs_dir: str = "runs"
    model: Model
    engine: Engine
    resources: Resources
    gateway: Gateway
    sampling: Sampling
    persona: Plugin
    environment: Environment | None = None
    """None: the persona is who the policy learns from."""
    taste: Literal["student", "teacher", "assistant"] = "student"
    """What the persona likes; its checks are what `eval` reports."""
    max_turns: int = Field(default=2, ge=1)
    """Replies that a persona reads in one session before it leaves."""
    data: Data
    judge: Plugin
    objective: Objective
    learner: Learner
    weights: Weights
    loop: Loop
    eval: Eval
    tracking: Tracking
