"""The learner's loss on a real model in miniature, against what a reader can check."""

import math

import pytest
import torch
from transformers import AutoModelForCausalLM

from clawrl.learner.loss import BatchLoss
from clawrl.learner.policy import Policy
from clawrl.learner.rank import Rank
from clawrl.learner.step import Trainer
from tests.learning import make_config, make_sample, uneven_samples
from tests.tiny import make_tiny_model


@pytest.fixture(scope="module")
def model_path(tmp_path_factory):
    torch.set_num_threads(1)  # more would spend their time waiting for one another
    return make_tiny_model(tmp_path_factory.mktemp("model"))


def make_policy(model_path, config, *, double=True):
    policy = Policy(model_path, config, Rank())
    if double:
        policy.module.double()
    return policy


def run_backward(policy, samples, config, rank=None, version=0):
    """Loss and measures of one backward pass, with gradients left on the policy."""
    for parameter in policy.trained().values():
        parameter.grad = None
    loss = BatchLoss(samples, policy, config=config, rank=rank or Rank(), version=version)
    loss.look_back()
    loss.backward()
    return loss


def gradient(policy):
    return torch.cat([p.grad.flatten() for p in policy.trained().values() if p.grad is not None])


def relative(one, other):
    return ((one - other).norm() / other.norm()).item()


def plain_logp(model, prompt_ids, reply_ids, temperature):
    """Whole logits, no padding, one token after another."""
    logits = model(torch.tensor([[*prompt_ids, *reply_ids]])).logits[0]
    return [
        torch.log_softmax(logits[len(prompt_ids) - 1 + i] / temperature, 0)[token].item()
        for i, token in enumerate(reply_ids)
    ]


def plain_loss(model, samples, *, w_binary, w_opd, opd_clip):
    total = 0.0
    for sample in samples:
        policy = plain_logp(model, sample.prompt_ids, sample.reply_ids, sample.temperature)
        teacher = policy
        if sample.hinted_prompt_ids:
            teacher = plain_logp(
                model, sample.hinted_prompt_ids, sample.reply_ids, sample.temperature
            )
        losses = []
        for new, hinted, behaviour in zip(policy, teacher, sample.behaviour_logp, strict=True):
            gap = max(-opd_clip, min(opd_clip, hinted - new))
            advantage = w_binary * (sample.score or 0) + w_opd * gap
            losses.append(-min(math.exp(new - behaviour), 2.0) * advantage)
        total += sum(losses) / len(losses)
    return total / len(samples)


def test_the_loss_agrees_with_a_plain_loop_over_the_models_own_logits(model_path):
    weights = {"w_binary": 0.8, "w_opd": 1.2, "opd_clip": 0.3}
    config = make_config(objective=weights)
    samples = uneven_samples(6)
    samples = [
        sample.model_copy(  # float32 holds these exactly, as the sampler's log-probs are
            update={"behaviour_logp": [round(x * 64) / 64 for x in sample.behaviour_logp]}
        )
        for sample in samples
    ]
    policy = make_policy(model_path, config)
    loss = run_backward(policy, samples, config).measures.totals()["loss"]
    model = AutoModelForCausalLM.from_pretrained(model_path, dtype=torch.float64)
    with torch.no_grad():
        expected = plain_loss(model, samples, **weights)
    # 0.7 is not exact in float32: the temperature alone costs about 1e-9 here.
    assert loss == pytest.approx(expected, abs=1e-7)
    exact = [s.model_copy(update={"temperature": 0.5}) for s in samples]
    loss = run_backward(policy, exact, config).measures.totals()["loss"]
    with torch.no_grad():
        assert abs(loss - plain_loss(model, exact, **weights)) < 1e-10


@pytest.mark.parametrize("aggregation", ["sequence_mean", "token_mean"])
@pytest.mark.parametrize(
    "signal", [{"baseline": "none"}, {"baseline": "batch"}, {"opd_over": "vocabulary"}]
)
@pytest.mark.parametrize("double", [True, False])
def test_splitting_a_batch_into_1_4_or_16_micro_batches_gives_the_same_gradient(
    model_path, aggregation, signal, double
):
    samples = uneven_samples(16)
    gradients = []
    for count, budget in [(1, 10_000), (4, 200), (16, 1)]:
        config = make_config(
            learner={"micro_batch_tokens": budget},
            objective={"aggregation": aggregation, **signal},
        )
        policy = make_policy(model_path, config, double=double)
        loss = run_backward(policy, samples, config)
        assert len(loss.micro_batches) == count
        gradients.append(gradient(policy))
    assert relative(gradients[1], gradients[0]) < (1e-12 if double else 1e-6)
    assert relative(gradients[2], gradients[0]) < (1e-12 if double else 1e-6)


@pytest.mark.parametrize("kept", [1, 5, 10_000])
def test_the_signal_over_the_vocabulary_agrees_with_a_plain_loop(model_path, kept):
    config = make_config(
        objective={"w_binary": 0, "w_opd": 1.5, "opd_over": "vocabulary", "opd_kept": kept}
    )
    samples = [s.model_copy(update={"temperature": 0.5}) for s in uneven_samples(6)]
    policy = make_policy(model_path, config)
    run_backward(policy, samples, config)
    model = AutoModelForCausalLM.from_pretrained(model_path, dtype=torch.float64)
    loss = 0.0
    for sample in samples:
        if sample.hinted_prompt_ids is None:
            continue
        places = range(-len(sample.reply_ids) - 1, -1)
        plain = model(torch.tensor([sample.prompt_ids + sample.reply_ids])).logits[0] / 0.5
        hinted = model(torch.tensor([sample.hinted_prompt_ids + sample.reply_ids])).logits[0] / 0.5
        for place in places:
            new = plain[place].softmax(0)
            with torch.no_grad():
                teacher = hinted[place].softmax(0)
                best = teacher.topk(min(kept, len(teacher))).indices
                rest = torch.ones_like(new, dtype=torch.bool).index_fill(0, best, False)
                gap = (teacher / new).log()
                gap[rest] = (teacher[rest].sum() / new[rest].sum()).log()
            loss = loss - 1.5 * (new * gap).sum() / len(sample.reply_ids) / len(samples)
    loss.backward()
    expected = torch.cat([parameter.grad.flatten() for parameter in model.parameters()])
    assert relative(gradient(policy), expected) < 1e-6


def test_over_the_vocabulary_too_the_second_step_looks_back_to_before_the_first(model_path):
    config = make_config(
        objective={"w_binary": 0, "opd_over": "vocabulary", "opd_kept": 10_000, "opd_clip": None}
    )
    samples = [s for s in uneven_samples(6) if s.hinted_prompt_ids]
    samples = [s.model_copy(update={"temperature": 0.5}) for s in samples]
    policy = make_policy(model_path, config)
    batch = run_backward(policy, samples, config)
    model, before = (
        AutoModelForCausalLM.from_pretrained(model_path, dtype=torch.float64) for _ in range(2)
    )
    with torch.no_grad():
        for name, parameter in policy.trained().items():
            step = 0.02 * torch.sign(parameter.grad)
            parameter -= step
            model.get_parameter(name).sub_(step)
            parameter.grad = None
    batch.backward()
    loss, cut = 0.0, 0
    for sample in samples:
        shown = [torch.tensor([ids]) for ids in (sample.prompt_ids, sample.hinted_prompt_ids)]
        reply = torch.tensor([sample.reply_ids])
        plain, hinted = (torch.cat([prompt, reply], 1) for prompt in shown)
        for place in range(-len(sample.reply_ids) - 1, -1):
            with torch.no_grad():
                old = (before(plain).logits[0, place] / 0.5).softmax(0)
                gap = ((before(hinted).logits[0, place] / 0.5).softmax(0) / old).log()
            rho = (model(plain).logits[0, place] / 0.5).softmax(0) / old
            clipped = torch.minimum(rho * gap, rho.clamp(0.8, 1.28) * gap)
            cut += (clipped != rho * gap).sum().item()
            loss = loss - (old * clipped).sum() / len(sample.reply_ids) / len(samples)
    assert cut > 0
    loss.backward()
    expected = torch.cat([parameter.grad.flatten() for parameter in model.parameters()])
    assert relative(gradient(policy), expected) < 1e-6


@pytest.mark.parametrize("ranks", [2, 5, 16, 20])
def test_the_average_over_ranks_is_the_gradient_of_one_process(model_path, ranks):
    samples = uneven_samples(16)
    config = make_config(learner={"micro_batch_tokens": 100})
    policy = make_policy(model_path, config)
    run_backward(policy, samples, config)
    expected = gradient(policy)
    parts, passes = [], set()
    for rank in range(ranks):
        loss = run_backward(policy, samples, config, Rank(index=rank, count=ranks))
        passes.add(len(loss.micro_batches))
        parts.append(gradient(policy))
    assert len(passes) == 1  # or the ranks would wait for one another for ever
    # The model's norms are in float32, where a loss times five is not exact.
    assert relative(sum(parts) / ranks, expected) < 1e-6


def test_a_rank_without_work_still_runs_backward_and_adds_nothing(model_path):
    config = make_config()
    policy = make_policy(model_path, config)
    loss = run_backward(policy, uneven_samples(1), config, Rank(index=1, count=2))
    assert len(loss.micro_batches) == 1
    assert gradient(policy).numel() == sum(p.numel() for p in policy.trained().values())
    assert (gradient(policy) == 0).all()


def test_a_chunk_of_logits_at_a_time_changes_nothing(model_path):
    samples = uneven_samples(6)
    gradients = []
    for chunk in (10_000, 7):
        config = make_config(learner={"logit_chunk_tokens": chunk, "micro_batch_tokens": 300})
        policy = make_policy(model_path, config)
        run_backward(policy, samples, config)
        gradients.append(gradient(policy))
    assert relative(gradients[1], gradients[0]) < 1e-12


def test_gradient_checkpointing_changes_nothing(model_path):
    gradients = []
    for checkpointing in (False, True):
        config = make_config(learner={"gradient_checkpointing": checkpointing})
        policy = make_policy(model_path, config)
        run_backward(policy, uneven_samples(4), config)
        gradients.append(gradient(policy))
    assert relative(gradients[1], gradients[0]) < 1e-12


def test_padding_cannot_be_seen_even_if_its_id_is_sampled(model_path):
    """Padding has id 0; here 0 is also a sampled token, and a row is padded with it."""
    config = make_config(learner={"micro_batch_tokens": 1000})
    policy = make_policy(model_path, config)
    short = make_sample("short", reply=3).model_copy(update={"reply_ids": [0, 5, 0]})
    long = make_sample("long", prompt=30, reply=20)
    together = run_backward(policy, [short, long], config)
    beside = {item.index: row for row, item in enumerate(together.micro_batches[0])}
    alone = run_backward(policy, [short], config)
    row = together.before[0].old_logp[beside[0]]
    assert torch.allclose(row[:3], alone.before[0].old_logp[0], atol=1e-12)
    assert (together.before[0].advantage[beside[0], 3:] == 0).all()


def test_the_prompt_and_the_hint_carry_no_gradient_of_their_own(model_path):
    """The hinted prompt moves the advantage alone: its pass has no graph."""
    config = make_config()
    policy = make_policy(model_path, config)
    sample = make_sample("one", score=1, hint=6)
    plain = sample.model_copy(update={"hinted_prompt_ids": sample.prompt_ids})
    run_backward(policy, [plain], config)
    without = gradient(policy)
    no_hint = sample.model_copy(update={"hinted_prompt_ids": None})
    run_backward(policy, [no_hint], config)
    assert relative(gradient(policy), without) < 1e-12


def test_a_cut_reply_is_kept_unless_the_recipe_masks_it(model_path):
    whole = uneven_samples(3)
    cut = make_sample("cut", finish_reason="length")
    masking = make_config(objective={"mask_cut_replies": True})
    policy = make_policy(model_path, masking)
    run_backward(policy, whole, masking)
    expected = gradient(policy)
    run_backward(policy, [*whole, cut], masking)
    assert relative(gradient(policy), expected) < 1e-12
    run_backward(policy, [*whole, cut], make_config())
    assert relative(gradient(policy), expected) > 1e-3


def test_a_batch_that_is_masked_whole_moves_nothing(model_path):
    config = make_config(objective={"mask_cut_replies": True})
    policy = make_policy(model_path, config, double=False)
    before = policy.weights(holder=True)
    trainer = Trainer(policy, config=config, rank=Rank())
    trainer.train([make_sample("cut", finish_reason="length")], version=0)
    after = policy.weights(holder=True)
    assert all(torch.equal(after[name], before[name]) for name in before)


def test_pi_old_costs_no_forward_pass(model_path):
    samples = [make_sample(f"s{i}", hint=None if i < 3 else 5) for i in range(4)]
    config = make_config(learner={"micro_batch_tokens": 1, "steps_per_batch": 1})
    policy = make_policy(model_path, config, double=False)
    passes = []
    policy.module.register_forward_hook(lambda *_: passes.append(torch.is_grad_enabled()))
    Trainer(policy, config=config, rank=Rank()).train(samples, version=0)
    assert passes == [False] + [True] * 4  # one hinted reply, then four replies with gradient


def test_with_two_steps_some_tokens_clip_and_pi_old_stays_that_of_before(model_path):
    samples = uneven_samples(8)
    config = make_config(learner={"steps_per_batch": 2})
    policy = make_policy(model_path, config)
    frozen = make_policy(model_path, config)
    loss = run_backward(policy, samples, config)
    kept = [(b.old_logp.clone(), b.advantage.clone()) for b in loss.before]
    assert loss.measures.totals()["clip_fraction"] == 0.0
    with torch.no_grad():
        for parameter in policy.trained().values():
            parameter -= 0.02 * parameter.grad.sign()
    loss.backward()
    assert loss.measures.totals()["clip_fraction"] > 0.05
    for (old_logp, advantage), before in zip(kept, loss.before, strict=True):
        assert torch.equal(before.old_logp, old_logp)
        assert torch.equal(before.advantage, advantage)
    of_before = run_backward(frozen, samples, config).before
    assert all(
        torch.equal(a.old_logp, b.old_logp) for a, b in zip(of_before, loss.before, strict=True)
    )


def test_the_trainer_reports_clipping_with_two_steps_and_none_with_one(model_path):
    fractions = []
    for steps in (1, 2):
        config = make_config(learner={"steps_per_batch": steps, "lr": 1e-2})
        trainer = Trainer(make_policy(model_path, config, double=False), config=config, rank=Rank())
        fractions.append(trainer.train(uneven_samples(8), version=0)["clip_fraction"])
    assert fractions[0] == 0.0
    assert fractions[1] > 0.0


def test_mismatch_and_drift_are_told_apart_by_staleness(model_path):
    config = make_config()
    policy = make_policy(model_path, config)
    fresh, old = make_sample("fresh", version=3), make_sample("old", version=2)
    both = run_backward(policy, [fresh, old], config, version=3).measures.totals()
    alone = run_backward(policy, [fresh], config, version=3).measures.totals()
    assert both["mismatch"] == pytest.approx(alone["mismatch"])
    assert both["drift"] > 0
    assert "drift" not in alone


def test_the_reference_costs_nothing_without_beta_and_pulls_back_with_it(model_path):
    config = make_config(objective={"kl_beta": 0.5})
    policy = make_policy(model_path, config, double=False)
    trainer = Trainer(policy, config=config, rank=Rank())
    first = trainer.train(uneven_samples(4), version=0)
    second = trainer.train(uneven_samples(4), version=1)
    assert first["kl"] == 0.0  # the policy still is the reference
    assert second["kl"] > 0.0
    assert make_policy(model_path, make_config()).reference is None


def test_lora_trains_adapters_alone_and_its_reference_is_the_base(model_path):
    config = make_config(model={"lora": {"rank": 4}}, objective={"kl_beta": 0.1})
    policy = make_policy(model_path, config, double=False)
    assert all("lora_" in name for name in policy.trained())
    base = policy.model.get_base_model().get_input_embeddings().weight.detach().clone()
    trainer = Trainer(policy, config=config, rank=Rank())
    metrics = [trainer.train(uneven_samples(4), version=v) for v in range(3)]
    assert metrics[0]["kl"] == 0.0
    assert metrics[2]["kl"] > 0.0
    assert policy.reference is None
    assert torch.equal(policy.model.get_base_model().get_input_embeddings().weight, base)


def test_bf16_computes_in_half_and_keeps_weights_gradients_and_log_probs_in_float32(model_path):
    config = make_config(learner={"mixed_precision": "bf16"})
    exact = make_policy(model_path, config, double=False)
    expected = run_backward(exact, uneven_samples(4), config)
    half = Policy(model_path, config, Rank(bf16=True))
    loss = run_backward(half, uneven_samples(4), config, Rank(bf16=True))
    difference = loss.before[0].old_logp - expected.before[0].old_logp
    assert loss.before[0].old_logp.dtype == torch.float32
    assert 0 < difference.abs().mean() < 0.1
    assert gradient(half).dtype == torch.float32
    assert relative(gradient(half), gradient(exact)) < 0.1


def test_a_learning_rate_of_zero_leaves_every_bit(model_path):
    config = make_config(learner={"lr": 0.0})
    policy = make_policy(model_path, config, double=False)
    before = policy.weights(holder=True)
    Trainer(policy, config=config, rank=Rank()).train(uneven_samples(4), version=0)
    after = policy.weights(holder=True)
    assert all(torch.equal(after[name], before[name]) for name in before)


def test_two_trainings_on_the_same_samples_give_the_same_bits(model_path):
    weights = []
    for _ in range(2):
        config = make_config(model={"lora": {"rank": 4, "dropout": 0.2}}, seed=7)
        policy = make_policy(model_path, config, double=False)
        trainer = Trainer(policy, config=config, rank=Rank())
        for version in range(3):
            trainer.train(uneven_samples(6), version=version)
        weights.append(policy.weights(holder=True))
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])
