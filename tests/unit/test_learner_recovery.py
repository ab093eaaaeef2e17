import pytest

from clawrl.errors import LearnerError
from clawrl.learner.recovery import recover
from clawrl.records.folder import surviving
from clawrl.records.nouns import Retired, Update


def update(version, digest="x"):
    return Update(
        version=version,
        parent=version - 1,
        sample_ids=[f"s{version}"],
        digest_before="",
        digest_after=f"{digest}{version}",
        created=0.0,
    )


def retired(version, digest="x"):
    return Retired(
        version=version, digest=f"{digest}{version}", sample_ids=[f"s{version}"], created=0.0
    )


def after(lines, checkpoint):
    recovery = recover(lines, checkpoint)
    held = [u.version for u in surviving([*lines, *recovery.append])]
    return held, [u.version for u in recovery.redo]


def test_a_clean_end_needs_nothing():
    assert recover([update(1), update(2)], update(2)).append == []
    assert recover([], None).append == []


def test_a_checkpoint_ahead_of_the_ledger_completes_it():
    assert after([update(1)], update(2)) == ([1, 2], [])


def test_updates_after_the_checkpoint_are_retired_and_trained_again_in_order():
    lines = [update(1), update(2), update(3)]
    assert after(lines, update(1)) == ([1], [2, 3])
    kinds = [line.kind for line in recover(lines, update(1)).append]
    assert kinds == ["retired", "retired"]


def test_without_a_checkpoint_everything_is_trained_again():
    assert after([update(1), update(2)], None) == ([], [1, 2])


def test_a_second_crash_while_training_again_forgets_no_batch():
    lines = [update(1), update(2), update(3), retired(2), retired(3), update(2)]
    assert after(lines, update(1)) == ([1], [2, 3])
    # the same, with the checkpoint of the new version 2 written and its line not yet
    assert after(lines[:-1], update(2)) == ([1, 2], [3])


def test_a_ledger_that_lost_lines_is_an_error():
    with pytest.raises(LearnerError, match="lacks 2"):
        recover([update(1)], update(3))
    with pytest.raises(LearnerError, match="gap after version 1"):
        recover([update(1), update(3)], update(1))


def test_a_checkpoint_of_other_weights_is_an_error():
    with pytest.raises(LearnerError, match="different weights"):
        recover([update(1)], update(1, digest="y"))
