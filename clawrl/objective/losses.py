"""PPO's clipped surrogate, the KL to a reference, and how tokens are averaged.

    L = sum over tokens of  c * ( -w * min(rho * A, clip(rho, 1 - low, 1 + high) * A) + beta * k2 )

    rho = exp(log pi_theta - log pi_old)            pi_old: the policy at the start of the batch
    w   = min(exp(log pi_old - log pi_b), bound)    pi_b: the weights that sampled; no gradient
    c   = each token's share, by `token_shares`; the shares of a whole optimiser window add up to 1

The correction for the sampler's distance is `w` alone: the ratio is against pi_old, never pi_b.
Since the shares are fixed before the window is split, splitting it cannot change the gradient.

Source: arXiv:1707.06347 (surrogate), arXiv:2603.10165 (bounds, truncated weight).
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from clawrl.objective.shapes import require_same_shape

MAX_LOG_RATIO = 20.0
"""Log-ratios are clamped to this many nats before exp, so that one odd token cannot overflow."""

Aggregation = Literal["token_mean", "sequence_mean"]


def ratio(new_logp: Tensor, old_logp: Tensor) -> Tensor:
    """exp(new - old), with the difference (nats) clamped to ±20. Same shape as its arguments."""
    require_same_shape(new_logp=new_logp, old_logp=old_logp)
    return (new_logp - old_logp).clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO).exp()


def truncated_weight(old_logp: Tensor, behaviour_logp: Tensor, *, bound: float = 2.0) -> Tensor:
    """Importance weight of the sampler's distance: min(exp(log pi_old - log pi_b), bound).

    Args:
        old_logp: [B, T] nats, the policy at the start of the batch.
        behaviour_logp: [B, T] nats, as the sampler reported them.
        bound: the largest weight.

    Returns:
        [B, T], without gradient.
    """
    return ratio(old_logp, behaviour_logp).clamp(max=bound).detach()


def clipped(rho: Tensor, advantage: Tensor, *, low: float, high: float) -> Tensor:
    """True where the trust region cuts the gradient off: [B, T] bool."""
    rose = (advantage > 0) & (rho > 1 + high)
    fell = (advantage < 0) & (rho < 1 - low)
    return rose | fell


def ppo_clip_loss(
    policy_logp: Tensor,
    old_logp: Tensor,
    behaviour_logp: Tensor,
    advantage: Tensor,
    *,
    clip_low: float = 0.2,
    clip_high: float = 0.28,
    truncate_weight: float = 2.0,
) -> Tensor:
    """Each token's clipped surrogate, to be minimised; average it with `token_shares`.

    Args:
        policy_logp: [B, T] nats, with gradient.
        old_logp: [B, T] nats, the policy at the start of the batch; with one optimiser step per
            batch this is `policy_logp.detach()`, and the ratio is exactly 1.
        behaviour_logp: [B, T] nats, as the sampler reported them.
        advantage: [B, T], 0 outside the mask.
        clip_low: largest fall of the ratio that still carries gradient.
        clip_high: largest rise.
        truncate_weight: upper bound of the sampler's importance weight.

    Returns:
        [B, T].

    Raises:
        ValueError: the shapes disagree; the message lists them all.
    """
    require_same_shape(
        policy_logp=policy_logp,
        old_logp=old_logp,
        behaviour_logp=behaviour_logp,
        advantage=advantage,
    )
    advantage = advantage.detach()
    rho = ratio(policy_logp, old_logp.detach())
    weight = truncated_weight(old_logp, behaviour_logp, bound=truncate_weight)
    surrogate = torch.minimum(rho * advantage, rho.clamp(1 - clip_low, 1 + clip_high) * advantage)
    return -weight * surrogate


def k2_kl(policy_logp: Tensor, reference_logp: Tensor) -> Tensor:
    """Each token's k2 estimate of KL(pi || reference): half the squared log-ratio.

    Inside a loss its gradient is unbiased; that of k3 is biased and that of k1 is zero in
    expectation. Args and result are [B, T], nats.

    Source: http://joschu.net/blog/kl-approx.html
    """
    require_same_shape(policy_logp=policy_logp, reference_logp=reference_logp)
    log_ratio = policy_logp - reference_logp.detach()
    return 0.5 * log_ratio.clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO).square()


def token_shares(
    mask: Tensor, *, aggregation: Aggregation, window_tokens: int, window_samples: int
) -> Tensor:
    """What each token counts, so that all trained tokens of the optimiser window add up to 1.

        token_mean:     1 / window_tokens
        sequence_mean:  1 / (window_samples * trained tokens of this sample)

    Args:
        mask: [B, T] bool, true on trained tokens.
        aggregation: mean over all tokens, or over tokens and then over samples.
        window_tokens: trained tokens of the whole window: all micro-batches of all ranks.
        window_samples: samples of the whole window that have at least one trained token.

    Returns:
        [B, T] float64, exactly 0 outside `mask`.
    """
    shares = mask.to(torch.float64)
    if aggregation == "token_mean":
        return shares / max(window_tokens, 1)
    tokens = shares.sum(dim=1, keepdim=True).clamp(min=1)  # [B, 1]
    return shares / (tokens * max(window_samples, 1))


def aggregate(token_loss: Tensor, shares: Tensor) -> Tensor:
    """Sum of [B, T] losses, each times its share; where the share is 0 nothing is added."""
    require_same_shape(token_loss=token_loss, shares=shares)
    return (token_loss * shares.to(token_loss.dtype)).sum()
