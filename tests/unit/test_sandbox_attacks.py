"""What a model might run, by mistake or not: contained, and the machine goes on as before.

After each attack either the same sandbox still answers or it alone is lost; a new one works; and
nothing that the attack started is left running.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
import textwrap
from pathlib import Path

import psutil
import pytest

from clawrl.environments.sandbox import CommandResult, Sandbox, SandboxSpec
from clawrl.environments.sandbox.cgroups import usable
from clawrl.environments.sandbox.process import SandboxError
from tests.sandboxes import all_gone, pids_of, run_by

SECRET = "CLAWRL_TEST_SECRET"
LIMITS = SandboxSpec(
    workdir="/work", processes=40, memory_mib=256, disk_mib=16, file_mib=16, flood_bytes=2**20
)


async def attack(
    command: str, timeout_s: float = 1.0, spec: SandboxSpec = LIMITS, *, may_be_lost: bool = False
) -> CommandResult:
    """Run it; check that afterwards everything works and nothing is left."""
    result = CommandResult("", "", None, timed_out=False, seconds=0, shell_ended=True)
    async with Sandbox(spec) as box:
        uid = box.host_uid
        try:
            result = await box.run(textwrap.dedent(command), timeout_s)
            await box.run("echo well", 10)  # what still runs in the background may drown it
            await box.new_shell()
            assert (await box.run("echo well", 10)).stdout == "well\n"
        except SandboxError:
            assert may_be_lost
        pids = pids_of(box)
    assert await all_gone(pids)
    assert not run_by(uid)
    async with Sandbox(spec) as box:
        assert (await box.run("echo well", 5)).stdout == "well\n"
    return result


def python(code: str) -> str:
    """A command that runs this code."""
    return f"python3 - <<'PYTHON'\n{textwrap.dedent(code)}\nPYTHON"


async def test_a_fork_bomb_stays_small():
    async with Sandbox(LIMITS) as box:
        bomb = asyncio.create_task(box.run(":(){ :|:& };: ; sleep 2", 1.5))
        most = 0
        while not bomb.done():
            most = max(most, box.process_count())
            await asyncio.sleep(0.02)
        assert most <= LIMITS.processes
        await box.new_shell()
        assert (await box.run("echo well", 10)).stdout == "well\n"
        pids = pids_of(box)
    assert await all_gone(pids)


async def test_one_process_cannot_take_all_memory():
    result = await attack(python("x = bytearray(10**9)"), 10)
    assert "MemoryError" in result.stderr


@pytest.mark.skipif(usable().memory is None, reason="no memory cgroup can be made here")
async def test_many_processes_cannot_take_all_memory():
    hog = python("x = bytearray(120 * 2**20); print('held'); import time; time.sleep(2)")
    before = psutil.virtual_memory().available
    result = await attack(
        f"for i in 1 2 3 4 5 6 7 8; do ({hog}\n) & done; wait", 6, may_be_lost=True
    )
    assert result.stdout.count("held") <= 3
    assert psutil.virtual_memory().available > before - 2**30


async def test_a_full_disk_is_an_error_message():
    for place in ("/work", "/tmp", "/home/agent", "/dev/shm"):
        result = await attack(
            f"head -c 15M /dev/zero >{place}/a; head -c 15M /dev/zero >{place}/b", 5
        )
        assert "No space left on device" in result.stderr


async def test_nothing_outside_the_sized_directories_can_be_written():
    places = "/ /etc /usr /usr/bin /bin /dev /mnt /home /proc /proc/sys/kernel /var /run /sys"
    result = await attack(f"for p in {places}; do echo x >$p/x && echo wrote $p; done", 5)
    assert "wrote" not in result.stdout


@pytest.mark.skipif(usable().memory is None, reason="no memory cgroup can be made here")
async def test_a_million_files_end_at_the_memory_limit():
    code = """
        import os
        n = 0
        try:
            while True:
                os.close(os.open(f"/work/{n}", os.O_CREAT)); n += 1
                if n % 1000 == 0: print(n, flush=True)
        except OSError as error:
            print(error)
    """
    spec = SandboxSpec(workdir="/work", memory_mib=96)
    result = await attack(python(code), 20, spec, may_be_lost=True)
    last = result.stdout.split()[-1] if result.stdout.split() else "0"
    assert not last.isdecimal() or int(last) < 300_000


async def test_endless_output_is_cut_and_ended():
    for command in ("yes", "yes >&2", "while :; do echo y; done", "cat /dev/zero"):
        result = await attack(command, 20)
        assert result.flooded
        assert result.exit_code is None
        assert result.seconds < 15
        assert len(result.stdout) < 20_000


async def test_a_process_that_ignores_every_signal_is_killed():
    result = await attack("trap '' TERM INT HUP QUIT; while :; do sleep 1; done", 0.5)
    assert result.timed_out
    assert result.seconds < 5


async def test_daemons_die_with_the_sandbox():
    code = """
        import os, time
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                time.sleep(1000)
            os._exit(0)
        print("started")
    """
    assert "started" in (await attack(python(code), 5)).stdout
    assert (
        "ok" in (await attack("setsid nohup sleep 1000 >/dev/null 2>&1 & disown; echo ok")).stdout
    )


async def test_what_needs_privilege_is_refused():
    result = await attack(
        """
        mount -t tmpfs none /tmp && echo got mount
        mknod /work/d b 8 0 && echo got mknod
        echo | su -c id && echo got su
        unshare -U true && echo got user namespace
        unshare -m true && echo got mount namespace
        chroot / true && echo got chroot
        chown 0 /work && echo got chown
        hostname x && echo got hostname
        nice -n -5 true 2>&1 | grep -q . || echo got nice
        ulimit -u unlimited && echo got ulimit
        id -u
        """,
        10,
    )
    assert "got" not in result.stdout
    assert result.stdout.strip().endswith("1000")


async def test_there_is_no_network_and_no_way_to_the_hosts_loopback():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        code = f"""
            import socket
            for where in (("127.0.0.1", {port}), ("1.1.1.1", 53), ("192.168.0.1", 80)):
                try:
                    socket.create_connection(where, timeout=2)
                    print("reached", where)
                except OSError as error:
                    print(error)
        """
        result = await attack(python(code), 10)
    assert "reached" not in result.stdout
    assert result.stdout.count("\n") == 3


async def test_nothing_of_this_process_can_be_seen_inside(monkeypatch):
    monkeypatch.setenv(SECRET, "hunter2-in-the-environment")
    result = await attack(
        """
        env; set; cat /proc/*/environ; tr '\\0' '\\n' </proc/1/cmdline; cat /proc/*/cmdline
        ls -l /proc/*/fd; cat /etc/shadow; ls /root /work/.. /home
        """,
        10,
        SandboxSpec(workdir="/work", head_bytes=10**6),
    )
    assert "hunter2" not in result.stdout + result.stderr
    assert SECRET not in result.stdout + result.stderr
    assert str(Path.cwd()) not in result.stdout
    assert "root:" not in result.stdout


async def test_killing_this_process_takes_every_sandbox_down(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        textwrap.dedent(
            """
            import asyncio
            from clawrl.environments.sandbox import Sandbox, SandboxSpec

            async def main():
                async with Sandbox(SandboxSpec()) as a, Sandbox(SandboxSpec()) as b:
                    for box in (a, b):
                        await box.run("setsid sleep 1000 & (trap '' TERM; sleep 1000) &", 5)
                    print(*(p.pid for box in (a, b) for p in box._process.processes()), flush=True)
                    await a.run("sleep 1000", 1000)

            asyncio.run(main())
            """
        )
    )
    launcher = await asyncio.create_subprocess_exec(
        sys.executable, str(program), stdout=asyncio.subprocess.PIPE
    )
    assert launcher.stdout is not None
    pids = [int(pid) for pid in (await launcher.stdout.readline()).split()]
    assert len(pids) >= 10
    os.kill(launcher.pid, signal.SIGKILL)
    await launcher.wait()
    assert await all_gone(pids, within_s=2)


async def test_links_lead_nowhere_outside(tmp_path):
    outside = tmp_path / "outside"
    outside.write_text("the host's own")
    result = await attack(
        f"""
        ln -s {outside} a; ln -s / b; ln -s ../../../../../../.. c; ln -s /proc/1/root d
        cat a b{outside} c{outside} d{outside} /proc/1/cwd/../../../..{outside}
        ln {outside} e
        """,
        5,
    )
    assert "the host's own" not in result.stdout
    assert outside.read_text() == "the host's own"


async def test_processes_of_others_are_neither_seen_nor_signalled():
    async with Sandbox(LIMITS) as other:
        await other.run("sleep 4242 &", 5)
        result = await attack(
            f"""
            cat /proc/*/cmdline | tr '\\0' ' '
            kill -9 {os.getpid()} && echo hit
            kill -9 {os.getppid()} && echo hit
            kill -9 1; kill -9 $PPID; pkill -9 sleep
            cat /proc/{os.getpid()}/environ && echo hit
            """,
            5,
        )
        assert "sleep 4242" not in result.stdout
        assert "hit" not in result.stdout
        assert (await other.run("pgrep -c sleep", 5)).stdout == "1\n"


async def test_killing_everything_inside_costs_the_shell_at_most():
    async with Sandbox(LIMITS) as box:
        result = await box.run("kill -9 -1; kill -TERM 1; kill -9 $$", 5)
        assert result.shell_ended
        assert (await box.run("echo well", 5)).stdout == "well\n"


async def test_huge_file_names_and_deep_directories_are_just_errors():
    result = await attack(
        """
        touch "$(printf 'a%.0s' {1..100000})"
        touch "$(printf 'b%.0s' {1..255})" && echo long
        n=0; while [ $n -lt 600 ] && mkdir dddddddddd && cd dddddddddd; do n=$((n+1)); done
        pwd | wc -c
        """,
        10,
    )
    assert "long" in result.stdout
    assert "too long" in result.stderr


async def test_a_sparse_file_ends_at_the_largest_file():
    result = await attack(
        "truncate -s 1T sparse; dd if=/dev/zero of=b bs=1 count=1 seek=100G; ls -s sparse b; true",
        5,
    )
    assert result.exit_code == 0 or result.shell_ended
    assert "1.0T" not in result.stdout


async def test_ptrace_reaches_nothing_that_is_ours():
    code = f"""
        import ctypes
        libc = ctypes.CDLL(None, use_errno=True)
        for pid in ({os.getpid()}, {os.getppid()}, 2**22):
            print(libc.ptrace(16, pid, 0, 0), ctypes.get_errno())
    """
    result = await attack(python(code), 5)
    assert result.stdout == "-1 3\n" * 3  # no such process


async def test_tracing_the_keeper_costs_this_sandbox_at_most():
    code = """
        import ctypes, time
        print(ctypes.CDLL(None).ptrace(16, 1, 0, 0))
        time.sleep(100)
    """
    await attack(python(code), 0.5, may_be_lost=True)


async def test_a_full_pipe_in_the_background_holds_nobody_up():
    result = await attack("(yes in the background &) ; sleep 0.2; echo done", 10)
    assert "done" in result.stdout or result.flooded
    async with Sandbox(LIMITS) as box:
        await box.run("yes &", 5)
        for _ in range(3):
            assert (await box.run("true", 5)).seconds < 5
        await box.new_shell()
        assert (await box.run("echo well", 5)).stdout == "well\n"


async def test_the_dying_say_nothing_to_the_next_shell():
    async with Sandbox(LIMITS) as box:
        for _ in range(40):
            await box.run("yes & yes & yes &", 5)
            await box.new_shell()
            assert (await box.run("echo well", 5)).stdout == "well\n"


async def test_any_bytes_in_the_output_become_text():
    result = await attack(
        r"printf 'a\0b \xff\xfe \xe2\x82 \xf0\x9f\x98\x80 \x1b[31m \u202e'; head -c 9 /dev/urandom",
        5,
    )
    assert result.stdout.startswith("a\u2400b \ufffd\ufffd \ufffd \U0001f600 \x1b[31m \u202e")
    assert "\0" not in result.stdout
    result.stdout.encode()


async def test_a_forged_end_of_command_deceives_only_its_own_shell():
    result = await attack(
        "for fd in 196 197 198 199; do echo x >&$fd; done; echo end",
        5,
    )
    assert "end" in result.stdout
    await attack("__clawrl_end() { :; }", 0.5)
    await attack("exec 198>&- 199>&-; kill -STOP $$", 0.5)
    await attack("echo 0 >/proc/1/fd/196; printf junk >/proc/1/fd/0", 0.5, may_be_lost=True)


async def test_a_device_or_kernel_file_gives_nothing_away():
    result = await attack(
        """
        for f in /dev/mem /dev/kmem /dev/sda /dev/vda /proc/kcore /proc/kmsg /dev/kvm /dev/fuse; do
            head -c 10 $f >/dev/null 2>&1 && echo read $f
        done
        echo 1 >/proc/sysrq-trigger && echo wrote
        echo x >/proc/sys/kernel/core_pattern && echo wrote
        dmesg >/dev/null 2>&1 && echo read dmesg
        """,
        5,
    )
    assert "wrote" not in result.stdout
    assert "read /dev" not in result.stdout
    assert "read /proc" not in result.stdout


async def test_a_processor_hog_ends_at_its_limit():
    spec = SandboxSpec(workdir="/work", cpu_s=1)
    result = await attack(python("while True: pass"), 20, spec)
    assert not result.timed_out
    assert result.seconds < 15


async def test_a_hidden_directory_is_empty_inside():
    async with Sandbox(SandboxSpec(hidden=(Path("/usr/share"), Path("/nowhere")))) as box:
        assert (
            await box.run("ls /usr/share | wc -l; ls /usr | grep -c share", 5)
        ).stdout == "0\n1\n"
