"""The hindsight signal over the whole next-token distribution instead of the one sampled token.

The sampled estimator weighs each sampled token by `log pi_hinted - log pi`. Its expectation over
the token is known, for both distributions are: summing over the vocabulary gives the same gradient
without the sampling's noise (Rao-Blackwell), which for a batch of 16 replies is most of it. Only
the teacher's K most likely tokens are kept apart; all others are one bucket, "the rest", so that
the sum is over a partition of the vocabulary and the divergence can only be underestimated.

Shapes: N reply tokens (flat), K kept tokens, K + 1 buckets of which the last is the rest.

Source: arXiv:2603.10165 for the signal; arXiv:2306.08543 (MiniLLM) for summing the single-step part
of a reverse KL over the vocabulary.
"""

from __future__ import annotations

import torch
from torch import Tensor

from clawrl.objective.losses import ratio
from clawrl.objective.shapes import require_same_shape

_LEAST_REST = 1e-6
"""The rest's probability is kept above this: beyond float32 it is rounding."""


def with_rest(kept_logp: Tensor) -> Tensor:
    """The kept tokens' log-probabilities and the rest's.

    Args:
        kept_logp: [N, K] nats, of K different tokens.

    Returns:
        [N, K + 1] nats; with gradient where the argument has one.
    """
    rest = (1 - kept_logp.exp().sum(dim=1, keepdim=True)).clamp(min=_LEAST_REST).log()
    return torch.cat([kept_logp, rest], dim=1)


def bucket_gap(teacher: Tensor, policy: Tensor, *, clip: float | None = None) -> Tensor:
    """What the hint changes about each bucket, in nats.

    Args:
        teacher: [N, K + 1] nats, given prompt and hint.
        policy: [N, K + 1] nats, given the prompt alone.
        clip: bound in nats; None: none.

    Returns:
        [N, K + 1], without gradient.

    Raises:
        ValueError: the shapes disagree.
    """
    require_same_shape(teacher=teacher, policy=policy)
    gap = (teacher - policy).detach()
    return gap if clip is None else gap.clamp(-clip, clip)


def expected_clip_loss(
    policy: Tensor,
    old: Tensor,
    advantage: Tensor,
    *,
    clip_low: float = 0.2,
    clip_high: float = 0.28,
) -> Tensor:
    """The clipped surrogate's expectation over the next token, to be minimised.

        L[n] = - sum over buckets v of  pi_old(v) * min(rho(v) A(v), clip(rho(v)) A(v))

    At pi = pi_old its gradient is that of the mean of `ppo_clip_loss` over tokens drawn from pi.

    Args:
        policy: [N, K + 1] nats, with gradient.
        old: [N, K + 1] nats, the policy at the start of the batch.
        advantage: [N, K + 1], by `bucket_gap`.
        clip_low: largest fall of a bucket's ratio that still carries gradient.
        clip_high: largest rise.

    Returns:
        [N].

    Raises:
        ValueError: the shapes disagree.
    """
    require_same_shape(policy=policy, old=old, advantage=advantage)
    old, advantage = old.detach(), advantage.detach()
    rho = ratio(policy, old)
    surrogate = torch.minimum(rho * advantage, rho.clamp(1 - clip_low, 1 + clip_high) * advantage)
    return -(old.exp() * surrogate).sum(dim=1)
