import json
from pathlib import Path
from typing import Any

import pytest

from clawrl.config.compose import compose
from clawrl.config.schema import Config, Objective
from clawrl.eval.personalization.measurement import record
from clawrl.loop.metrics import MetricsLog, labels, run_summary, wandb_mode, without_secrets
from clawrl.records.folder import RunFolder
from tests.factories import make_measurement


def test_every_event_is_a_line_with_its_step(tmp_path: Path):
    with MetricsLog(tmp_path / "metrics.jsonl", compose(["tracking=off"]), "run") as metrics:
        metrics.log(1, {"train/loss": 0.5})
        metrics.log(2, {"train/loss": 0.25})
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert [(line["step"], line["train/loss"]) for line in lines] == [(1, 0.5), (2, 0.25)]


def test_without_a_key_wandb_is_offline_and_never_asks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("WANDB_API_KEY", raising=False)
    assert wandb_mode("auto") == "offline"
    monkeypatch.setenv("WANDB_API_KEY", "x" * 40)
    assert wandb_mode("auto") == "online"
    assert wandb_mode("off") == "disabled"


def test_no_key_goes_to_wandb():
    values = {"judge": {"api_key": "secret", "model": "m"}, "gateway": {"api_key": None}}
    assert without_secrets(values) == {
        "judge": {"api_key": "***", "model": "m"},
        "gateway": {"api_key": None},
    }


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_an_offline_run_keeps_metrics_and_tables_for_wandb(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    config = compose(["tracking=offline"])
    with MetricsLog(tmp_path / "metrics.jsonl", config, "run") as metrics:
        metrics.log(1, {"train/loss": 0.5})
        metrics.table("eval/replies", 1, ["reply", "score"], [["hello", 1.0]])
    assert "wandb failed" not in caplog.text
    assert list(tmp_path.glob("wandb/offline-run-*/*.wandb"))


class WandbStub:
    """Remembers what a W&B run is told."""

    def __init__(self, **arguments: Any) -> None:
        self.arguments = arguments
        self.logged: list[dict[str, Any]] = []
        self.metrics: dict[str, dict[str, Any]] = {}
        self.finished = False

    def log(self, values: dict[str, Any]) -> None:
        self.logged.append(values)

    def define_metric(self, name: str, **settings: Any) -> None:
        self.metrics[name] = settings

    def finish(self) -> None:
        self.finished = True


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[WandbStub]:
    """The W&B runs that were begun."""
    import wandb

    begun: list[WandbStub] = []

    def init(**arguments: Any) -> WandbStub:
        begun.append(WandbStub(**arguments))
        return begun[-1]

    monkeypatch.setattr(wandb, "init", init)
    return begun


def in_sweep(config: Config, name: str) -> Config:
    return config.model_copy(
        update={"tracking": config.tracking.model_copy(update={"sweep": name})}
    )


def log_of(tmp_path: Path, config: Config, name: str = "run", **more: Any) -> MetricsLog:
    return MetricsLog(tmp_path / "metrics.jsonl", config, name, **more)


def test_runs_of_a_sweep_are_one_group_and_tell_what_varies(tmp_path: Path, runs: list[WandbStub]):
    for kind in ("binary", "opd"):
        config = in_sweep(compose([f"objective={kind}", "tracking=offline"]), "table")
        log_of(tmp_path, config, f"objective={kind},seed=2").close()
    assert [run.arguments["group"] for run in runs] == ["table", "table"]
    assert [run.arguments["name"] for run in runs] == [
        "objective=binary seed=2",
        "objective=opd seed=2",
    ]
    assert runs[1].arguments["tags"] == ["student_persona", "smollm2-135m", "opd", "cues", "sweep"]
    assert runs[1].arguments["config"]["labels"]["objective"] == "opd"
    assert all(run.finished for run in runs)


def test_a_run_alone_is_grouped_by_its_recipe(tmp_path: Path, runs: list[WandbStub]):
    log_of(tmp_path, compose(["recipe=teacher_persona", "tracking=offline"])).close()
    log_of(tmp_path, compose(["tracking=offline"]), job="eval").close()
    assert runs[0].arguments["group"] == "teacher_persona"
    assert "sweep" not in runs[0].arguments["tags"]
    assert [run.arguments["job_type"] for run in runs] == ["train", "eval"]


def test_tags_are_short_and_without_repetition(tmp_path: Path, runs: list[WandbStub]):
    long = f"/models/{'x' * 80}/"
    config = compose([f"model.name={long}", "judge._target_=mine.Judge", "tracking=offline"])
    log_of(tmp_path, config, "r" * 200).close()
    assert runs[0].arguments["tags"] == ["student_persona", "x" * 64, "combined", "judge"]
    assert len(runs[0].arguments["name"]) == 128
    assert labels(compose(["model=qwen3-4b", "judge=prm"])) == {
        "recipe": "student_persona",
        "model": "Qwen3-4B-Thinking-2507",
        "objective": "combined",
        "judge": "prm",
    }


@pytest.mark.parametrize(
    ("w_binary", "w_opd", "kind"), [(1, 0, "binary"), (0, 0.5, "opd"), (0.2, 1, "combined")]
)
def test_an_objective_is_known_by_what_it_weighs(w_binary: float, w_opd: float, kind: str):
    assert Objective(w_binary=w_binary, w_opd=w_opd).kind == kind


def test_numbers_are_drawn_over_the_version_and_summed_up(tmp_path: Path, runs: list[WandbStub]):
    with log_of(tmp_path, compose(["tracking=offline"])) as metrics:
        metrics.log(3, {"eval/naturalness": 0.5, "train/loss": 0.1, "loop/accepted": 4.0})
    (run,) = runs
    assert run.logged == [
        {"version": 3, "eval/naturalness": 0.5, "train/loss": 0.1, "loop/accepted": 4.0}
    ]
    for section in ("eval/*", "train/*", "loop/*", "weights/*"):
        assert run.metrics[section] == {"step_metric": "version"}
    assert run.metrics["eval/naturalness"]["summary"] == "last,max"
    assert run.metrics["train/loss"]["summary"] == "last,mean"


def test_at_the_end_w_and_b_gets_before_after_and_whether_controls_hold(
    tmp_path: Path, runs: list[WandbStub]
):
    with log_of(tmp_path, compose(["tracking=offline"])):
        record(RunFolder(tmp_path), make_measurement(0, [0.2, 0.4]))
        record(RunFolder(tmp_path), make_measurement(8, [0.6, 0.9]))
    (overview,) = runs[0].logged
    assert overview == run_summary(RunFolder(tmp_path))
    assert overview["summary/difference"] == pytest.approx(
        overview["summary/after"] - overview["summary/before"]
    )
    assert overview["summary/difference_low"] > 0
    assert overview["summary/updates"] == 8
    assert (overview["summary/controls_hold"], overview["summary/controls_broken"]) == (1, 0)


def test_a_summary_needs_measurements_that_can_be_compared(tmp_path: Path):
    folder = RunFolder(tmp_path)
    assert run_summary(folder) == {}
    record(folder, make_measurement(0, [0.2, 0.4]))
    assert run_summary(folder).keys() == {"summary/before"}
    record(folder, make_measurement(8, [0.2]))
    assert run_summary(folder) == {}


def test_a_resumed_run_goes_on_in_the_same_w_and_b_run(
    tmp_path: Path, runs: list[WandbStub], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("WANDB_API_KEY", "x" * 40)
    for _ in range(2):
        log_of(tmp_path, compose(["tracking=auto"])).close()
    log_of(tmp_path, compose(["tracking=auto"]), job="eval").close()
    first, second, evaluation = (run.arguments["id"] for run in runs)
    assert first == second != evaluation
    assert runs[0].arguments["resume"] == "allow"
    log_of(tmp_path, compose(["tracking=offline"])).close()
    assert runs[3].arguments["id"] is None
