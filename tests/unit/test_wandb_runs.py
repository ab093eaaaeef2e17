from pathlib import Path
from typing import Any

import pytest

from clawrl.compare.wandb_runs import by_version, fetch
from clawrl.errors import ClawRLError, UserError


class StoredRun:
    def __init__(self) -> None:
        self.name = "objective=opd seed=2"
        self.config = {"seed": 2, "labels": {"objective": "opd"}}
        self.summary = {"version": 8, "eval/naturalness": {"last": 0.5, "max": 0.6}}

    def scan_history(self) -> list[dict[str, Any]]:
        return [
            {"_step": 0, "version": 0, "eval/naturalness": 0.3, "train/loss": None},
            {"_step": 1, "version": 8, "train/loss": 0.1},
            {"_step": 2, "version": 8, "eval/naturalness": 0.5, "eval/replies": {"_type": "t"}},
            {"_step": 3, "summary/before": 0.3},
        ]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """W&B's runs by path; an exception instead of a run is raised."""
    import wandb

    stored: dict[str, Any] = {}

    class Api:
        def __init__(self, timeout: int) -> None:
            self.timeout = timeout

        def run(self, path: str) -> Any:
            found = stored[path]
            if isinstance(found, Exception):
                raise found
            return found

    monkeypatch.setattr(wandb, "Api", Api)
    monkeypatch.setenv("WANDB_API_KEY", "x" * 40)
    return stored


def test_a_run_is_read_with_one_row_for_each_version(server: dict[str, Any]):
    server["me/clawrl/abc"] = StoredRun()
    run = fetch("wandb:me/clawrl/abc")
    assert run.name == "objective=opd seed=2"
    assert run.config == {"seed": 2}
    assert run.history == [
        {"version": 0, "eval/naturalness": 0.3},
        {"version": 8, "train/loss": 0.1, "eval/naturalness": 0.5},
    ]
    assert run.summary["eval/naturalness"] == {"last": 0.5, "max": 0.6}


def test_what_was_recorded_last_for_a_version_counts():
    rows = [{"version": 1, "a": 0.1}, {"version": 1, "a": 0.2}, {"version": 1, "a": float("nan")}]
    assert by_version(rows) == [{"version": 1, "a": 0.2}]


@pytest.mark.parametrize(
    ("error", "kind", "message"),
    [
        (ValueError("Could not find run <Run a/b/c>"), UserError, "no such run"),
        (RuntimeError("HTTP 401: user is not logged in"), UserError, "refuses the key"),
        (
            RuntimeError("Failed to verify:\n connection timed out"),
            ClawRLError,
            "cannot be reached",
        ),
    ],
)
def test_what_w_and_b_says_is_one_line(
    server: dict[str, Any], error: Exception, kind: type[Exception], message: str
):
    server["a/b/c"] = error
    with pytest.raises(kind, match=message) as caught:
        fetch("wandb:a/b/c")
    assert "\n" not in str(caught.value)
    assert isinstance(caught.value, UserError) == (kind is UserError)


def test_without_a_key_nobody_is_asked_for_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("WANDB_API_KEY", raising=False)
    with pytest.raises(UserError, match="wandb login"):
        fetch("wandb:a/b/c")


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("wandb:clawrl/abc", "write wandb:ENTITY/PROJECT/RUN_ID"),
        ("wandb:", "not a W&B run"),
        ("wandb:runs/x/wandb/offline-run-20260101_120000-abc", "name the run folder"),
    ],
)
def test_what_is_no_path_of_a_run_says_how_to_write_it(path: str, message: str):
    with pytest.raises(UserError, match=message):
        fetch(path)
