"""Next states of environments, one frozen record for each kind of thing that comes back.

`kind` tells them apart on the wire. Their text is what the policy reads and what the judge judges;
it always ends with the machine's own line, which nothing that a command prints can come after.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter

from clawrl.protocols import NextState


class Malformed(NextState):
    """No action could be read from the reply."""

    kind: Literal["malformed"] = "malformed"
    problem: str
    expected: str

    def text(self) -> str:
        """What was wrong, and what an action looks like."""
        return f"No action was done: {self.problem}. {self.expected}\n[exit code 2]"


class Refused(NextState):
    """The guard does not let this command run."""

    kind: Literal["refused"] = "refused"
    reason: str

    def text(self) -> str:
        """The reason."""
        return f"This command was refused and did not run: {self.reason}.\n[exit code 126]"


class Finished(NextState):
    """The policy said that the task is done."""

    kind: Literal["finished"] = "finished"

    def text(self) -> str:
        """An acknowledgement that says nothing of the outcome."""
        return "The task was handed in.\n[finished]"


class TerminalState(NextState):
    """What a command in a shell came back with."""

    kind: Literal["terminal"] = "terminal"
    stdout: str
    stderr: str
    exit_code: int | None
    """None: it was ended before it had one."""
    timed_out: bool = False
    flooded: bool = False
    """True: it was ended because it wrote too much."""
    shell_ended: bool = False
    """True: the next command finds a new shell in the same directory."""

    def text(self) -> str:
        """Both streams, then how it ended."""
        parts = [self.stdout.rstrip("\n")] if self.stdout.strip() else []
        if self.stderr.strip():
            parts.append("[stderr]\n" + self.stderr.rstrip("\n"))
        if not parts:
            parts.append("(no output)")
        if self.shell_ended:
            parts.append("[the shell ended: a new one was started in the same directory]")
        return "\n".join([*parts, f"[{self._ending()}]"])

    def _ending(self) -> str:
        if self.timed_out:
            return f"timed out after {self.seconds:.0f} s and was killed"
        if self.flooded:
            return "killed: it wrote too much"
        return f"exit code {self.exit_code}"


class ToolState(NextState):
    """What a tool answered."""

    kind: Literal["tool"] = "tool"
    tool: str
    status: Literal["ok", "error", "timed_out"]
    value: str = ""
    error: str = ""

    def text(self) -> str:
        """The value, or the error by name."""
        if self.status == "ok":
            return self.value if self.value.strip() else "(no output)"
        if self.status == "timed_out":
            return f"Error: {self.tool} timed out after {self.seconds:.0f} s"
        error = self.error if self.error.startswith("Error") else f"Error: {self.error}"
        return f"{self.value.rstrip()}\n{error}" if self.value.strip() else error


AnyState = Annotated[
    Malformed | Refused | Finished | TerminalState | ToolState, Field(discriminator="kind")
]
_STATES: TypeAdapter[AnyState] = TypeAdapter(AnyState)


def state_of(values: Any) -> NextState:
    """The record that plain values stand for. Raises pydantic's ValidationError."""
    return _STATES.validate_python(values)


def ends_kept(text: str, limit: int) -> str:
    """At most about `limit` characters: head and tail, and how much was left out between them."""
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]}\n[... {len(text) - 2 * half} characters left out ...]\n{text[-half:]}"
