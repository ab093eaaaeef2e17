from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from clawrl.processes.child import Child, free_port

GRANDCHILD_IN_ITS_OWN_SESSION = """
import subprocess, sys, time
child = subprocess.Popen(["sleep", "1000"], start_new_session=True)
print(child.pid, flush=True)
time.sleep(float(sys.argv[1]))
"""


def python(program: str, *arguments: str) -> list[str]:
    return [sys.executable, "-c", program, *arguments]


def first_line(log: Path) -> str:
    deadline = time.monotonic() + 20
    while "\n" not in (log.read_text() if log.exists() else ""):
        assert time.monotonic() < deadline, f"{log} stays empty"
        time.sleep(0.02)
    return log.read_text().splitlines()[0]


def assert_gone(pid: int) -> None:
    deadline = time.monotonic() + 10
    while psutil.pid_exists(pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not psutil.pid_exists(pid)


async def test_a_child_writes_to_its_log_and_ends_with_its_own_code(tmp_path):
    child = Child("greeter", ["sh", "-c", "echo one; echo two >&2; exit 7"], log=tmp_path / "log")
    await child.start()
    assert await child.wait() == 7
    assert child.returncode == 7
    assert child.log_tail(1) == "two"
    assert child.log_tail() == "one\ntwo"


async def test_a_child_gets_its_variables_beside_the_inherited_ones(tmp_path):
    child = Child(
        "env", ["sh", "-c", "echo $COLOUR $PATH"], log=tmp_path / "log", env={"COLOUR": "blue"}
    )
    await child.start()
    await child.wait()
    assert child.log_tail() == f"blue {os.environ['PATH']}"


async def test_a_signals_number_comes_back(tmp_path):
    child = Child("sleeper", ["sleep", "1000"], log=tmp_path / "log")
    await child.start()
    os.kill(child.pid, signal.SIGKILL)
    assert await child.wait() == -signal.SIGKILL


async def test_a_command_that_is_not_there_ends_with_127_and_says_so(tmp_path):
    child = Child("nothing", ["/no/such/program"], log=tmp_path / "log")
    await child.start()
    assert await child.wait() == 127
    assert "cannot run /no/such/program: No such file" in child.log_tail()


async def test_stop_lets_the_command_finish_within_its_grace(tmp_path):
    program = (
        "import signal, sys, time\n"
        "signal.signal(signal.SIGTERM, lambda *_: (print('saved'), sys.exit(0)))\n"
        "print('ready', flush=True)\n"
        "time.sleep(1000)\n"
    )
    child = Child("saver", python(program), log=tmp_path / "log")
    await child.start()
    first_line(child.log)
    await child.stop()
    assert child.returncode == 0
    assert child.log_tail(1) == "saved"


async def test_stop_kills_a_command_that_does_not_listen(tmp_path):
    child = Child(
        "deaf",
        ["sh", "-c", "trap '' TERM; echo ready; while :; do sleep 1; done"],
        log=tmp_path / "log",
    )
    await child.start()
    first_line(child.log)
    await child.stop(grace_s=0.3)
    assert child.returncode == -signal.SIGKILL
    assert_gone(child.pid)


async def test_what_the_command_leaves_behind_is_killed_even_in_a_session_of_its_own(tmp_path):
    child = Child("parent", python(GRANDCHILD_IN_ITS_OWN_SESSION, "0"), log=tmp_path / "log")
    await child.start()
    assert await child.wait() == 0
    assert_gone(int(first_line(child.log)))


async def test_a_killed_command_takes_its_descendants_along(tmp_path):
    child = Child("parent", python(GRANDCHILD_IN_ITS_OWN_SESSION, "1000"), log=tmp_path / "log")
    await child.start()
    grandchild = int(first_line(child.log))
    os.kill(child.pid, signal.SIGKILL)
    assert await child.wait() == -signal.SIGKILL
    assert_gone(grandchild)


async def test_a_killed_guard_takes_the_command_along(tmp_path):
    child = Child("sleeper", ["sleep", "1000"], log=tmp_path / "log")
    await child.start()
    os.kill(child.guard_pid, signal.SIGKILL)
    assert await child.wait() == -signal.SIGKILL
    assert_gone(child.pid)


def test_no_process_is_left_when_the_supervisor_is_killed(tmp_path):
    supervisor = f"""
import asyncio, sys
from pathlib import Path
from clawrl.processes.child import Child

async def main():
    command = [sys.executable, "-c", {GRANDCHILD_IN_ITS_OWN_SESSION!r}, "1000"]
    child = Child("parent", command, log=Path({str(tmp_path / "log")!r}))
    await child.start()
    print(child.guard_pid, child.pid, flush=True)
    await child.wait()

asyncio.run(main())
"""
    process = subprocess.Popen(python(supervisor), stdout=subprocess.PIPE, text=True)
    with process:
        assert process.stdout is not None
        guard, command = map(int, process.stdout.readline().split())
        grandchild = int(first_line(tmp_path / "log"))
        process.kill()
    for pid in (guard, command, grandchild):
        assert_gone(pid)


async def test_a_child_that_ended_can_be_started_again(tmp_path):
    child = Child("twice", ["sh", "-c", "echo again"], log=tmp_path / "log")
    for _ in range(2):
        await child.start()
        assert await child.wait() == 0
    assert child.log_tail() == "again\nagain"


async def test_stopping_what_never_ran_does_nothing(tmp_path):
    child = Child("idle", ["true"], log=tmp_path / "log")
    await child.stop()
    assert child.returncode is None
    with pytest.raises(RuntimeError, match="was not started"):
        _ = child.pid


def test_a_free_port_can_be_bound():
    with socket.socket() as server:
        server.bind(("127.0.0.1", free_port()))
