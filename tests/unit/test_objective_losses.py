import math

import pytest
import torch

from clawrl.objective.losses import (
    aggregate,
    clipped,
    k2_kl,
    ppo_clip_loss,
    ratio,
    token_shares,
    truncated_weight,
)

LOW, HIGH, BOUND, BETA = 0.2, 0.28, 2.0, 0.05


def random_batch(seed, rows=5, columns=7):
    """Log-probs in float64 that make some ratios clip and some weights truncate."""
    make = torch.Generator().manual_seed(seed)

    def draw(scale=1.0):
        return scale * torch.randn(rows, columns, generator=make, dtype=torch.float64)

    old = -2.0 + draw()
    mask = torch.rand(rows, columns, generator=make) < 0.7
    mask[0] = False  # one sample that nothing may be learned from
    mask[1:, 0] = True
    return {
        "policy": (old + draw(0.4)).requires_grad_(),
        "old": old,
        "behaviour": old + draw(0.8),
        "reference": old + draw(0.5),
        "advantage": draw().masked_fill(~mask, 0.0),
        "mask": mask,
    }


def torch_loss(batch, aggregation):
    token_loss = ppo_clip_loss(
        batch["policy"],
        batch["old"],
        batch["behaviour"],
        batch["advantage"],
        clip_low=LOW,
        clip_high=HIGH,
        truncate_weight=BOUND,
    )
    token_loss = token_loss + BETA * k2_kl(batch["policy"], batch["reference"])
    mask = batch["mask"]
    shares = token_shares(
        mask,
        aggregation=aggregation,
        window_tokens=int(mask.sum()),
        window_samples=int(mask.any(1).sum()),
    )
    return aggregate(token_loss, shares)


def plain_loss(batch, aggregation):
    """The same, one token after another, as the formula reads."""
    values = {name: tensor.tolist() for name, tensor in batch.items()}
    samples = []
    for b, row in enumerate(values["mask"]):
        losses = []
        for t, trained in enumerate(row):
            if not trained:
                continue
            new, old = values["policy"][b][t], values["old"][b][t]
            advantage = values["advantage"][b][t]
            rho = math.exp(max(-20.0, min(20.0, new - old)))
            bounded = max(1 - LOW, min(1 + HIGH, rho))
            weight = min(math.exp(old - values["behaviour"][b][t]), BOUND)
            kl = 0.5 * (new - values["reference"][b][t]) ** 2
            losses.append(-weight * min(rho * advantage, bounded * advantage) + BETA * kl)
        if losses:
            samples.append(losses)
    if aggregation == "token_mean":
        return sum(map(sum, samples)) / sum(map(len, samples))
    return sum(sum(losses) / len(losses) for losses in samples) / len(samples)


@pytest.mark.parametrize("aggregation", ["token_mean", "sequence_mean"])
@pytest.mark.parametrize("seed", range(8))
def test_the_surrogate_agrees_with_a_plain_loop(seed, aggregation):
    batch = random_batch(seed)
    assert abs(torch_loss(batch, aggregation).item() - plain_loss(batch, aggregation)) < 1e-10


@pytest.mark.parametrize("seed", range(4))
def test_the_gradient_agrees_with_differences_of_the_plain_loop(seed):
    batch = random_batch(seed)
    torch_loss(batch, "token_mean").backward()
    step = 1e-6
    for b, t in [(1, 0), (2, 0), (3, 0), (4, 0)]:
        moved = {name: tensor.detach().clone() for name, tensor in batch.items()}
        moved["policy"][b, t] += step
        up = plain_loss(moved, "token_mean")
        moved["policy"][b, t] -= 2 * step
        down = plain_loss(moved, "token_mean")
        expected = (up - down) / (2 * step)
        assert batch["policy"].grad[b, t].item() == pytest.approx(expected, abs=1e-8)


def test_a_clipped_token_has_gradient_zero():
    old = torch.zeros(1, 4, dtype=torch.float64)
    #                     rises past, A > 0   falls past, A < 0   the two ways back
    log_ratio = torch.tensor([[0.5, -0.5, 0.5, -0.5]], dtype=torch.float64, requires_grad=True)
    advantage = torch.tensor([[1.0, -1.0, -1.0, 1.0]], dtype=torch.float64)
    ppo_clip_loss(old + log_ratio, old, old, advantage).sum().backward()
    assert log_ratio.grad[0, :2].tolist() == [0.0, 0.0]
    assert (log_ratio.grad[0, 2:] != 0).all()
    assert clipped(log_ratio.exp(), advantage, low=0.2, high=0.28).tolist() == [
        [True, True, False, False]
    ]


def test_the_region_is_wider_upwards():
    old = torch.zeros(1, 2)
    log_ratio = torch.tensor([[math.log(1.25), math.log(0.75)]], requires_grad=True)
    ppo_clip_loss(log_ratio, old, old, torch.tensor([[1.0, -1.0]])).sum().backward()
    assert log_ratio.grad[0, 0] != 0
    assert log_ratio.grad[0, 1] == 0


@pytest.mark.parametrize("aggregation", ["token_mean", "sequence_mean"])
def test_masked_tokens_change_nothing(aggregation):
    batch = random_batch(3)
    other = {name: tensor.detach().clone() for name, tensor in batch.items()}
    outside = ~batch["mask"]
    for name in ("policy", "old", "behaviour", "reference"):
        other[name][outside] = torch.linspace(-9, 9, int(outside.sum()), dtype=torch.float64)
    other["policy"].requires_grad_()
    first, second = torch_loss(batch, aggregation), torch_loss(other, aggregation)
    first.backward()
    second.backward()
    assert torch.equal(first, second)
    assert torch.equal(batch["policy"].grad, other["policy"].grad)
    assert (other["policy"].grad[outside] == 0).all()


def test_the_ratio_is_one_and_carries_gradient_when_old_is_the_policy_itself():
    policy = torch.tensor([[-1.0, -2.0]], requires_grad=True)
    advantage = torch.tensor([[1.0, -2.0]])
    loss = ppo_clip_loss(policy, policy.detach(), policy.detach(), advantage)
    loss.sum().backward()
    assert loss.tolist() == [[-1.0, 2.0]]
    assert policy.grad.tolist() == [[-1.0, 2.0]]


def test_the_samplers_distance_counts_once():
    """The ratio is against pi_old; pi_b enters by the weight alone."""
    old = torch.tensor([[-1.0]])
    behaviour = torch.tensor([[-1.3]])
    loss = ppo_clip_loss(old, old, behaviour, torch.ones(1, 1))
    assert loss.item() == pytest.approx(-math.exp(0.3))


def test_the_weight_is_truncated_and_carries_no_gradient():
    old = torch.tensor([[0.0, 0.0]], requires_grad=True)
    weight = truncated_weight(old, torch.tensor([[-3.0, 0.5]]), bound=2.0)
    assert weight.tolist() == [[2.0, pytest.approx(math.exp(-0.5))]]
    assert not weight.requires_grad


def test_a_log_ratio_is_clamped_before_exp():
    far = ratio(torch.tensor([500.0, -500.0]), torch.zeros(2))
    assert far.tolist() == [pytest.approx(math.exp(20)), pytest.approx(math.exp(-20))]


def test_the_gradient_of_the_k2_loss_is_that_of_the_kl_on_policy():
    """Summed over all tokens with the policy's probabilities, it is the exact gradient."""
    make = torch.Generator().manual_seed(0)
    logits = torch.randn(6, generator=make, dtype=torch.float64, requires_grad=True)
    reference = torch.randn(6, generator=make, dtype=torch.float64).log_softmax(0)
    logp = logits.log_softmax(0)
    exact = torch.autograd.grad((logp.exp() * (logp - reference)).sum(), logits)[0]
    logp = logits.log_softmax(0)
    expected_k2 = (logp.exp().detach() * k2_kl(logp, reference)).sum()
    assert torch.allclose(torch.autograd.grad(expected_k2, logits)[0], exact, atol=1e-12)


@pytest.mark.parametrize("aggregation", ["token_mean", "sequence_mean"])
def test_the_shares_of_a_window_add_up_to_one_however_it_is_split(aggregation):
    mask = random_batch(1)["mask"]
    window = {"window_tokens": int(mask.sum()), "window_samples": int(mask.any(1).sum())}
    whole = token_shares(mask, aggregation=aggregation, **window)
    rows = [token_shares(row[None], aggregation=aggregation, **window) for row in mask]
    assert whole.sum().item() == pytest.approx(1.0)
    assert torch.equal(torch.cat(rows), whole)


def test_a_window_without_a_trained_token_gives_zero_and_not_nan():
    mask = torch.zeros(2, 3, dtype=torch.bool)
    for aggregation in ("token_mean", "sequence_mean"):
        shares = token_shares(mask, aggregation=aggregation, window_tokens=0, window_samples=0)
        assert aggregate(torch.ones(2, 3), shares).item() == 0.0


def test_shapes_that_disagree_are_listed():
    one, two = torch.zeros(1, 2), torch.zeros(2, 2)
    with pytest.raises(ValueError, match=r"old_logp \(2, 2\)"):
        ppo_clip_loss(one, two, one, one)
