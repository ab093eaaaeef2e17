"""One update: a batch's gradients, clipped, and the optimiser's steps."""

from __future__ import annotations

import time
from typing import Any

import torch
from torch import Tensor

from clawrl.config import schema
from clawrl.errors import LearnerError
from clawrl.learner.loss import BatchLoss
from clawrl.learner.measures import describe, total_tokens
from clawrl.learner.policy import Policy, gather, scatter
from clawrl.learner.rank import Rank
from clawrl.records.nouns import Sample


class Trainer:
    """The policy's optimiser. `train` makes version n + 1 out of version n and one batch."""

    def __init__(self, policy: Policy, *, config: schema.Config, rank: Rank) -> None:
        self._policy = policy
        self._config = config
        self._rank = rank
        self._optimiser = make_optimiser(policy, config.learner)

    def train(self, samples: list[Sample], *, version: int) -> dict[str, float]:
        """Step from `version` to the next. Every rank must call this with the same batch.

        Random numbers (dropout) depend on seed, version and rank alone: a resumed run draws the
        same ones without a stored generator.

        Returns:
            The update's metrics.

        Raises:
            LearnerError: a gradient is not finite; the weights are as they were.
        """
        started = time.perf_counter()
        learner = self._config.learner
        torch.manual_seed((self._config.seed * 2**20 + version) * 2**10 + self._rank.index)
        rate = learning_rate(learner, version)
        for group in self._optimiser.param_groups:
            group["lr"] = rate
        batch = BatchLoss(
            samples,
            self._policy,
            config=self._config,
            rank=self._rank,
            version=version,
        )
        batch.look_back()
        norms: list[float] = []
        for _ in range(learner.steps_per_batch):
            self._optimiser.zero_grad()
            batch.backward()
            norms.append(self._clip_gradients())
            if batch.window_tokens:  # without one, Adam's momentum alone would move the weights
                self._optimiser.step()
        self._optimiser.zero_grad()
        metrics = batch.measures.totals()
        seconds = time.perf_counter() - started
        return (
            metrics
            | describe(samples)
            | {
                "grad_norm": sum(norms) / len(norms),
                "lr": rate,
                "seconds": seconds,
                "tokens_per_s": total_tokens(samples) * learner.steps_per_batch / seconds,
            }
        )

    def _clip_gradients(self) -> float:
        """Scale the gradient to at most `max_grad_norm`; returns its norm before."""
        norm = gather(
            torch.nn.utils.clip_grad_norm_(
                list(self._policy.trained().values()), self._config.learner.max_grad_norm
            )
        ).item()
        if not norm < float("inf"):
            raise LearnerError(
                f"the gradient's norm is {norm}: no step was taken; lower learner.lr, or set "
                "objective.opd_clip"
            )
        return norm

    def state(self, *, holder: bool) -> dict[str, dict[str, Tensor]]:
        """The optimiser's state as whole CPU tensors by parameter name; empty unless `holder`.

        Every rank must call this. To be saved before the next step, which may change them in place.
        """
        whole: dict[str, dict[str, Tensor]] = {}
        for name, parameter in self._policy.trained().items():
            parts = {key: gather(value) for key, value in self._optimiser.state[parameter].items()}
            if holder:
                whole[name] = {key: value.to("cpu") for key, value in parts.items()}
        return whole

    def load_state(self, state: dict[str, dict[str, Tensor]]) -> None:
        """Take over what `state` gave. Every rank must call this, with the same tensors."""
        for name, parameter in self._policy.trained().items():
            own: dict[str, Any] = self._optimiser.state[parameter]
            for key, value in state.get(name, {}).items():
                own[key] = value.clone() if key == "step" else scatter(value, parameter).clone()


def make_optimiser(policy: Policy, learner: schema.Learner) -> torch.optim.AdamW:
    """AdamW; vectors (norms, biases) do not decay."""
    parameters = list(policy.trained().values())
    groups = [
        {"params": [p for p in parameters if p.ndim > 1], "weight_decay": learner.weight_decay},
        {"params": [p for p in parameters if p.ndim <= 1], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(
        [group for group in groups if group["params"]], lr=learner.lr, betas=learner.betas
    )


def learning_rate(learner: schema.Learner, version: int) -> float:
    """Constant after a linear warm-up; a function of the version, so there is no state to keep."""
    return learner.lr * min(1.0, (version + 1) / max(learner.warmup_updates, 1))
