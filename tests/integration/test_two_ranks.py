"""Two learner processes over gloo, sharded by FSDP2, against one process."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
import torch

from clawrl.learner.command import learner_command, learner_environment
from clawrl.learner.rank import Rank
from clawrl.records.versions import read_meta, version_folder
from tests.integration.two_ranks_worker import CASES, whole_gradients
from tests.learning import make_config, make_run, uneven_samples
from tests.tiny import make_tiny_model

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def model_path(tmp_path_factory):
    torch.set_num_threads(1)
    return make_tiny_model(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def gradients(model_path, tmp_path_factory):
    """Of two processes and of one: both as {case: vector}."""
    out = tmp_path_factory.mktemp("gradients") / "two.pt"
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    worker = [str(ROOT / "tests/integration/two_ranks_worker.py"), str(model_path), str(out)]
    done = subprocess.run(
        [*launcher, "--nproc-per-node", "2", *worker],
        env=os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    two = torch.load(out, weights_only=True)
    assert two.pop("ranks") == 2
    return two, whole_gradients(model_path, Rank())


@pytest.mark.parametrize("case", CASES)
def test_the_gradient_of_two_processes_is_that_of_one(gradients, case):
    two, one = gradients[0][case], gradients[1][case]
    assert one.norm() > 1e-3
    assert ((two - one).norm() / one.norm()).item() < 1e-6


def start(config, folder, model_path, until):
    with (folder.root / "learner.log").open("a") as log:
        return subprocess.Popen(
            learner_command(config, folder.root, until, bound_staleness=False),
            env=os.environ | learner_environment(config, model_path) | {"OMP_NUM_THREADS": "1"},
            cwd=ROOT,
            stderr=log,
        )


def wait_for(condition, seconds=120):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.1)


def rank_of(process):
    try:
        return process.environ().get("RANK")
    except psutil.Error:
        return None


@pytest.fixture(scope="module")
def undisturbed(model_path, tmp_path_factory):
    """Digests of two updates by two processes; nothing went wrong."""
    config = make_config(resources={"learner_processes": 2})
    folder = make_run(tmp_path_factory.mktemp("whole") / "run", config, uneven_samples(8))
    assert start(config, folder, model_path, 2).wait(timeout=120) == 0
    return [update.digest_after for update in folder.surviving_updates()]


@pytest.mark.parametrize("lora", [None, {"rank": 4}])
def test_killing_one_rank_ends_both_and_a_restart_loses_nothing(
    tmp_path, model_path, undisturbed, lora
):
    """It goes on from its checkpoint; without an adapter its weights are known to the bit."""
    config = make_config(resources={"learner_processes": 2}, model={"lora": lora})
    folder = make_run(tmp_path / "run", config, uneven_samples(5))
    learner = start(config, folder, model_path, 2)
    wait_for(lambda: len(folder.surviving_updates()) == 1)
    ranks = psutil.Process(learner.pid).children(recursive=True)
    victim = next(process for process in ranks if rank_of(process) == "1")
    victim.kill()
    assert learner.wait(timeout=120) != 0
    psutil.wait_procs(ranks, timeout=30)
    assert not any(process.is_running() for process in ranks)

    writer = folder.samples.writer(1)
    for sample in uneven_samples(8)[5:]:
        writer.append(sample)
    writer.close()
    assert start(config, folder, model_path, 2).wait(timeout=120) == 0
    updates = folder.surviving_updates()
    assert [i for u in updates for i in u.sample_ids] == [f"v0-{i}" for i in range(8)]
    for update in updates:
        meta = read_meta(version_folder(folder.weights, update.version))
        assert meta.digest == update.digest_after
    if lora is None:
        assert [update.digest_after for update in updates] == undisturbed
