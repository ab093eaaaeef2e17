"""The plan says which memory it measured and which it assumes."""

from __future__ import annotations

from pathlib import Path

import pytest

from clawrl.config.compose import compose
from clawrl.loop.gpus import measured_gpus
from clawrl.loop.plan import Plan, make_plan

ASSUMED = "assumed: resources.gpu_memory_gib"


@pytest.fixture
def driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Puts an `nvidia-smi` in the path that runs the given shell line."""

    def install(line: str) -> None:
        tool = tmp_path / "nvidia-smi"
        tool.write_text(f"#!/bin/sh\n{line}\n")
        tool.chmod(0o755)
        monkeypatch.setenv("PATH", str(tmp_path), prepend=":")

    return install


def plan(*overrides: str) -> Plan:
    config = compose(["resources=8gpu", "model=qwen3-4b", *overrides])
    return make_plan(config, Path("runs/planned"))


def test_without_a_driver_no_gpu_is_measured(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert measured_gpus() == {}


@pytest.mark.parametrize("line", ["exit 9", "echo No devices were found", "echo 0, [N/A]"])
def test_a_driver_that_finds_nothing_measures_nothing(driver, line):
    driver(line)
    assert measured_gpus() == {}


def test_gpus_that_are_not_here_are_assumed_and_the_key_is_named(driver):
    driver("exit 9")
    devices = plan("resources.gpu_memory_gib=40").devices
    assert devices["cpu"].source == "measured"
    gpus = [room for name, room in devices.items() if name != "cpu"]
    assert len(gpus) == 8
    assert {(room.there, room.source) for room in gpus} == {(40.0, ASSUMED)}


def test_gpus_that_are_here_are_asked(driver):
    driver(r"printf '%s\n' '4, 24576' '5, 24576'")
    devices = plan().devices
    assert (devices["cuda:4"].there, devices["cuda:4"].source) == (24.0, "measured")
    assert devices["cuda:4"].needed == pytest.approx(0.85 * 24)
    assert (devices["cuda:6"].there, devices["cuda:6"].source) == (80.0, ASSUMED)


def test_a_learner_that_a_measured_gpu_cannot_hold_does_not_fit(driver):
    driver("echo 0, 8192")
    planned = plan()
    assert not planned.devices["cuda:0"].fits
    assert not planned.fits


def test_full_weights_go_through_a_file_on_gpus_too():
    assert plan().transfer == "disk"
    assert plan().update_bytes == 8_040_000_000
