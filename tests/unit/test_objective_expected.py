import math

import pytest
import torch

from clawrl.objective.expected import bucket_gap, expected_clip_loss, with_rest
from clawrl.objective.losses import ppo_clip_loss


def distributions(seed, places=3, vocabulary=7):
    """Policy logits with gradient and the teacher's log-probs, [N, V] each."""
    make = torch.Generator().manual_seed(seed)
    logits = torch.randn(places, vocabulary, generator=make, dtype=torch.float64)
    teacher = torch.randn(places, vocabulary, generator=make, dtype=torch.float64)
    return logits.requires_grad_(), torch.log_softmax(teacher, 1)


def gradient_of_every_token(logits, advantage):
    """The sampled estimator's mean: each token's PPO gradient, weighed by its probability."""
    logp = torch.log_softmax(logits, 1)
    losses = ppo_clip_loss(logp, logp.detach(), logp.detach(), advantage)
    (losses * logp.detach().exp()).sum().backward()
    return logits.grad


@pytest.mark.parametrize("clip", [None, 0.3])
@pytest.mark.parametrize("seed", range(3))
def test_its_gradient_is_the_mean_of_the_sampled_estimator(seed, clip):
    logits, teacher = distributions(seed)
    gap = (teacher - torch.log_softmax(logits, 1)).detach()
    expected = gradient_of_every_token(logits, gap if clip is None else gap.clamp(-clip, clip))
    again, _ = distributions(seed)
    policy = torch.log_softmax(again, 1)
    advantage = bucket_gap(teacher, policy, clip=clip)
    expected_clip_loss(policy, policy, advantage).sum().backward()
    assert (again.grad - expected).abs().max() < 1e-10


@pytest.mark.parametrize("seed", range(3))
def test_tokens_that_are_not_kept_share_the_gap_of_their_sum(seed):
    logits, teacher = distributions(seed)
    kept = teacher.topk(3).indices
    advantage = torch.empty_like(teacher)
    with torch.no_grad():
        logp = torch.log_softmax(logits, 1)
        for n in range(len(logits)):
            others = [v for v in range(logits.shape[1]) if v not in kept[n]]
            mass = [math.log(sum(math.exp(d[n, v]) for v in others)) for d in (teacher, logp)]
            for v in range(logits.shape[1]):
                own = (teacher[n, v] - logp[n, v]).item()
                advantage[n, v] = mass[0] - mass[1] if v in others else own
    expected = gradient_of_every_token(logits, advantage)
    again, _ = distributions(seed)
    policy = with_rest(torch.log_softmax(again, 1).gather(1, kept))
    gap = bucket_gap(with_rest(teacher.gather(1, kept)), policy)
    expected_clip_loss(policy, policy, gap).sum().backward()
    assert (again.grad - expected).abs().max() < 1e-10


def test_the_buckets_are_a_partition():
    logits, _ = distributions(0)
    buckets = with_rest(torch.log_softmax(logits, 1)[:, :4])
    assert torch.allclose(buckets.exp().sum(1), torch.ones(3, dtype=torch.float64))


def test_a_whole_vocabulary_leaves_no_rest_and_no_infinity():
    logits, teacher = distributions(0)
    policy = with_rest(torch.log_softmax(logits.float(), 1))
    gap = bucket_gap(with_rest(teacher.float()), policy)
    loss = expected_clip_loss(policy, policy, gap)
    loss.sum().backward()
    assert torch.isfinite(loss).all()
    assert torch.isfinite(logits.grad).all()


def test_a_bucket_that_left_the_trust_region_has_no_gradient():
    old = torch.log_softmax(torch.zeros(1, 3, dtype=torch.float64), 1)
    policy = torch.tensor([[0.5, 0.3, 0.2]], dtype=torch.float64).log().requires_grad_()
    advantage = torch.tensor([[1.0, 0.0, -1.0]], dtype=torch.float64)
    expected_clip_loss(policy, old, advantage).sum().backward()
    assert policy.grad.tolist() == [[0, 0, 0]]


def test_a_teacher_that_agrees_teaches_nothing():
    logits, _ = distributions(1)
    policy = with_rest(torch.log_softmax(logits, 1)[:, :3])
    expected_clip_loss(policy, policy, bucket_gap(policy, policy)).sum().backward()
    assert logits.grad.abs().max() == 0


def test_shapes_that_disagree_are_listed():
    with pytest.raises(ValueError, match=r"teacher \(2, 3\), policy \(2, 4\)"):
        bucket_gap(torch.zeros(2, 3), torch.zeros(2, 4))
