"""When the learner may work, and on how much."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from pydantic import ValidationError

from clawrl.config import schema
from clawrl.learner.schedule import Schedule


def schedule(tmp_path: Path, now: float, asked: float | None = None, **config: object) -> Schedule:
    activity = tmp_path / "activity"
    if asked is not None:
        activity.touch()
        os.utime(activity, (asked, asked))
    return Schedule(schema.Learner.model_validate(config), activity, clock=lambda: now)


def at(hour: int) -> float:
    return time.mktime((2026, 12, 7, hour, 30, 0, 0, 0, -1))


def test_a_batch_is_as_large_as_always_while_somebody_is_there(tmp_path: Path) -> None:
    assert schedule(tmp_path, 1000, 990, idle_batch_samples=4).batch_samples() == 16
    assert schedule(tmp_path, 2000, 990, idle_batch_samples=4).batch_samples() == 4
    assert schedule(tmp_path, 2000, 990).batch_samples() == 16


def test_an_idle_learner_waits_until_nobody_asks(tmp_path: Path) -> None:
    assert schedule(tmp_path, 1000, 990, when="idle").batch_samples() is None
    assert schedule(tmp_path, 1000, 990, when="idle", idle_s=5).batch_samples() == 16
    assert schedule(tmp_path / "never-asked", 1000, when="idle").batch_samples() == 16


@pytest.mark.parametrize(
    ("when", "hour", "learns"),
    [
        ("hours(22-7)", 23, True),
        ("hours(22-7)", 3, True),
        ("hours(22-7)", 7, False),
        ("hours(22-7)", 12, False),
        ("hours(9-17)", 9, True),
        ("hours(9-17)", 17, False),
        ("hours(20-24)", 23, True),
    ],
)
def test_hours_may_go_past_midnight(tmp_path: Path, when: str, hour: int, learns: bool) -> None:
    found = schedule(tmp_path, at(hour), when=when).batch_samples()
    assert (found is not None) == learns


@pytest.mark.parametrize("when", ["never", "hours(25-7)", "hours(22)", "hours(1-2) ", ""])
def test_another_time_is_refused(when: str) -> None:
    with pytest.raises(ValidationError):
        schema.Learner(when=when)
