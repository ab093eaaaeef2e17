import pytest

from clawrl.errors import LearnerError, RecordError
from clawrl.learner.pool import SamplePool, require_trainable
from clawrl.records.nouns import Sample, Update
from tests.learning import make_config, make_run, make_sample


def make_pool(tmp_path, samples, survived=()):
    folder = make_run(tmp_path / "run", make_config(), samples)
    pool = SamplePool(folder, survived)
    pool.poll()
    return pool


def update(version, ids, stale=None):
    return Update(
        version=version,
        parent=version - 1,
        sample_ids=ids,
        stale=stale or {},
        digest_before="a",
        digest_after="b",
        created=0.0,
    )


def names(batch):
    return [sample.interaction_id for sample in batch.samples]


def test_samples_are_taken_in_the_order_of_the_file_and_once(tmp_path):
    pool = make_pool(tmp_path, [make_sample(name) for name in "abcde"])
    assert names(pool.take(2, version=0, max_staleness=0, max_staleness_live=8)) == ["a", "b"]
    assert names(pool.take(2, version=0, max_staleness=0, max_staleness_live=8)) == ["c", "d"]
    assert pool.take(2, version=0, max_staleness=0, max_staleness_live=8) is None


def test_rejected_samples_and_second_copies_are_not_taken(tmp_path):
    rejected = Sample(interaction_id="r", session_id="s", accepted=False, reason="score_0")
    pool = make_pool(tmp_path, [make_sample("a"), rejected, make_sample("a"), make_sample("b")])
    assert names(pool.take(2, version=0, max_staleness=0, max_staleness_live=8)) == ["a", "b"]


def test_too_old_samples_are_passed_over_and_named_once(tmp_path):
    samples = [make_sample("old", version=0), make_sample("a", version=2)]
    pool = make_pool(tmp_path, [*samples, make_sample("b", version=3)])
    assert pool.take(3, version=3, max_staleness=1, max_staleness_live=8) is None
    batch = pool.take(2, version=3, max_staleness=1, max_staleness_live=8)
    assert names(batch) == ["a", "b"]
    assert batch.stale == {"old": 3}


def test_staleness_counts_from_the_version_at_the_first_token(tmp_path):
    sample = make_sample("a")
    weights = sample.weights.model_copy(update={"version_first": 1, "version_last": 3})
    pool = make_pool(tmp_path, [sample.model_copy(update={"weights": weights})])
    assert pool.take(1, version=3, max_staleness=1, max_staleness_live=8) is None


def test_without_a_bound_any_age_will_do(tmp_path):
    pool = make_pool(tmp_path, [make_sample("a")])
    assert names(pool.take(1, version=50, max_staleness=None, max_staleness_live=None)) == ["a"]


def test_what_the_ledger_names_is_not_taken_again(tmp_path):
    survived = [update(1, ["a", "c"], {"b": 2})]
    pool = make_pool(tmp_path, [make_sample(name) for name in "abcd"], survived)
    assert names(pool.take(1, version=1, max_staleness=None, max_staleness_live=None)) == ["d"]


def test_a_recorded_batch_is_taken_again_exactly(tmp_path):
    pool = make_pool(tmp_path, [make_sample(name) for name in "abcd"])
    batch = pool.take_again(update(1, ["c", "a"], {"b": 4}))
    assert names(batch) == ["c", "a"]
    assert batch.stale == {"b": 4}
    assert names(pool.take(1, version=0, max_staleness=None, max_staleness_live=None)) == ["d"]
    with pytest.raises(LearnerError, match="not here: c"):
        pool.take_again(update(1, ["c"]))


def test_a_missing_log_prob_is_an_error_and_never_padded():
    sample = make_sample("short")
    broken = sample.model_copy(update={"behaviour_logp": sample.behaviour_logp[:-1]})
    with pytest.raises(LearnerError, match=r"sample short: .* 8 reply ids, 7 log-probabilities"):
        require_trainable(broken)
    for gone in ("reply_ids", "prompt_ids", "weights"):
        with pytest.raises(LearnerError):
            require_trainable(sample.model_copy(update={gone: None if gone == "weights" else []}))


def test_a_corrupt_line_names_file_and_line(tmp_path):
    folder = make_run(tmp_path / "run", make_config(), [make_sample("a")])
    with folder.samples.path(0).open("a") as file:
        file.write("{broken\n")
    with pytest.raises(RecordError, match=r"v000000\.jsonl:2: not JSON"):
        SamplePool(folder, []).poll()


def test_a_live_user_s_turn_may_be_older_and_is_named_when_it_is_too_old(tmp_path):
    live = [
        make_sample(name, version=version).model_copy(update={"live": True})
        for name, version in (("ancient", 0), ("old", 2))
    ]
    pool = make_pool(
        tmp_path, [*live, make_sample("driven", version=2), make_sample("a", version=9)]
    )
    batch = pool.take(2, version=9, max_staleness=1, max_staleness_live=8)
    assert names(batch) == ["old", "a"]
    assert batch.stale == {"ancient": 9, "driven": 7}
