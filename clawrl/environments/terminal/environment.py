"""One attempt at a terminal task: a shell in a sandbox, graded by the task's checker.

An action is one fenced bash block, or a call of the tool `bash`. A block that ends in a line
`submit`, or a call of the tool `submit`, hands the task in. How many steps there are is for whoever
drives it to say.
"""

from __future__ import annotations

import posixpath
import shlex
from dataclasses import dataclass
from typing import Any

from clawrl.environments.actions import read_block, read_call
from clawrl.environments.guard import refusal
from clawrl.environments.sandbox import CommandResult, Sandbox, SandboxSpec
from clawrl.environments.sandbox.process import SandboxError
from clawrl.environments.states import Finished, Malformed, Refused, TerminalState, ends_kept
from clawrl.environments.terminal.checking import LOGS, TESTS, check
from clawrl.environments.terminal.image import Copied
from clawrl.environments.terminal.task import TerminalTask
from clawrl.errors import ClawRLError, EnvironmentLost
from clawrl.protocols import Action, Environment, NextState, Observation, Outcome

SUBMIT = "submit"
_LANGUAGES = ("bash", "sh", "shell")
_BLOCK_EXPECTED = (
    "Answer with one command in one block that begins with ```bash and ends with ```,"
    " or with `submit` in it when the task is done."
)
_BLOCK_RULES = """You work in a bash shell. Answer with one command in a block, such as:
```bash
ls -l
```
You are then shown what it prints. When the task is done, answer:
```bash
submit
```"""
_TOOL_RULES = (
    "You work in a bash shell through the tool `bash`, one command at a time."
    " When the task is done, call the tool `submit`."
)
_TOOLS: list[dict[str, Any]] = [
    {
        "type": "function",
        "function": {
            "name": "bash",
            "description": "Run a command in the shell and see what it prints.",
            "parameters": {
                "type": "object",
                "properties": {"command": {"type": "string", "description": "what bash reads"}},
                "required": ["command"],
            },
        },
    },
    {
        "type": "function",
        "function": {
            "name": SUBMIT,
            "description": "Hand the task in: it is done.",
            "parameters": {"type": "object", "properties": {}},
        },
    },
]


@dataclass(frozen=True, slots=True)
class TerminalLimits:
    """What one command and the checker may take, and whether the guard stands in front."""

    command_s: float = 30.0
    """After this time a command is killed."""
    grade_s: float = 60.0
    """Of the checker, where its task allows it more."""
    output_characters: int = 4000
    """Of each stream in a next state; what is longer keeps head and tail."""
    guard: bool = True
    """Refuse what should never run, in the sandbox neither."""


class TerminalEnvironment(Environment):
    """A task and its sandbox."""

    def __init__(self, task: TerminalTask, *, limits: TerminalLimits, tools: bool) -> None:
        """Nothing runs before the context is entered."""
        self.task = task
        self._limits = limits
        self._tools = tools
        self._box = Sandbox(
            SandboxSpec(
                workdir=task.image.workdir,
                writable=(TESTS, LOGS),
                hidden=(task.folder.parent,),  # an installed clawrl may lie below /usr
                variables=dict(task.image.variables),
                memory_mib=min(task.memory_mib or 512, 2048),
            )
        )

    async def __aenter__(self) -> TerminalEnvironment:
        """Start the sandbox and bring it into the task's first state."""
        try:
            await self._box.__aenter__()
            await self._prepare()
        except (ClawRLError, OSError) as error:
            await self._box.aclose()
            raise EnvironmentLost(f"terminal task {self.task.task_id}: {error}") from None
        except BaseException:
            await self._box.aclose()
            raise
        return self

    async def __aexit__(self, *_error: object) -> None:
        """Kill all that is left."""
        await self._box.aclose()

    async def observe(self) -> Observation:
        """The rules, then the task's instruction."""
        rules = _TOOL_RULES if self._tools else _BLOCK_RULES
        return Observation(
            messages=[
                {"role": "system", "content": rules},
                {"role": "user", "content": self.task.instruction},
            ],
            tools=_TOOLS if self._tools else None,
        )

    async def step(self, action: Action) -> NextState:
        """Run the reply's command. Raises EnvironmentLost when the sandbox is gone."""
        command = self._command(action)
        if not isinstance(command, str):
            return command
        command, submitted = _without_submit(command)
        if submitted and not command.strip():
            return Finished(done=True)
        reason = refusal(command) if self._limits.guard else None
        if reason is not None:
            return Refused(reason=reason)
        try:
            result = await self._box.run(command, self._limits.command_s)
        except ValueError as error:
            return Malformed(problem=str(error), expected=_BLOCK_EXPECTED)
        except SandboxError as error:
            raise EnvironmentLost(f"terminal task {self.task.task_id}: {error}") from None
        return self._state(result, submitted)

    async def grade(self) -> Outcome:
        """The checker's reward; None where the checker itself failed. Raises EnvironmentLost."""
        try:
            return await check(self._box, self.task, at_most_s=self._limits.grade_s)
        except SandboxError as error:
            raise EnvironmentLost(f"terminal task {self.task.task_id}: {error}") from None

    async def _prepare(self) -> None:
        for step in self.task.image.steps:
            if isinstance(step, Copied):
                folder = posixpath.dirname(step.target)
                await self._must(f"mkdir -p -- {shlex.quote(folder)}")
                mode = step.source.stat().st_mode & 0o777
                await self._box.write(step.target, step.source.read_bytes(), mode)
            else:
                await self._must(f"(\n{step}\n)")
        await self._box.new_shell()

    async def _must(self, command: str) -> None:
        done = await self._box.run(command, self.task.build_s)
        if done.exit_code != 0:
            said = (done.stderr or done.stdout).strip()[-300:]
            raise EnvironmentLost(f"its set-up failed ({done.exit_code}): {said}")

    def _command(self, action: Action) -> str | Malformed | Finished:
        if not self._tools:
            return read_block(action, _LANGUAGES, _BLOCK_EXPECTED)
        call = read_call(action, _TOOLS)
        if isinstance(call, Malformed):
            return call
        return Finished(done=True) if call.tool == SUBMIT else str(call.arguments["command"])

    def _state(self, result: CommandResult, submitted: bool) -> TerminalState:
        most = self._limits.output_characters
        return TerminalState(
            stdout=ends_kept(result.stdout, most),
            stderr=ends_kept(result.stderr, most),
            exit_code=result.exit_code,
            timed_out=result.timed_out,
            flooded=result.flooded,
            shell_ended=result.shell_ended,
            seconds=result.seconds,
            done=submitted,
        )


def _without_submit(command: str) -> tuple[str, bool]:
    """The command without its last line where that hands the task in, and whether it did."""
    lines = command.rstrip().split("\n")
    if lines[-1].strip() != SUBMIT:
        return command, False
    return "\n".join(lines[:-1]), True
