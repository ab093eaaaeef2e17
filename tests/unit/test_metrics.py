import json
from pathlib import Path

import pytest

from clawrl.config.compose import compose
from clawrl.loop.metrics import MetricsLog, wandb_mode, without_secrets


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
