"""The learner as a process: stopped politely, and killed at the worst moments."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
import torch

from clawrl.learner.command import learner_command, learner_environment
from clawrl.learner.program import Learner, Options
from clawrl.learner.rank import Rank
from clawrl.records.versions import version_folder, versions
from tests.learning import make_config, make_run, uneven_samples
from tests.tiny import make_tiny_model

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]
KILLS = [
    ("before_step@2", 1),
    ("after_step@2", 1),
    ("after_weights@2", 1),
    ("before_checkpoint_rename@2", 1),
    ("after_checkpoint@2", 1),
    ("after_ledger@2", 1),
    ("after_ledger@1", 2),
    ("after_weights@3", 2),
]
"""At which passage of which point, with a checkpoint every so many updates."""


@pytest.fixture(scope="module")
def model_path(tmp_path_factory):
    torch.set_num_threads(1)
    return make_tiny_model(tmp_path_factory.mktemp("model"))


def start(config, folder, model_path, until, **environment):
    with (folder.root / "learner.log").open("a") as log:
        return subprocess.Popen(
            learner_command(config, folder.root, until, bound_staleness=False),
            env=os.environ
            | learner_environment(config, model_path)
            | {"OMP_NUM_THREADS": "1"}
            | environment,
            cwd=ROOT,
            stderr=log,
        )


def finish(config, folder, model_path, until):
    options = Options(run=folder.root, model_path=model_path, until=until, bound_staleness=False)
    Learner(options, config, Rank()).run(stopping=lambda: False)


@pytest.fixture(scope="module")
def undisturbed(model_path, tmp_path_factory):
    """Digests of three updates, by how often a checkpoint was written; nothing went wrong."""
    digests = {}
    for every in (1, 2):
        config = make_config(learner={"checkpoint_every": every})
        folder = make_run(tmp_path_factory.mktemp("whole") / "run", config, uneven_samples(14))
        finish(config, folder, model_path, 3)
        digests[every] = [update.digest_after for update in folder.surviving_updates()]
    return digests


@pytest.mark.parametrize(("point", "every"), KILLS)
def test_a_kill_loses_nothing_and_trains_nothing_twice(
    tmp_path, model_path, undisturbed, point, every
):
    config = make_config(learner={"checkpoint_every": every})
    folder = make_run(tmp_path / "run", config, uneven_samples(14))
    killed = start(config, folder, model_path, 3, CLAWRL_FAILPOINT=f"learner.{point}")
    assert killed.wait(timeout=120) == -signal.SIGKILL
    finish(config, folder, model_path, 3)
    updates = folder.surviving_updates()
    assert [i for u in updates for i in u.sample_ids] == [f"v0-{i}" for i in range(12)]
    assert [u.digest_after for u in updates] == undisturbed[every]
    assert versions(folder.checkpoints) == [3]
    assert not list(version_folder(folder.weights, 3).parent.glob(".*"))


def test_a_polite_stop_saves_and_exits_with_zero(tmp_path, model_path):
    config = make_config(learner={"checkpoint_every": 10})
    folder = make_run(tmp_path / "run", config, uneven_samples(5))
    learner = start(config, folder, model_path, 3)
    deadline = time.monotonic() + 120
    while not folder.surviving_updates() and time.monotonic() < deadline:
        time.sleep(0.1)
    learner.send_signal(signal.SIGTERM)
    assert learner.wait(timeout=60) == 0
    assert versions(folder.checkpoints) == [1]


@pytest.mark.parametrize(
    ("damage", "code", "line"),
    [
        ("samples", 1, r"v000000.jsonl:6: not JSON"),
        ("model", 2, "the learner cannot read a model there"),
        ("config", 2, "learner.lr: Input should be greater than or equal to 0"),
    ],
)
def test_what_is_wrong_is_one_line(tmp_path, model_path, damage, code, line):
    config = make_config()
    folder = make_run(tmp_path / "run", config, uneven_samples(5))
    if damage == "samples":
        with folder.samples.path(0).open("a") as file:
            file.write("{torn\n")
    if damage == "model":
        model_path = tmp_path
    if damage == "config":
        folder.config.write_text(folder.config.read_text().replace("lr: 0.001", "lr: -1"))
    learner = start(config, folder, model_path, 3)
    assert learner.wait(timeout=120) == code
    log = (folder.root / "learner.log").read_text()
    assert line in log.splitlines()[-1]
    assert "Traceback" not in log
