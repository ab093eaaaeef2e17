"""From outcomes and votes to one reward for each step of an environment's episode."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from clawrl.objective.shapes import require_same_shape


def step_rewards(
    outcome: Tensor,
    process: Tensor,
    episode: Tensor,
    *,
    mode: Literal["step", "trajectory_mean", "none"] = "step",
) -> Tensor:
    """Outcome of the episode plus the process reward of the step.

        step:             r[s] = o[s] + p[s]
        trajectory_mean:  r[s] = o[s] + mean of p over the steps of the same episode
        none:             r[s] = o[s]

    Args:
        outcome: [S] the episode's outcome, repeated at each of its steps.
        process: [S] mean of the votes on that step.
        episode: [S] integers, which episode a step belongs to.
        mode: how the process reward enters.

    Returns:
        [S].

    Raises:
        ValueError: the shapes disagree.

    Source: arXiv:2603.10165, step-wise reward; `trajectory_mean` is a variant in the wild.
    """
    require_same_shape(outcome=outcome, process=process, episode=episode)
    if mode == "none":
        return outcome.clone()
    if mode == "step":
        return outcome + process
    _, which = torch.unique(episode, return_inverse=True)
    steps = torch.bincount(which).to(process.dtype)  # [number of episodes]
    total = torch.zeros_like(steps).index_add_(0, which, process)
    return outcome + (total / steps)[which]
