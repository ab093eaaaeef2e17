"""The whole loop as a user runs it: real processes, the real engine, a tiny model."""

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import psutil
import pytest

from clawrl.records.folder import RunFolder
from clawrl.records.nouns import Update
from tests.tiny import make_tiny_model

# A test that needs no run of another one has a group of its own: two cores share them.
pytestmark = [pytest.mark.engine, pytest.mark.slow, pytest.mark.timeout(1500)]

BATCH = 4
UPDATES = 3


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_model(tmp_path_factory.mktemp("loop") / "model", context=2048)


class Started:
    """A running `clawrl`; remembers every process that it started, directly or not."""

    def __init__(self, arguments: list[str], environment: dict[str, str]) -> None:
        self._output = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed by `finish`
        self.process = subprocess.Popen(
            [sys.executable, "-m", "clawrl.cli.main", *arguments],
            stdout=self._output,
            stderr=subprocess.STDOUT,
            env=environment,
        )
        self.descendants: set[psutil.Process] = set()

    def running(self) -> bool:
        """Whether it still runs; looks at its processes too."""
        with contextlib.suppress(psutil.NoSuchProcess):
            self.descendants.update(psutil.Process(self.process.pid).children(recursive=True))
        return self.process.poll() is None

    def finish(self, timeout_s: float = 500) -> tuple[int, str]:
        """Wait for its end, and then for the end of everything that it started."""
        deadline = time.monotonic() + timeout_s
        while self.running():
            assert time.monotonic() < deadline, self.output()
            time.sleep(0.1)
        _, alive = psutil.wait_procs(self.descendants, timeout=30)
        assert not alive
        output = self.output()
        self._output.close()
        return self.process.returncode, output

    def output(self) -> str:
        """What it has printed so far."""
        self._output.seek(0)
        return self._output.read()


class Runs:
    """Runs `clawrl` in a folder of its own."""

    def __init__(self, root: Path, model: Path) -> None:
        self.root = root
        self.model = model

    def settings(self, name: str) -> list[str]:
        return [
            f"run={name}",
            f"runs_dir={self.root}",
            f"model.name={self.model}",
            "sampling.max_tokens=24",
            "tracking=off",
            "engine.kv_cache_gib=1",
            f"loop.updates={UPDATES}",
            "loop.concurrent_sessions=4",
            f"learner.batch_samples={BATCH}",
            "data.eval_problems=2",
            "eval.replies_per_problem=1",
        ]

    def start(self, *arguments: str, failpoint: str = "") -> "Started":
        environment = dict(os.environ)
        if failpoint:
            environment["CLAWRL_FAILPOINT"] = failpoint
        return Started([*arguments], environment)

    def run(self, *arguments: str, failpoint: str = "") -> tuple[int, str]:
        return self.start(*arguments, failpoint=failpoint).finish()

    def folder(self, name: str) -> RunFolder:
        return RunFolder.open(self.root / name)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, model: Path) -> Runs:
    return Runs(tmp_path_factory.mktemp("runs"), model)


@pytest.fixture(scope="module")
def finished(runs: Runs) -> RunFolder:
    """One whole training run."""
    code, output = runs.run("train", *runs.settings("whole"))
    assert code == 0, output
    assert "naturalness" in output
    return runs.folder("whole")


def assert_every_sample_is_used_once(folder: RunFolder) -> None:
    accepted = [sample.interaction_id for sample in folder.samples.read() if sample.accepted]
    used = [name for update in folder.surviving_updates() for name in update.sample_ids]
    stale = [name for update in folder.surviving_updates() for name in update.stale]
    remainder = folder.remainder()
    assert max(Counter(accepted).values()) == 1
    assert Counter(accepted) == Counter([*used, *stale, *remainder])
    assert stale == []
    assert len(remainder) < BATCH


def test_a_run_leaves_a_report_and_a_ledger(finished: RunFolder):
    updates = finished.surviving_updates()
    assert [update.version for update in updates] == [1, 2, 3]
    assert all(len(update.sample_ids) == BATCH for update in updates)
    for name in ("report.md", "learning_curve.png", "display.svg", "metrics.jsonl"):
        assert (finished.root / name).stat().st_size > 0
    assert_every_sample_is_used_once(finished)


def test_engine_and_learner_agree_at_every_update(finished: RunFolder):
    for update in finished.surviving_updates():
        assert update.metrics["mismatch"] < 0.01
    lines = [json.loads(line) for line in finished.metrics.read_text().splitlines()]
    assert min(line.get("weights/probe_gap", 1.0) for line in lines) < 0.01


def test_turn_taking_trains_on_nothing_but_the_newest_weights(finished: RunFolder):
    samples = {sample.interaction_id: sample for sample in finished.samples.read()}
    for update in finished.surviving_updates():
        for name in update.sample_ids:
            weights = samples[name].weights
            assert weights is not None
            assert (weights.version_first, weights.version_last) == (update.parent, update.parent)
            assert weights.digest == update.digest_before


def test_a_run_judged_and_trained_again_gives_the_same_samples_and_bits(
    runs: Runs, finished: RunFolder
):
    code, output = runs.run("judge", str(finished.root))
    assert code == 0, output
    again = RunFolder.open(Path(f"{finished.root}-judged-1"))
    recorded = {sample.interaction_id: sample for sample in finished.samples.read()}
    for sample in again.samples.read():
        if sample.interaction_id in recorded:
            assert sample == recorded[sample.interaction_id]
    code, output = runs.run("train", "--from", str(again.root))
    assert code == 0, output
    digests = [update.digest_after for update in finished.surviving_updates()]
    assert [update.digest_after for update in again.surviving_updates()] == digests


@pytest.mark.xdist_group("stages")
def test_the_stages_one_after_another_do_what_the_loop_does(runs: Runs):
    code, output = runs.run("collect", *runs.settings("stages"), "--turns", str(2 * BATCH + 4))
    assert code == 0, output
    folder = runs.folder("stages")
    assert list(folder.verdicts.read()) == []
    code, output = runs.run("judge", str(folder.root))
    assert code == 0, output
    assert len(list(folder.verdicts.read())) == len(list(folder.feedback.read()))
    code, output = runs.run("train", "--from", str(folder.root))
    assert code == 0, output
    accepted = [sample.interaction_id for sample in folder.samples.read() if sample.accepted]
    updates = folder.surviving_updates()
    assert len(updates) == len(accepted) // BATCH
    assert [name for update in updates for name in update.sample_ids] == accepted[
        : len(updates) * BATCH
    ]


@pytest.mark.xdist_group("killed")
def test_a_run_that_is_killed_again_and_again_loses_nothing(runs: Runs):
    """The supervisor dies at four points, and whatever it started dies with it. In the process that
    ends the run the learner dies at every second update, and the engine after the first.
    """
    folder = RunFolder(runs.root / "again")
    command = ["train", *runs.settings("again"), "loop.updates=5"]
    for point in ("before_verdict@3", "after_verdict@2", "before_publish", "after_publish"):
        started = runs.start(*command, failpoint=f"supervisor.{point}")
        code, output = started.finish()
        assert code == -signal.SIGKILL, output
        assert len(started.descendants) >= 7, "two guards, learner, vLLM's four"
        command = ["train", "--resume", str(folder.root)]
    published = len(folder.surviving_updates())
    started = runs.start(*command, failpoint="learner.after_weights@2")
    killed = False
    while started.running():
        time.sleep(0.1)
        if not killed and len(folder.surviving_updates()) > published:
            killed = kill_engine(started)
    code, output = started.finish()
    assert code == 0, output
    assert killed
    assert [update.version for update in folder.surviving_updates()] == [1, 2, 3, 4, 5]
    assert_every_sample_is_used_once(RunFolder.open(folder.root))


def kill_engine(started: Started) -> bool:
    for process in started.descendants:
        with contextlib.suppress(psutil.Error):
            words = process.cmdline()
            if (
                "vllm.entrypoints.openai.api_server" in words
                and "clawrl.processes.guard" not in words
            ):
                process.kill()
                return True
    return False


@pytest.mark.xdist_group("beside")
def test_learning_beside_sampling_keeps_staleness_within_its_bound(runs: Runs):
    code, output = runs.run("train", *runs.settings("beside"), "loop.max_staleness=1")
    assert code == 0, output
    folder = runs.folder("beside")
    samples = {sample.interaction_id: sample for sample in folder.samples.read()}
    for update in folder.surviving_updates():
        for name in update.sample_ids:
            weights = samples[name].weights
            assert weights is not None
            assert update.parent - weights.version_first <= 1
    accepted = Counter(name for name, sample in samples.items() if sample.accepted)
    used = [name for update in folder.surviving_updates() for name in update.sample_ids]
    stale = [name for update in folder.surviving_updates() for name in update.stale]
    assert accepted == Counter([*used, *stale, *folder.remainder()])


@pytest.mark.xdist_group("stopped")
def test_ctrl_c_saves_and_says_how_to_go_on(runs: Runs):
    started = runs.start("train", *runs.settings("stopped"))
    folder = RunFolder(runs.root / "stopped")
    while not folder.ledger.exists() or not folder.ledger.stat().st_size:
        assert started.running(), started.output()
        time.sleep(0.1)
    started.process.send_signal(signal.SIGINT)
    code, output = started.finish(120)
    assert code == 130, output
    assert f"clawrl train --resume {folder.root}" in " ".join(output.split())
    assert all(isinstance(line, Update) for line in folder.ledger_lines())


def test_a_corrupt_samples_file_is_one_line_that_names_file_and_line(
    runs: Runs, finished: RunFolder, tmp_path: Path
):
    broken = tmp_path / "broken"
    shutil.copytree(finished.root, broken)
    victim = sorted((broken / "samples").glob("*.jsonl"))[0]
    lines = victim.read_text().splitlines()
    victim.write_text("\n".join([lines[0], "{not json", *lines[1:]]) + "\n")
    code, output = runs.run("train", "--resume", str(broken), "loop.updates=4")
    assert code == 1
    assert f"{victim}:2:" in " ".join(output.split())


def test_an_unreadable_model_path_is_one_line(runs: Runs):
    code, output = runs.run(
        "train", *runs.settings("unreadable"), f"model.name={runs.root}/nothing"
    )
    assert code == 2
    assert str(runs.root / "nothing") in output.splitlines()[-1]


def test_a_port_in_use_is_one_line(runs: Runs):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, output = runs.run("train", *runs.settings("port"), f"gateway.port={port}")
    assert code == 1
    assert str(port) in output.splitlines()[-1]


@pytest.mark.xdist_group("full disk")
@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small tmpfs needs root")
def test_a_full_disk_is_one_line_and_nothing_written_is_lost(runs: Runs, tmp_path: Path):
    place = tmp_path / "small"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=900k", "tmpfs", str(place)], check=False
    )
    if mounted.returncode != 0:
        pytest.skip("this machine does not let a test mount a tmpfs")
    try:
        settings = [*runs.settings("full"), f"runs_dir={place}", "loop.updates=50"]
        code, output = runs.run("train", *settings)
        assert code == 1, output
        assert "No space left on device" in " ".join(output.splitlines()[-1:])
        folder = RunFolder.open(place / "full")
        for stream in (folder.interactions, folder.feedback, folder.verdicts, folder.samples):
            assert all(record is not None for record in stream.read())
    finally:
        subprocess.run(["umount", str(place)], check=False)
