import statistics

import pytest
import torch

from clawrl.objective.advantages import (
    centred_scores,
    combined_advantage,
    group_advantage,
    hindsight_gap,
)
from clawrl.objective.rewards import step_rewards


def random_turns(seed, rows=4, columns=6):
    make = torch.Generator().manual_seed(seed)
    mask = torch.rand(rows, columns, generator=make) < 0.8
    mask[:, 0] = True
    return {
        "score": torch.tensor([1.0, -1.0, 0.0, 1.0], dtype=torch.float64),
        "teacher_logp": torch.randn(rows, columns, generator=make, dtype=torch.float64),
        "policy_logp": torch.randn(rows, columns, generator=make, dtype=torch.float64),
        "mask": mask,
    }


@pytest.mark.parametrize("clip", [None, 0.5])
@pytest.mark.parametrize("seed", range(5))
def test_the_combined_advantage_agrees_with_a_plain_loop(seed, clip):
    turns = random_turns(seed)
    got = combined_advantage(**turns, w_binary=0.7, w_opd=1.3, opd_clip=clip)
    for b in range(4):
        for t in range(6):
            gap = (turns["teacher_logp"][b, t] - turns["policy_logp"][b, t]).item()
            if clip is not None:
                gap = max(-clip, min(clip, gap))
            expected = 0.7 * turns["score"][b].item() + 1.3 * gap
            expected = expected if turns["mask"][b, t] else 0.0
            assert abs(got[b, t].item() - expected) < 1e-10


def test_an_advantage_carries_no_gradient():
    turns = random_turns(0)
    turns["policy_logp"].requires_grad_()
    turns["teacher_logp"].requires_grad_()
    assert not combined_advantage(**turns).requires_grad
    assert not hindsight_gap(
        turns["teacher_logp"], turns["policy_logp"], turns["mask"]
    ).requires_grad


def test_without_a_hint_the_verdict_alone_counts():
    turns = random_turns(1)
    turns["teacher_logp"] = turns["policy_logp"]
    expected = turns["score"][:, None] * turns["mask"]
    assert torch.equal(combined_advantage(**turns), expected)


def test_with_a_hint_and_no_score_the_hindsight_alone_counts():
    turns = random_turns(2)
    turns["score"] = torch.zeros(4, dtype=torch.float64)
    gap = turns["teacher_logp"] - turns["policy_logp"]
    assert torch.equal(combined_advantage(**turns), gap.masked_fill(~turns["mask"], 0.0))


def test_the_bound_holds_the_hindsight_and_not_the_verdict():
    mask = torch.ones(1, 2, dtype=torch.bool)
    got = combined_advantage(
        torch.tensor([-1.0]), torch.tensor([[9.0, -9.0]]), torch.zeros(1, 2), mask, opd_clip=2.0
    )
    assert got.tolist() == [[1.0, -3.0]]


@pytest.mark.parametrize("seed", range(5))
def test_a_verdict_is_centred_by_the_mean_of_the_others(seed):
    make = torch.Generator().manual_seed(seed)
    scores = torch.randint(-1, 2, (16,), generator=make).double()
    for index, got in enumerate(centred_scores(scores).tolist()):
        others = [s for i, s in enumerate(scores.tolist()) if s and i != index]
        expected = scores[index].item() - statistics.mean(others) if scores[index] else 0.0
        assert abs(got - expected) < 1e-10


def test_equal_verdicts_say_nothing_about_which_reply_was_better():
    assert centred_scores(torch.tensor([-1.0, 0.0, -1.0, -1.0])).tolist() == [0, 0, 0, 0]


def test_a_verdict_alone_in_its_batch_stays_as_it_is():
    assert centred_scores(torch.tensor([0.0, -1.0, 0.0])).tolist() == [0, -1, 0]
    assert centred_scores(torch.tensor([1.0])).tolist() == [1]
    assert centred_scores(torch.tensor([0.0, 0.0])).tolist() == [0, 0]


def test_every_shape_is_listed_when_they_disagree():
    turns = random_turns(0)
    turns["teacher_logp"] = torch.zeros(4, 5)
    with pytest.raises(ValueError, match=r"teacher_logp \(4, 5\).*mask \(4, 6\)"):
        combined_advantage(**turns)


def test_groups_are_standardised_each_for_itself():
    reward = torch.tensor([1.0, 2.0, 4.0, 10.0, 30.0], dtype=torch.float64)
    advantage, kept = group_advantage(reward, torch.tensor([7, 7, 7, 3, 3]))
    for members in ([0, 1, 2], [3, 4]):
        values = [reward[i].item() for i in members]
        mean, spread = statistics.mean(values), statistics.stdev(values)
        for i, value in zip(members, values, strict=True):
            assert abs(advantage[i].item() - (value - mean) / (spread + 1e-6)) < 1e-10
    assert kept.all()


def test_a_group_of_one_or_without_spread_is_dropped_and_can_be_counted():
    reward = torch.tensor([5.0, 0.1, 0.1, 0.1, 1.0, 0.0])
    advantage, kept = group_advantage(reward, torch.tensor([0, 1, 1, 1, 2, 2]))
    assert kept.tolist() == [False, False, False, False, True, True]
    assert advantage[:4].tolist() == [0.0] * 4


def test_a_steps_reward_is_the_outcome_and_the_votes_on_that_step():
    outcome = torch.tensor([1.0, 1.0, 0.0])
    process = torch.tensor([1.0, -1 / 3, 1 / 3])
    episode = torch.tensor([4, 4, 9])
    assert step_rewards(outcome, process, episode).tolist() == pytest.approx([2.0, 2 / 3, 1 / 3])
    mean = step_rewards(outcome, process, episode, mode="trajectory_mean")
    assert mean.tolist() == pytest.approx([4 / 3, 4 / 3, 1 / 3])
    assert step_rewards(outcome, process, episode, mode="none").tolist() == [1.0, 1.0, 0.0]
