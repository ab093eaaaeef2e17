import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from clawrl.objective.advantages import combined_advantage
from clawrl.objective.losses import aggregate, ppo_clip_loss, token_shares

nats = st.floats(min_value=-30, max_value=0, allow_nan=False)
scores = st.sampled_from([-1.0, 0.0, 1.0])
rows = st.lists(st.tuples(nats, nats, nats, st.booleans()), min_size=1, max_size=6)


def tensors(row):
    policy, old, behaviour, mask = zip(*row, strict=True)
    as64 = [torch.tensor([values], dtype=torch.float64) for values in (policy, old, behaviour)]
    return (*as64, torch.tensor([mask]))


@settings(max_examples=60, deadline=None)
@given(row=rows, score=scores)
def test_flipping_the_score_flips_the_advantage(row, score):
    policy, _, _, mask = tensors(row)
    one = combined_advantage(torch.tensor([score]), policy, policy, mask)
    other = combined_advantage(torch.tensor([-score]), policy, policy, mask)
    assert torch.equal(one, -other)


@settings(max_examples=60, deadline=None)
@given(row=rows, score=scores)
def test_loss_and_gradient_are_finite_whatever_the_log_probs(row, score):
    policy, old, behaviour, mask = tensors(row)
    policy.requires_grad_()
    advantage = combined_advantage(torch.tensor([score]), old, policy, mask)
    shares = token_shares(
        mask, aggregation="sequence_mean", window_tokens=int(mask.sum()), window_samples=1
    )
    loss = aggregate(ppo_clip_loss(policy, old, behaviour, advantage), shares)
    loss.backward()
    assert loss.isfinite()
    assert policy.grad.isfinite().all()
    assert (policy.grad[~mask] == 0).all()
