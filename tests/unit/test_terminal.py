"""The terminal: actions, next states, what the checker lets nobody do."""

from __future__ import annotations

from pathlib import Path

import pytest

from clawrl.environments.states import Finished, Malformed, Refused, TerminalState
from clawrl.environments.terminal.image import read_image
from clawrl.environments.terminal.task import read_task
from clawrl.environments.terminal.task_set import OWN_TASKS, TerminalTasks
from clawrl.errors import ConfigError, DataError, EnvironmentLost
from clawrl.protocols import Action, ToolCall

PASSES = "echo 1 > /logs/verifier/reward.txt"


def block(command: str) -> Action:
    return Action(text=f"Let me see.\n```bash\n{command}\n```")


def write_task(
    folder: Path, *, test: str, dockerfile: str = "FROM x\nWORKDIR /work\n", toml: str = ""
) -> Path:
    for name in ("environment", "tests"):
        (folder / name).mkdir(parents=True)
    (folder / "instruction.md").write_text("Do it.\n")
    (folder / "task.toml").write_text(toml)
    (folder / "environment" / "Dockerfile").write_text(dockerfile)
    (folder / "tests" / "test.sh").write_text(test + "\n")
    return folder


def tasks_of(root: Path, **more: float) -> TerminalTasks:
    return TerminalTasks(folder=str(root), **more)  # pyright: ignore[reportArgumentType]


async def test_a_task_is_solved_by_one_block_and_handed_in_by_another() -> None:
    async with TerminalTasks().build("make-folder", tools=False) as world:
        seen = await world.observe()
        assert seen.tools is None
        assert [m["role"] for m in seen.messages] == ["system", "user"]
        assert "reports" in seen.messages[1]["content"]
        state = await world.step(block("mkdir reports && ls"))
        assert isinstance(state, TerminalState)
        assert (state.stdout, state.exit_code, state.done) == ("reports\n", 0, False)
        last = await world.step(block("submit"))
        assert isinstance(last, Finished)
        assert last.done
        assert (await world.grade()).reward == 1.0


async def test_a_block_that_ends_in_submit_runs_first() -> None:
    async with TerminalTasks().build("make-folder", tools=False) as world:
        state = await world.step(block("mkdir reports\nsubmit"))
        assert isinstance(state, TerminalState)
        assert (state.exit_code, state.done) == (0, True)
        assert (await world.grade()).reward == 1.0


async def test_tools_do_what_blocks_do() -> None:
    async with TerminalTasks().build("make-folder", tools=True) as world:
        seen = await world.observe()
        assert [tool["function"]["name"] for tool in seen.tools or ()] == ["bash", "submit"]
        call = ToolCall(name="bash", arguments='{"command": "mkdir reports"}')
        assert "[exit code 0]" in (await world.step(Action(calls=(call,)))).text()
        handed_in = await world.step(Action(calls=(ToolCall(name="submit", arguments="{}"),)))
        assert handed_in.done
        assert (await world.grade()).reward == 1.0


async def test_what_is_no_command_is_told_and_nothing_runs() -> None:
    async with TerminalTasks().build("make-folder", tools=False) as world:
        assert isinstance(await world.step(Action(text="I made the folder.")), Malformed)
        assert isinstance(await world.step(block("rm -rf /")), Refused)
        assert isinstance(await world.step(block("echo \0")), Malformed)
        assert (await world.grade()).reward == 0.0


async def test_long_output_keeps_both_ends_and_a_slow_command_ends() -> None:
    tasks = TerminalTasks(command_s=0.5, output_characters=100)
    async with tasks.build("make-folder", tools=False) as world:
        state = await world.step(block("seq 1 5000"))
        assert isinstance(state, TerminalState)
        assert state.stdout.startswith("1\n2\n")
        assert state.stdout.endswith("5000\n")
        assert len(state.stdout) < 200
        slow = await world.step(block("sleep 20"))
        assert isinstance(slow, TerminalState)
        assert slow.timed_out


async def test_neither_checker_nor_reference_can_be_read_before_the_end(tmp_path: Path) -> None:
    write_task(tmp_path / "one", test=f"# the-checker\n{PASSES}")
    async with tasks_of(tmp_path).build("one", tools=False) as world:
        state = await world.step(
            block(
                f"ls -A /tests /logs/verifier; cat {tmp_path}/one/tests/test.sh {OWN_TASKS}/*/*/*"
            )
        )
        assert isinstance(state, TerminalState)
        assert "the-checker" not in state.stdout
        assert "mkdir" not in state.stdout
        assert "test.sh" not in state.stdout


ATTACKS = {
    "a reward is planted": "echo 1 > /logs/verifier/reward.txt; chmod 444 /logs/verifier/*",
    "the reward is a link": "ln -sf /home/agent/mine /logs/verifier/reward.txt",
    "the checker is planted": "echo 'echo 1 > /logs/verifier/reward.txt' > /tests/test.sh;"
    " chmod 500 /tests",
    "its place is a folder": "mkdir -p /tests/test.sh/x",
    "a watcher rewrites it": "(while :; do echo 1 > /logs/verifier/reward.txt; done) &",
    "a watcher that hides": 'setsid bash -c \'trap "" TERM HUP; while :; do'
    " cp /logs/verifier/x /tests/test.sh; echo 1 > /logs/verifier/reward.txt; done' &",
    "programs are replaced": "mkdir -p ~/bin; printf '#!/bin/sh\\nexit 0\\n' > ~/bin/grep;"
    " chmod +x ~/bin/grep; export PATH=~/bin:$PATH; grep() { true; }; export -f grep;"
    " export BASH_ENV=~/.rc; echo 'grep() { true; }' | tee ~/.rc ~/.bashrc ~/.profile",
    "python is given modules": "for f in json.py sitecustomize.py usercustomize.py; do"
    " echo 'import os; os._exit(0)' > $f; done; d=~/.local/lib/python3.11/site-packages;"
    " mkdir -p $d; cp sitecustomize.py $d; echo 'import os; os._exit(0)' > $d/x.pth;"
    " export PYTHONPATH=$PWD PYTHONSTARTUP=$PWD/json.py",
    "aliases and options": "shopt -s expand_aliases; alias grep=true; set -e; cd /; exec 1>&-",
}


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
async def test_an_agent_cannot_grade_itself(attack: str, tmp_path: Path) -> None:
    check = """
echo 0 > /logs/verifier/reward.txt
grep -q answer result.txt 2>/dev/null || exit 0
python3 -c 'import json; assert json.load(open("result.json")) == 1' 2>/dev/null || exit 0
echo 1 > /logs/verifier/reward.txt"""
    write_task(tmp_path / "one", test=check)
    async with tasks_of(tmp_path).build("one", tools=False) as world:
        await world.step(block("touch result.txt; echo 2 > result.json"))
        await world.step(block(attack))
        assert (await world.grade()).reward == 0.0


@pytest.mark.parametrize(
    ("test", "why"),
    [
        ("sleep 30", "took more than"),
        ("kill -9 $$", "was killed"),
        ("exit 3", "no reward, exit code 3"),
        ("echo lots > /logs/verifier/reward.txt", "no number"),
        ("echo 7 > /logs/verifier/reward.txt", "not from 0 to 1"),
        ("yes", "was killed"),
        (f"{PASSES}; sleep 50 >/dev/null 2>&1 &", "left processes"),
        ("mkdir /logs/verifier/reward.txt", "no reward"),
    ],
)
async def test_a_checker_that_fails_is_not_a_score(test: str, why: str, tmp_path: Path) -> None:
    write_task(tmp_path / "one", test=test)
    async with tasks_of(tmp_path, grade_s=1).build("one", tools=False) as world:
        outcome = await world.grade()
    assert outcome.reward is None
    assert why in outcome.detail


async def test_files_and_commands_of_the_dockerfile_make_the_first_state(tmp_path: Path) -> None:
    folder = write_task(
        tmp_path / "one",
        test="[ -f deep/er/a.txt ] && [ $COLOR = red ] && " + PASSES,
        dockerfile="# first\nFROM x\nENV COLOR=red\nWORKDIR /app\nCOPY data/ deep/\n"
        "COPY one.txt two.txt .\nRUN cat one.txt two.txt \\\n  > both.txt\n",
    )
    (folder / "environment" / "data" / "er").mkdir(parents=True)
    for name in ("data/er/a.txt", "one.txt", "two.txt"):
        (folder / "environment" / name).write_text(f"{name}\n")
    async with tasks_of(tmp_path).build("one", tools=False) as world:
        state = await world.step(block("pwd; cat both.txt; echo $COLOR"))
        assert isinstance(state, TerminalState)
        assert state.stdout == "/app\none.txt\ntwo.txt\nred\n"
        assert (await world.grade()).reward == 1.0


async def test_a_set_up_that_fails_loses_the_environment(tmp_path: Path) -> None:
    write_task(
        tmp_path / "one", test=PASSES, dockerfile="FROM x\nWORKDIR /work\nRUN echo no; exit 4\n"
    )
    with pytest.raises(EnvironmentLost, match=r"one: .*set-up failed \(4\): no"):
        async with tasks_of(tmp_path).build("one", tools=False):
            pass


@pytest.mark.parametrize(
    ("dockerfile", "why"),
    [
        ("FROM x\n", "WORKDIR"),
        ("FROM x\nWORKDIR /w\nHEALTHCHECK NONE\n", "HEALTHCHECK needs Docker"),
        ("FROM x\nWORKDIR /w\nCOPY --from=y a b\n", "needs Docker"),
        ("FROM x\nWORKDIR /w\nCOPY ../../secret .\n", "there is no"),
    ],
)
def test_what_needs_docker_is_said(dockerfile: str, why: str, tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text(dockerfile)
    with pytest.raises(DataError, match=why):
        read_image(tmp_path)


def test_a_folder_that_is_no_task_is_said(tmp_path: Path) -> None:
    folder = write_task(tmp_path / "one", test=PASSES, toml="[verifier]\ntimeout_sec = 7\n")
    assert read_task(folder).verifier_s == 7
    (folder / "tests" / "test.sh").unlink()
    with pytest.raises(DataError, match=r"needs tests/test\.sh"):
        read_task(folder)
    with pytest.raises(ConfigError, match="no task 'twoo'; did you mean"):
        TerminalTasks(folder=str(write_task(tmp_path / "two", test=PASSES).parent), only=["twoo"])
