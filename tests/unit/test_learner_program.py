"""The learner's loop over a real folder and a real, tiny model, in this process."""

import itertools
import json

import pytest
import torch
from transformers import AutoModelForCausalLM

from clawrl.errors import LearnerError, ModelError
from clawrl.learner.policy import Policy
from clawrl.learner.program import Learner, Options
from clawrl.learner.rank import Rank
from clawrl.learner.step import Trainer
from clawrl.records.nouns import Retired
from clawrl.records.versions import digest_of, read_meta, version_folder, versions
from tests.learning import make_config, make_run, uneven_samples
from tests.tiny import make_tiny_model


@pytest.fixture(scope="module")
def model_path(tmp_path_factory):
    torch.set_num_threads(1)  # more would spend their time waiting for one another
    return make_tiny_model(tmp_path_factory.mktemp("model"))


def learn(folder, config, model_path, until, *, replay=None, stop_after=None):
    """Run the learner to `until`; `stop_after`: ask it to stop once that many lines are there."""

    def stopping():
        return stop_after is not None and len(folder.ledger_lines()) >= stop_after

    options = Options(
        run=folder.root,
        model_path=model_path,
        until=until,
        replay=replay,
        bound_staleness=False,
    )
    Learner(options, config, Rank()).run(stopping=stopping)


def digests(folder):
    return [update.digest_after for update in folder.surviving_updates()]


def test_each_update_names_its_samples_and_the_weights_before_and_after(tmp_path, model_path):
    config = make_config()
    samples = uneven_samples(12)
    folder = make_run(tmp_path / "run", config, samples)
    learn(folder, config, model_path, 3)
    updates = folder.surviving_updates()
    assert [u.version for u in updates] == [1, 2, 3]
    assert [i for u in updates for i in u.sample_ids] == [s.interaction_id for s in samples]
    assert updates[0].digest_before == digest_of(model_path)
    for earlier, later in itertools.pairwise(updates):
        assert later.digest_before == earlier.digest_after != later.digest_after
    for u in updates:
        assert read_meta(version_folder(folder.weights, u.version)).digest == u.digest_after
    assert versions(folder.checkpoints) == [3]
    expected = {"loss", "grad_norm", "lr", "clip_fraction", "mismatch", "kl", "binary_abs"}
    expected |= {"opd_abs", "hint_rate", "score_mean", "reply_tokens", "tokens_per_s", "seconds"}
    assert set(updates[0].metrics) == expected
    assert "drift" in updates[2].metrics


def test_a_version_loads_as_a_model_and_its_probe_is_what_it_computes(tmp_path, model_path):
    config = make_config()
    folder = make_run(tmp_path / "run", config, uneven_samples(8))
    learn(folder, config, model_path, 2)
    first = version_folder(folder.weights, 1)
    model = AutoModelForCausalLM.from_pretrained(first)
    probe = json.loads((first / "probe.json").read_text())
    assert len(probe) == 2
    for turn in probe:
        ids = torch.tensor([turn["prompt_ids"] + turn["reply_ids"]])
        with torch.no_grad():
            logp = model(ids).logits[0, len(turn["prompt_ids"]) - 1 : -1].log_softmax(-1)
        expected = logp.gather(1, torch.tensor(turn["reply_ids"])[:, None])[:, 0]
        assert torch.allclose(torch.tensor(turn["logp"]), expected, atol=1e-5)
    assert not (version_folder(folder.weights, 2) / "probe.json").exists()
    assert (first / "tokenizer.json").read_bytes() == (model_path / "tokenizer.json").read_bytes()
    assert json.loads((first / "config.json").read_text())["dtype"] == "float32"


def test_the_engines_precision_is_what_is_written(tmp_path, model_path):
    config = make_config(model={"dtype": "bfloat16"})
    folder = make_run(tmp_path / "run", config, uneven_samples(4))
    learn(folder, config, model_path, 1)
    written = version_folder(folder.weights, 1)
    model = AutoModelForCausalLM.from_pretrained(written)
    assert model.dtype == torch.bfloat16
    state = torch.load(version_folder(folder.checkpoints, 1) / "state.pt", weights_only=True)
    assert {value.dtype for value in state["weights"].values()} == {torch.float32}


@pytest.mark.parametrize("lora", [None, {"rank": 4, "dropout": 0.1}])
def test_a_resumed_run_continues_with_the_same_bits(tmp_path, model_path, lora):
    config = make_config(model={"lora": lora}, learner={"steps_per_batch": 2})
    whole = make_run(tmp_path / "whole", config, uneven_samples(12))
    learn(whole, config, model_path, 3)
    halves = make_run(tmp_path / "halves", config, uneven_samples(12))
    learn(halves, config, model_path, 1)
    learn(halves, config, model_path, 3)
    assert digests(halves) == digests(whole)


def test_an_adapter_is_written_as_an_adapter(tmp_path, model_path):
    from peft import PeftModel

    config = make_config(model={"lora": {"rank": 4}})
    folder = make_run(tmp_path / "run", config, uneven_samples(4))
    learn(folder, config, model_path, 1)
    written = version_folder(folder.weights, 1)
    assert read_meta(written).kind == "lora"
    base = AutoModelForCausalLM.from_pretrained(model_path)
    adapted = PeftModel.from_pretrained(base, written)
    turn = json.loads((written / "probe.json").read_text())[0]
    with torch.no_grad():
        logits = adapted(torch.tensor([turn["prompt_ids"] + turn["reply_ids"]])).logits
    logp = logits[0, len(turn["prompt_ids"]) - 1 : -1].log_softmax(-1)
    expected = logp.gather(1, torch.tensor(turn["reply_ids"])[:, None])[:, 0]
    assert torch.allclose(torch.tensor(turn["logp"]), expected, atol=1e-5)


def test_updates_after_the_last_checkpoint_are_trained_again_alike(tmp_path, model_path):
    config = make_config(learner={"checkpoint_every": 2})
    folder = make_run(tmp_path / "run", config, uneven_samples(20))
    learn(folder, config, model_path, 3)
    before = folder.surviving_updates()
    # A crash after the line of version 3 and before its checkpoint: only version 2 has one.
    two = make_run(tmp_path / "two", config, uneven_samples(20))
    learn(two, config, model_path, 2)
    two.ledger.write_bytes(folder.ledger.read_bytes())
    learn(two, config, model_path, 5)
    kinds = [(line.kind, line.version) for line in two.ledger_lines()]
    assert kinds[3] == ("retired", 3)
    after = two.surviving_updates()
    assert [u.sample_ids for u in after[:3]] == [u.sample_ids for u in before]
    assert [u.digest_after for u in after[:3]] == [u.digest_after for u in before]
    assert len({i for u in after for i in u.sample_ids}) == 20
    assert isinstance(two.ledger_lines()[3], Retired)


def test_asked_to_stop_it_saves_and_goes_on_later(tmp_path, model_path):
    config = make_config(learner={"checkpoint_every": 10})
    folder = make_run(tmp_path / "run", config, uneven_samples(12))
    learn(folder, config, model_path, 3, stop_after=2)
    assert [u.version for u in folder.surviving_updates()] == [1, 2]
    assert versions(folder.checkpoints) == [2]
    learn(folder, config, model_path, 3)
    assert [line.kind for line in folder.ledger_lines()] == ["update"] * 3


def test_a_replay_of_the_ledger_gives_the_same_weights(tmp_path, model_path):
    config = make_config()
    folder = make_run(tmp_path / "run", config, uneven_samples(12))
    learn(folder, config, model_path, 3)
    shuffled = list(reversed(uneven_samples(12)))  # the ledger's order counts, not the file's
    again = make_run(tmp_path / "again", config, shuffled)
    learn(again, config, model_path, 9, replay=folder.surviving_updates())
    assert digests(again) == digests(folder)
    assert [u.sample_ids for u in again.surviving_updates()] == [
        u.sample_ids for u in folder.surviving_updates()
    ]


def test_a_replay_without_a_sample_is_an_error(tmp_path, model_path):
    config = make_config()
    folder = make_run(tmp_path / "run", config, uneven_samples(4))
    learn(folder, config, model_path, 1)
    again = make_run(tmp_path / "again", config, uneven_samples(3))
    with pytest.raises(LearnerError, match="not here: v0-3"):
        learn(again, config, model_path, 1, replay=folder.surviving_updates())


def test_a_checkpoint_of_another_shape_is_an_error(tmp_path, model_path):
    config = make_config()
    folder = make_run(tmp_path / "run", config, uneven_samples(8))
    learn(folder, config, model_path, 1)
    with pytest.raises(LearnerError, match=r"model\.lora"):
        learn(folder, make_config(model={"lora": {"rank": 2}}), model_path, 2)


def test_an_unreadable_model_is_one_line(tmp_path):
    with pytest.raises(ModelError, match="cannot read a model there") as error:
        Policy(tmp_path, make_config(), Rank())
    assert "\n" not in str(error.value)


def test_a_gradient_that_is_not_finite_takes_no_step(model_path):
    config = make_config()
    policy = Policy(model_path, config, Rank())
    before = policy.weights(holder=True)
    sample = uneven_samples(1)[0]
    broken = sample.model_copy(update={"behaviour_logp": [float("nan")] * len(sample.reply_ids)})
    with pytest.raises(LearnerError, match="no step was taken"):
        Trainer(policy, config=config, rank=Rank()).train([broken], version=0)
    after = policy.weights(holder=True)
    assert all(torch.equal(after[name], before[name]) for name in before)


def test_the_learning_rate_warms_up_and_stays(model_path):
    from clawrl.learner.step import learning_rate

    learner = make_config(learner={"lr": 1.0, "warmup_updates": 4}).learner
    assert [learning_rate(learner, v) for v in range(6)] == [0.25, 0.5, 0.75, 1.0, 1.0, 1.0]
    assert learning_rate(make_config(learner={"lr": 1.0}).learner, 0) == 1.0
