"""Running a task's checker on what the agent left, out of the agent's reach.

The checker is written into the sandbox only now. Before it runs, everything that the agent started
is killed and its directories are emptied; it runs with an environment of its own, so that nothing
in the agent's home (start-up files, Python packages, a module beside the data) is loaded by it.
Whatever goes wrong with the checker itself is no score.
"""

from __future__ import annotations

import shlex
from pathlib import PurePosixPath

from clawrl.environments.sandbox import Sandbox
from clawrl.environments.sandbox.process import SandboxError
from clawrl.environments.states import ends_kept
from clawrl.environments.terminal.task import TerminalTask
from clawrl.protocols import Outcome

TESTS = "/tests"
LOGS = "/logs/verifier"
_HOME = "/nonexistent"
_DETAIL_CHARACTERS = 600
_CLEAN_S = 20.0
_VARIABLES = {
    "PATH": "/usr/bin:/bin",
    "HOME": _HOME,
    "LANG": "C.UTF-8",
    "PYTHONNOUSERSITE": "1",
    "PYTHONSAFEPATH": "1",
    "PYTHONDONTWRITEBYTECODE": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_OPTIONAL_LOCKS": "0",
}


async def check(box: Sandbox, task: TerminalTask, *, at_most_s: float) -> Outcome:
    """Grade the files as they are now; the sandbox is of no use to an agent afterwards.

    Args:
        box: where the agent worked; /tests and /logs/verifier are writable directories there.
        task: whose checker is run.
        at_most_s: limit beside the task's own.

    Raises:
        SandboxError: the sandbox is gone.
    """
    await box.new_shell()
    cleaned = await box.run(f"{_emptied(TESTS)} && {_emptied(LOGS)}", _CLEAN_S)
    if cleaned.exit_code != 0:
        return Outcome(reward=None, detail="the checker's directories could not be emptied")
    for name, content in task.checker:
        target = f"{TESTS}/{name}"
        if "/" in name:
            await box.run(f"mkdir -p {shlex.quote(str(PurePosixPath(target).parent))}", _CLEAN_S)
        await box.write(target, content, 0o555 if name.endswith(".sh") else 0o444)
    limit = min(task.verifier_s, at_most_s)
    done = await box.run(_command(task), limit)
    said = ends_kept((done.stdout + done.stderr).strip(), _DETAIL_CHARACTERS)
    if done.timed_out:
        return Outcome(reward=None, detail=f"the checker took more than {limit:.0f} s")
    if done.flooded or done.shell_ended or done.exit_code is None or done.exit_code > 128:
        return Outcome(reward=None, detail=f"the checker was killed: {said}")
    if box.process_count() > 2:
        return Outcome(reward=None, detail=f"the checker left processes running: {said}")
    await box.new_shell()
    return await _read_reward(box, said, done.exit_code)


async def _read_reward(box: Sandbox, said: str, exit_code: int) -> Outcome:
    try:
        text = (await box.read(f"{LOGS}/reward.txt", 64)).decode(errors="replace").strip()
    except SandboxError:
        return Outcome(reward=None, detail=f"no reward, exit code {exit_code}: {said}")
    try:
        reward = float(text)
    except ValueError:
        return Outcome(reward=None, detail=f"the reward is no number: {text[:40]!r}")
    if not 0 <= reward <= 1:
        return Outcome(reward=None, detail=f"the reward is not from 0 to 1: {text[:40]!r}")
    return Outcome(reward=reward, detail=said)


def _emptied(path: str) -> str:
    return f"chmod -R u+rwX {path} && find {path} -mindepth 1 -delete"


def _command(task: TerminalTask) -> str:
    """The shell's own environment is as clean: it was started anew."""
    variables = {**dict(task.image.variables), **_VARIABLES}
    settings = shlex.join(f"{name}={value}" for name, value in variables.items())
    run = f"exec /usr/bin/env -i {settings} /bin/bash --norc --noprofile {TESTS}/test.sh"
    return f"(cd {shlex.quote(task.image.workdir)} || cd /; {run})"
