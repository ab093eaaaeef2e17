"""How much better or worse each sampled token was than expected.

Pure functions. Every advantage comes back detached: a gradient through it would train the judge's
opinion instead of the policy.
"""

from __future__ import annotations

import torch
from torch import Tensor

from clawrl.objective.shapes import require_same_shape


def hindsight_gap(
    teacher_logp: Tensor, policy_logp: Tensor, mask: Tensor, *, clip: float | None = None
) -> Tensor:
    """What the hint changes about each token of the reply, in nats.

        gap[b, t] = (teacher_logp - policy_logp)[b, t], bounded to [-clip, clip]

    Args:
        teacher_logp: [B, T] nats, the reply's tokens given prompt and hint.
        policy_logp: [B, T] nats, the reply's tokens given the prompt alone.
        mask: [B, T] bool, true on tokens the policy sampled.
        clip: bound in nats; None: none, as in the paper's table.

    Returns:
        [B, T], exactly 0 outside `mask`, without gradient.

    Raises:
        ValueError: the shapes disagree; the message lists them all.

    Source: arXiv:2603.10165, hindsight-guided on-policy distillation.
    """
    require_same_shape(teacher_logp=teacher_logp, policy_logp=policy_logp, mask=mask)
    gap = (teacher_logp - policy_logp).detach()
    if clip is not None:
        gap = gap.clamp(-clip, clip)
    return gap.masked_fill(~mask, 0.0)


def combined_advantage(
    score: Tensor,
    teacher_logp: Tensor,
    policy_logp: Tensor,
    mask: Tensor,
    *,
    w_binary: float = 1.0,
    w_opd: float = 1.0,
    opd_clip: float | None = None,
) -> Tensor:
    """Blend a turn's verdict with its token-level hindsight signal.

        A[b, t] = w_binary * score[b] + w_opd * clip((teacher_logp - policy_logp)[b, t], ±opd_clip)

    Args:
        score: [B] in {-1, 0, +1}, or centred; 0 where the judge abstained.
        teacher_logp: [B, T] nats, the reply's tokens given prompt and hint; equal to `policy_logp`
            where there is no hint.
        policy_logp: [B, T] nats, the reply's tokens given the prompt alone.
        mask: [B, T] bool, true on tokens the policy sampled.
        w_binary: weight of the verdict.
        w_opd: weight of the hindsight signal.
        opd_clip: bound of the hindsight signal in nats; None: none.

    Returns:
        [B, T], exactly 0 outside `mask`, without gradient.

    Raises:
        ValueError: the shapes disagree; the message lists them all.

    Source: arXiv:2603.10165, combined binary RL and OPD advantage.
    """
    gap = hindsight_gap(teacher_logp, policy_logp, mask, clip=opd_clip)  # [B, T]
    require_same_shape(score=score, samples=mask[:, 0])
    return (w_binary * score[:, None] + w_opd * gap).masked_fill(~mask, 0.0).detach()


def centred_scores(score: Tensor) -> Tensor:
    """Each verdict less the mean of the batch's *other* verdicts.

    A batch whose verdicts are all equal says nothing about which replies were better: uncentred it
    would push every sampled token the same way. The mean leaves the sample itself out, so that the
    policy gradient's expectation stays what it was (a baseline that does not depend on the action).

    Args:
        score: [S] in {-1, 0, +1}, the whole batch over all ranks; 0 (abstained, unrelated) is no
            verdict, counts in no mean and stays 0. A verdict alone in its batch stays as it is.

    Returns:
        [S].

    Source: the leave-one-out baseline of REINFORCE, as in arXiv:2402.14740.
    """
    given = score != 0
    others = (given.sum() - 1).clamp(min=1)
    return torch.where(given, score - (score.sum() - score) / others, torch.zeros_like(score))


def group_advantage(reward: Tensor, group: Tensor) -> tuple[Tensor, Tensor]:
    """Standardise rewards inside each group: (x - mean) / (std + 1e-6), std of the sample (n - 1).

    For the step-wise advantage a group is "same task, same step index". A group of one, or one
    without spread, says nothing: its advantage is 0 and it is reported as not kept.

    Args:
        reward: [S].
        group: [S] integers.

    Returns:
        Advantage [S] without gradient, and kept [S] bool.

    Raises:
        ValueError: the shapes disagree.

    Source: arXiv:2603.10165, step-wise advantage; arXiv:2402.03300 for the standardisation.
    """
    require_same_shape(reward=reward, group=group)
    _, which = torch.unique(group, return_inverse=True)
    size = torch.bincount(which).to(reward.dtype)  # [number of groups]
    mean = torch.zeros_like(size).index_add_(0, which, reward) / size
    centred = reward - mean[which]  # [S]
    squares = torch.zeros_like(size).index_add_(0, which, centred.square())
    spread = (squares / (size - 1).clamp(min=1)).sqrt()
    # Rewards that are equal differ from their mean by rounding alone: no spread, not a huge one.
    kept = ((size > 1) & (spread > 1e-8))[which]
    advantage = torch.where(kept, centred / (spread[which] + 1e-6), torch.zeros_like(reward))
    return advantage.detach(), kept
