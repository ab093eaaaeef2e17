"""The sandbox as a place to work in: one shell that remembers, and survives what is done to it."""

from __future__ import annotations

import asyncio
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawrl.environments.sandbox import Sandbox, SandboxSpec
from clawrl.environments.sandbox.cgroups import Cgroup, Parents, usable
from clawrl.environments.sandbox.output import Capture
from clawrl.environments.sandbox.probe import enforced
from clawrl.environments.sandbox.process import SandboxError
from tests.sandboxes import all_gone, only_the_shell, pids_of, run_by


@pytest.fixture
async def box():
    async with Sandbox(SandboxSpec(workdir="/work")) as box:
        yield box


async def test_a_shell_remembers_directory_variables_functions_and_the_last_exit_code(box):
    await box.run("cd /tmp; x=5; declare -A m=([k]=v); f() { echo f; }; false", 5)
    result = await box.run('echo "$? $PWD $x ${m[k]} $(f)"', 5)
    assert result.stdout == "1 /tmp 5 v f\n"
    assert (result.stderr, result.exit_code, result.timed_out) == ("", 0, False)


async def test_stdout_and_stderr_come_back_apart(box):
    result = await box.run("echo one; echo two >&2; exit_code() { return 7; }; exit_code", 5)
    assert (result.stdout, result.stderr, result.exit_code) == ("one\n", "two\n", 7)


@pytest.mark.parametrize(
    ("command", "code"),
    [("exit 3", 3), ("set -e; false", 1), ("exec ls /", 0), ("kill -9 $$", 137), ("set -u; $a", 1)],
)
async def test_a_command_that_ends_the_shell_gets_a_new_one_in_the_same_place(box, command, code):
    await box.run("cd /tmp; touch kept; x=5; sleep 100 &", 5)
    result = await box.run(command, 5)
    assert result.shell_ended
    assert result.exit_code == code
    after = await box.run('echo "$PWD $(ls) [$x]"', 5)
    assert after.stdout == "/tmp kept []\n"
    assert await only_the_shell(box)


@pytest.mark.parametrize(
    "command", ["break; continue; return 3", "echo 'never closed", "if true", "for", "(("]
)
async def test_what_is_no_command_is_an_error_message_and_the_shell_goes_on(box, command):
    result = await box.run(command, 5)
    assert result.exit_code != 0
    assert "bash: " in result.stderr
    assert not result.shell_ended
    assert (await box.run("echo on", 5)).stdout == "on\n"


async def test_a_command_of_many_lines_with_quotes_runs_as_it_stands(box):
    result = await box.run("cat <<'E'\nit's \"$HOME\" \\n\nE\nfor i in 1 2; do\n echo $i\ndone", 5)
    assert result.stdout == 'it\'s "$HOME" \\n\n1\n2\n'


async def test_a_command_reads_nothing_and_traces_do_not_break_the_end(box):
    assert (await box.run("cat; read x; set -xv; echo hi", 5)).stdout == "hi\n"
    assert (await box.run("set +xv; echo ho", 5)).stdout == "ho\n"


async def test_after_a_time_out_the_shell_goes_on_and_nothing_of_the_command_runs(box):
    await box.run("x=5", 5)
    result = await box.run("(trap '' TERM INT; sleep 100 & sleep 100)", 0.3)
    assert result.timed_out
    assert result.exit_code is None
    assert not result.shell_ended
    assert result.seconds < 3
    assert (await box.run("echo $x", 5)).stdout == "5\n"
    assert await only_the_shell(box)


@pytest.mark.parametrize("command", ["while :; do :; done", "set -n"])
async def test_a_shell_that_cannot_be_stopped_is_replaced(box, command):
    result = await box.run(command, 0.3)
    assert result.timed_out
    assert result.shell_ended or (await box.run("true", 0.3)).shell_ended
    assert (await box.run("echo on", 5)).stdout == "on\n"


async def test_a_background_process_lives_on_through_a_time_out_of_another(box):
    await box.run("(sleep 100 &)", 5)
    assert (await box.run("sleep 50", 0.2)).timed_out
    assert (await box.run("pgrep -c sleep", 5)).stdout == "1\n"


async def test_long_output_keeps_its_head_and_its_tail(box):
    result = await box.run("echo first; seq 100000; echo last", 10)
    assert result.stdout.startswith("first\n1\n2\n")
    assert result.stdout.endswith("100000\nlast\n")
    assert "bytes left out" in result.stdout
    assert len(result.stdout) < 17000


async def test_files_go_in_and_out_byte_for_byte(box):
    data = bytes(range(256)) * 1000
    await box.write("/work/file", data, mode=0o755)
    assert await box.read("/work/file") == data
    listed = await box.run("stat -c '%U %a %s' file", 5)
    assert listed.stdout == "agent 755 256000\n"
    assert await box.read("/work/file", limit=3) == b"\x00\x01\x02"


@pytest.mark.parametrize(
    "path", ["/work/link", "/work/out/group", "/work/pipe", "/work", "/work/no"]
)
async def test_reading_and_writing_follow_no_link_and_wait_for_no_pipe(box, path):
    await box.run("ln -s /etc/passwd link; ln -s /etc out; mkfifo pipe", 5)
    with pytest.raises(SandboxError, match=path):
        await box.read(path)
    if path != "/work/no":
        with pytest.raises(SandboxError, match=path):
            await box.write(path, b"x")


async def test_a_fresh_directory_is_writable_inside_and_unchanged_outside(tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "a").write_text("old")
    (tmp_path / "run.sh").write_text("echo ran")
    (tmp_path / "run.sh").chmod(0o755)
    shown = tmp_path / "sub"
    spec = SandboxSpec(workdir="/repo", fresh={"/repo": tmp_path}, read_only={"/shown": shown})
    for _ in range(2):
        async with Sandbox(spec) as box:
            result = await box.run("cat sub/a && echo new >sub/a && ls && cat /shown/a", 5)
            assert result.stdout == "oldrun.sh\nsub\nold"
            assert (await box.run("echo x >/shown/a", 5)).exit_code == 1
            assert (await box.run("stat -c %a run.sh; echo y >>run.sh", 5)).stdout == "755\n"
    assert (tmp_path / "sub" / "a").read_text() == "old"


async def test_a_new_shell_keeps_the_files_and_nothing_else(box):
    await box.run("cd /tmp; x=5; touch /work/kept; ls() { echo lies; }; sleep 100 &", 5)
    await box.new_shell()
    assert (await box.run("pwd; ls; echo [$x]", 5)).stdout == "/work\nkept\n[]\n"
    assert await only_the_shell(box)


async def test_leaving_kills_everything_even_when_cancelled():
    pids: list[int] = []
    inside = asyncio.Event()

    async def episode() -> None:
        async with Sandbox(SandboxSpec()) as box:
            await box.run("setsid sleep 1000 & setsid nohup sleep 1001 &", 5)
            pids.extend(pids_of(box))
            inside.set()
            await box.run("sleep 1000", 1000)

    task = asyncio.create_task(episode())
    await inside.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert len(pids) >= 4
    assert await all_gone(pids)


@pytest.mark.parametrize("after_ms", [0, 5, 10, 20, 40, 80, 160])
async def test_a_start_that_is_cancelled_at_any_moment_leaves_nothing(after_ms):
    box = Sandbox(SandboxSpec())

    async def enter() -> None:
        async with box:
            await asyncio.sleep(1000)

    task = asyncio.create_task(enter())
    await asyncio.sleep(after_ms / 1000)
    pids = pids_of(box)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await all_gone([*pids, *run_by(box.host_uid)])


async def test_thirty_sandboxes_work_side_by_side():
    async def one(number: int) -> str:
        async with Sandbox(SandboxSpec()) as box:
            return (await box.run(f"echo {number} >a; cat a", 20)).stdout

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one(number)) for number in range(30)]
    assert [task.result() for task in tasks] == [f"{number}\n" for number in range(30)]


async def test_a_sandbox_that_was_killed_says_so(box):
    pids = pids_of(box)
    box._process._keeper.kill()
    await all_gone(pids)
    with pytest.raises(SandboxError, match=box.name):
        await box.run("echo", 5)
    assert not box.alive


async def test_a_command_with_a_nul_is_refused_before_it_runs(box):
    with pytest.raises(ValueError, match="NUL"):
        await box.run("echo \0", 5)


async def test_the_probe_says_in_one_line_what_holds():
    line = str(await enforced())
    assert "bubblewrap" in line
    assert "\n" not in line


@given(
    data=st.binary(max_size=300), cuts=st.lists(st.integers(0, 340), max_size=6), rest=st.binary()
)
def test_a_capture_finds_the_token_however_the_bytes_arrive(data, cuts, rest):
    token = b"0123456789abcdef01234567"
    if token in data or token in rest:
        return
    stream = data + token + rest + token
    capture = Capture(token, head_bytes=1000, tail_bytes=1000)
    edges = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    for start, end in itertools.pairwise(edges):
        capture.feed(stream[start:end])
    assert capture.trailer == rest
    assert capture.text() == data.decode(errors="replace").replace("\0", "\u2400")
    assert capture.total == len(data)


@given(size=st.integers(0, 5000), head=st.integers(0, 100), tail=st.integers(1, 100))
def test_a_capture_holds_no_more_than_head_and_tail(size, head, tail):
    capture = Capture(b"token", head_bytes=head, tail_bytes=tail)
    for start in range(0, size, 7):
        capture.feed(b"x" * min(7, size - start))
    text = capture.text()
    assert capture.total == size
    assert text.count("x") == min(size, head + tail)
    assert (f"[... {size - head - tail} bytes left out ...]" in text) == (size > head + tail)


def test_cgroup_v2_is_used_where_its_files_can_be_written(tmp_path):
    root = tmp_path / "cgroup"
    membership = tmp_path / "self"
    membership.write_text("0::/own\n")
    (root / "own").mkdir(parents=True)
    (root / "cgroup.controllers").write_text("memory pids")
    # A real kernel makes the limits' files; here writing makes them, and nothing else is checked.
    found = usable(root, membership)
    assert (found.version, found.memory) == ("v2", root / "own")
    group = Cgroup("a", found, memory_bytes=2**20, processes=7)
    group.add(4711)
    made = next((root / "own").glob("clawrl-*-a"))
    assert (made / "memory.max").read_text() == str(2**20)
    assert (made / "pids.max").read_text() == "7"
    assert (made / "cgroup.procs").read_text() == "4711"


def test_no_cgroup_is_an_ordinary_machine(tmp_path):
    assert usable(tmp_path / "nothing", tmp_path / "no file") == Parents("none")
