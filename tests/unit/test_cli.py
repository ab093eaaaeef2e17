import json
import subprocess
import sys
from pathlib import Path

import pytest


def clawrl(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "clawrl.cli.main", *arguments],
        capture_output=True,
        text=True,
        cwd=cwd,
        timeout=120,
        check=False,
    )


COMMANDS = [
    "train",
    "collect",
    "judge",
    "eval",
    "serve",
    "doctor",
    "report run",
    "report paper",
    "compare",
    "replay",
    "model",
]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_a_help_text_with_an_example(command: str):
    done = clawrl(*command.split(), "--help")
    assert done.returncode == 0
    assert command == "model" or "Example" in done.stdout


def test_the_help_loads_neither_torch_nor_vllm():
    code = (
        "import sys; sys.argv = ['clawrl', '--help']\n"
        "from clawrl.cli.main import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "print(sorted({'torch', 'vllm', 'transformers', 'hydra'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", "recipe=student_persona", "lerner.lr=1e-5"], "did you mean 'learner'"),
        (["train", "recipe=studnt_persona"], "did you mean 'student_persona'"),
        (["train", "seed=1,2"], "add -m"),
        (["train", "--resume", "nowhere"], "not a run folder"),
        (["train", "-m", "seed=1,2", "objective=oops"], "there is no 'oops'"),
        (["train", "-m", "seed=1,1"], "stands twice"),
        (["train", "-m", "seed=1,2", "--cfg"], "leave out --resume, --from and --cfg"),
        (["report", "run", "nowhere"], "not a run folder"),
        (["report", "paper", "nowhere"], "not a run folder"),
        (["judge", "nowhere"], "not a run folder"),
        (["serve", "gateway.port=abc"], "gateway.port"),
    ],
)
def test_a_users_mistake_is_one_line_and_exit_2(arguments: list[str], message: str, tmp_path: Path):
    done = clawrl(*arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def test_cfg_prints_the_resolved_configuration(tmp_path: Path):
    done = clawrl("train", "recipe=teacher_persona", "learner.lr=3e-6", "--cfg", cwd=tmp_path)
    assert done.returncode == 0
    assert "lr: 3.0e-06" in done.stdout
    assert list(tmp_path.iterdir()) == []


def test_a_dry_run_prints_the_papers_plan_without_a_gpu(tmp_path: Path):
    done = clawrl(
        "train",
        "recipe=student_persona",
        "model=qwen3-4b",
        "resources=8gpu",
        "--dry-run",
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    for piece in (
        "learner x4",
        "policy engine",
        "judge engine",
        "vllm.entrypoints",
        "bytes",
        "known by",
    ):
        assert piece in done.stdout
    assert list(tmp_path.iterdir()) == []


def test_the_doctor_answers_for_machines(tmp_path: Path):
    done = clawrl("doctor", "--json", cwd=tmp_path)
    findings = {finding["what"]: finding for finding in json.loads(done.stdout)}
    assert {"torch", "vLLM", "memory", "disk", "W&B"} <= set(findings)
    assert all(finding["fix"] for finding in findings.values() if finding["state"] == "missing")


def test_a_sweeps_dry_run_lists_its_points_and_starts_nothing(tmp_path: Path):
    done = clawrl("train", "-m", "seed=1,2", "run=table", "--dry-run", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    for piece in ("sweep table", "seed=1", "runs/table/seed=2", "new"):
        assert piece in done.stdout
    assert list(tmp_path.iterdir()) == []


def test_a_recipe_in_a_subfolder_has_a_plan(tmp_path: Path):
    done = clawrl("train", "recipe=paper/personalization", "--dry-run", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "runs/paper-personalization-" in done.stdout.replace("\n", "")
    assert list(tmp_path.iterdir()) == []
