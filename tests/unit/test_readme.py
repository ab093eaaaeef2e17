"""Every `clawrl` command that the README shows is a command that exists and composes."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BLOCKS = re.findall(r"```bash\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
LINES = [line.partition("#")[0].strip() for block in BLOCKS for line in block.splitlines()]
CLAWRL = [line for line in LINES if line.startswith("clawrl ")]
COMPOSING = [
    line
    for line in CLAWRL
    if line.split()[1] == "train" and "--resume" not in line and "--from" not in line
]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "clawrl.cli.main", *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_the_readme_shows_commands():
    assert len(CLAWRL) > 10


@pytest.mark.parametrize("line", COMPOSING)
def test_every_training_command_of_the_readme_composes(line: str):
    words = shlex.split(line)[2:]
    if "-m" in words:
        from clawrl.config.compose import compose, sweep

        for point in sweep([word for word in words if word != "-m"]):
            compose(point)
        return
    flag = "--cfg" if "--dry-run" not in words else "--dry-run"
    done = run("train", *[word for word in words if word not in ("--cfg", "--dry-run")], flag)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("line", [line for line in CLAWRL if line not in COMPOSING])
def test_every_other_command_of_the_readme_has_its_options(line: str):
    words = shlex.split(line)[1:]
    options = [word for word in words if word.startswith("--")]
    done = run(*words[: 2 if words[0] in ("report", "model") else 1], "--help")
    assert done.returncode == 0
    for option in options:
        assert option in done.stdout


def test_every_make_target_of_the_readme_exists():
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    for line in LINES:
        if line.startswith("make "):
            assert line.split()[1] in targets
