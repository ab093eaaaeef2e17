from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from clawrl.processes.failpoints import VARIABLE, failpoint

PROGRAM = """
from clawrl.processes.failpoints import failpoint
for turn in range(3):
    failpoint("learner.after_step")
    print(turn, flush=True)
"""


def run(value: str | None) -> subprocess.CompletedProcess[str]:
    environment = {name: text for name, text in os.environ.items() if name != VARIABLE}
    if value is not None:
        environment[VARIABLE] = value
    return subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True
    )


def test_without_the_variable_a_point_does_nothing():
    assert run(None).stdout.split() == ["0", "1", "2"]


def test_another_points_name_does_nothing():
    assert run("learner.before_step").returncode == 0


def test_the_first_passage_kills_the_process():
    ended = run("learner.after_step")
    assert ended.returncode == -signal.SIGKILL
    assert ended.stdout == ""


def test_a_number_chooses_the_passage():
    ended = run("learner.after_step@3")
    assert ended.returncode == -signal.SIGKILL
    assert ended.stdout.split() == ["0", "1"]


def test_a_number_that_is_none_is_an_error(monkeypatch):
    monkeypatch.setenv(VARIABLE, "here@soon")
    with pytest.raises(ValueError, match="after '@' comes a number"):
        failpoint("here")
