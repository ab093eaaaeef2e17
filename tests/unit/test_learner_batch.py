import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from clawrl.learner.batch import EMPTY, Scored, collate, micro_batches, plans, share_out

lengths = st.lists(st.tuples(st.integers(1, 40), st.integers(1, 40)), max_size=20)


def scored(pairs):
    return [Scored(i, [1] * prompt, [2] * reply) for i, (prompt, reply) in enumerate(pairs)]


@given(pairs=lengths, ranks=st.integers(1, 6), budget=st.integers(1, 200))
def test_every_sample_is_planned_once_and_every_rank_runs_as_often(pairs, ranks, budget):
    shares = share_out(scored(pairs), ranks)
    planned = plans(shares, budget_tokens=budget)
    assert len({len(batches) for batches in planned}) == 1
    items = [item.index for batches in planned for batch in batches for item in batch]
    assert sorted(i for i in items if i != EMPTY.index) == list(range(len(pairs)))


@given(pairs=lengths, budget=st.integers(1, 200))
def test_a_micro_batch_keeps_to_its_budget_unless_it_is_one_sample(pairs, budget):
    for batch in micro_batches(scored(pairs), budget_tokens=budget):
        assert len(batch) == 1 or len(batch) * max(item.tokens for item in batch) <= budget


@given(pairs=lengths, ranks=st.integers(1, 6))
def test_no_rank_has_more_than_one_sample_above_its_fair_share(pairs, ranks):
    items = scored(pairs)
    loads = [sum(item.tokens for item in share) for share in share_out(items, ranks)]
    longest = max((item.tokens for item in items), default=0)
    assert max(loads) - min(loads) <= longest


def test_without_work_there_is_no_pass_at_all():
    assert plans([[], []], budget_tokens=10) == [[], []]


def test_each_reply_token_is_predicted_from_the_position_before_it():
    batch = collate(
        [Scored(0, [10, 11, 12], [13, 14]), Scored(1, [20], [21], temperature=0.5)],
        torch.device("cpu"),
    )
    flat = batch.input_ids.flatten()
    assert flat[batch.positions].tolist() == [12, 13, 20]
    assert flat[batch.positions + 1].tolist() == batch.targets.tolist() == [13, 14, 21]
    assert batch.temperature.tolist() == [1.0, 1.0, 0.5]
    assert batch.padded(torch.tensor([1.0, 2.0, 3.0])).tolist() == [[1.0, 2.0], [3.0, 0.0]]


def test_the_gradient_of_a_padded_tensor_reaches_its_own_token():
    batch = collate([Scored(0, [1], [2, 3]), Scored(1, [4], [5])], torch.device("cpu"))
    flat = torch.zeros(3, requires_grad=True)
    (batch.padded(flat) * torch.tensor([[1.0, 2.0], [3.0, 4.0]])).sum().backward()
    assert flat.grad.tolist() == pytest.approx([1.0, 2.0, 3.0])
