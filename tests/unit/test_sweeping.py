import io
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from rich.console import Console

from clawrl.cli import sweeping
from clawrl.cli.sweeping import STOPPED, Sweep, train_in_a_process
from clawrl.config.compose import compose, load
from clawrl.config.difference import differences
from clawrl.errors import ClawRLError, ConfigError, UserError
from clawrl.records.folder import RunFolder
from clawrl.records.jsonl import JsonlFile
from clawrl.records.nouns import Remainder

AXES = ["objective=binary,opd", "seed=1,2", "tracking=off"]


class Trainings:
    """Stands for `clawrl train --resume`: remembers its calls, ends runs or fails as told."""

    def __init__(self, codes: dict[str, int] | None = None) -> None:
        self.codes = codes or {}
        self.called: list[str] = []

    def __call__(self, run: Path) -> int:
        self.called.append(run.name)
        code = self.codes.get(run.name, 0)
        if code == 0:
            with JsonlFile(RunFolder(run).ledger) as ledger:
                ledger.append(Remainder(sample_ids=[], created=0))
        return code


def plan(tmp_path: Path, *overrides: str) -> Sweep:
    return Sweep.plan([*overrides, f"runs_dir={tmp_path}"], None)


def labels(sweep: Sweep) -> list[str]:
    return [point.label for point in sweep.points]


def test_every_point_has_a_folder_named_by_what_varies(tmp_path: Path):
    sweep = plan(tmp_path, *AXES, "run=table")
    assert labels(sweep) == [
        "objective=binary,seed=1",
        "objective=binary,seed=2",
        "objective=opd,seed=1",
        "objective=opd,seed=2",
    ]
    assert sweep.points[3].folder.root == tmp_path / "table/objective=opd,seed=2"
    assert list(tmp_path.iterdir()) == []


def test_a_run_holds_its_own_point_and_the_name_of_its_sweep(tmp_path: Path):
    plan(tmp_path, *AXES, "run=table").run(Trainings())
    stored = load(tmp_path / "table/objective=opd,seed=2/config.yaml")
    assert (stored.objective.kind, stored.seed, stored.data.seed) == ("opd", 2, 2)
    assert stored.tracking.sweep == "table"


def test_without_a_name_the_sweep_is_called_by_recipe_and_time(tmp_path: Path):
    sweep = plan(tmp_path, "recipe=paper/personalization", "seed=1,2")
    assert sweep.name.startswith("paper-personalization-20")
    assert plan(tmp_path, "recipe=student_persona,teacher_persona").name.startswith("sweep-20")


def test_a_value_with_slashes_or_commas_stays_one_folder(tmp_path: Path):
    sweep = plan(tmp_path, "recipe=student_persona,paper/personalization", "run=x")
    assert labels(sweep) == ["recipe=student_persona", "recipe=paper%2Fpersonalization"]
    sweep = plan(tmp_path, "learner.betas=[0.9,0.98],[0.9,0.99]", "run=x")
    assert len(set(labels(sweep))) == 2
    assert all(point.folder.root.parent == tmp_path / "x" for point in sweep.points)


def test_one_point_is_named_by_all_that_was_typed(tmp_path: Path):
    sweep = Sweep.plan(["objective=opd", "seed=1", "run=x"], None)
    assert labels(sweep) == ["objective=opd,seed=1"]


def test_two_points_never_share_a_folder(tmp_path: Path):
    with pytest.raises(ConfigError, match="stands twice"):
        plan(tmp_path, "seed=1,1")


def test_the_name_cannot_be_swept(tmp_path: Path):
    with pytest.raises(ConfigError, match="names the whole sweep"):
        plan(tmp_path, "run=a,b", "seed=1,2")


def test_called_again_it_skips_what_is_finished_and_goes_on_with_the_rest(tmp_path: Path):
    first = Trainings({"objective=binary,seed=2": 1, "objective=opd,seed=1": STOPPED})
    with pytest.raises(SystemExit) as stopped:
        plan(tmp_path, *AXES, "run=table").run(first)
    assert stopped.value.code == STOPPED
    assert first.called == labels(plan(tmp_path, *AXES))[:3]
    states = [point.state for point in plan(tmp_path, *AXES, "run=table").points]
    assert states == ["finished", "unfinished", "unfinished", "new"]
    second = Trainings()
    plan(tmp_path, *AXES, "run=table").run(second)
    assert second.called == labels(plan(tmp_path, *AXES))[1:]


def test_more_seeds_join_a_sweep_that_is_finished(tmp_path: Path):
    plan(tmp_path, *AXES, "run=table").run(Trainings())
    more = Trainings()
    plan(tmp_path, "objective=binary,opd", "seed=1,2,3", "tracking=off", "run=table").run(more)
    assert more.called == ["objective=binary,seed=3", "objective=opd,seed=3"]


def test_a_point_that_fails_ends_no_other_and_is_counted(tmp_path: Path):
    trainings = Trainings({"objective=binary,seed=1": 1})
    with pytest.raises(ClawRLError, match=r"1 of 4 runs .* run=table tries them again"):
        plan(tmp_path, *AXES, "run=table").run(trainings)
    assert len(trainings.called) == 4


def test_other_settings_under_the_same_name_are_refused_before_anything_runs(tmp_path: Path):
    plan(tmp_path, *AXES, "run=table").run(Trainings())
    with pytest.raises(UserError, match=r"learner\.lr=1\.2e-05, now it would be 1e-06"):
        plan(tmp_path, *AXES, "run=table", "learner.lr=1e-6")


def test_a_dry_run_shows_the_points_and_makes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    screen = io.StringIO()
    monkeypatch.setattr(sweeping, "out", Console(file=screen, width=200))
    plan(tmp_path, *AXES, "run=table").show()
    assert screen.getvalue().count(" new ") == 4
    assert list(tmp_path.iterdir()) == []


def test_a_run_goes_on_in_a_process_of_its_own(tmp_path: Path):
    assert train_in_a_process(tmp_path / "nowhere") == 2


def test_a_signal_goes_to_the_run_and_not_to_the_sweep():
    code = "import signal, sys; signal.signal(15, lambda *_: sys.exit(130)); print(flush=True)\n"
    command = [sys.executable, "-c", code + "signal.pause()"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()  # it listens now
        with sweeping.signals_passed_on(child):
            interrupt = threading.Thread(target=_interrupt_this_process)
            interrupt.start()
            assert child.wait(timeout=30) == STOPPED
            interrupt.join()


def _interrupt_this_process() -> None:
    time.sleep(0.05)
    os.kill(os.getpid(), signal.SIGINT)


def test_differences_name_keys_and_hold_no_secret():
    one = compose(["seed=1", "judge=prm", "+judge.api_key=a", "run=x"])
    other = compose(["seed=2", "judge=prm", "+judge.api_key=b", "run=y"])
    assert differences(one, other) == {"seed": (1, 2), "data.seed": (1, 2)}
    assert differences(one, other, leave_out={"seed", "data", "run"}) == {}
    assert differences(one, compose(["run=x"]), leave_out={"seed", "data"}).keys() >= {
        "judge._target_",
        "judge.votes",
    }
