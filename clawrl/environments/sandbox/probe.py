"""What of the sandbox this machine can enforce, found by starting one."""

from __future__ import annotations

from dataclasses import dataclass

from clawrl.environments.sandbox.bwrap import host_uid
from clawrl.environments.sandbox.cgroups import usable
from clawrl.environments.sandbox.sandbox import Sandbox
from clawrl.environments.sandbox.spec import SandboxSpec

TRIAL_S = 30.0


@dataclass(frozen=True, slots=True)
class Enforced:
    """The limits that hold here."""

    seconds: float
    """From nothing to an answer."""
    own_user: bool
    """Each sandbox is a user of its own on this machine; else all are the one who runs clawrl."""
    cgroup: str
    """`v1`, `v2` or `none`."""
    memory_of_all: bool
    """The memory of all of a sandbox's processes and files together, not of each process alone."""

    def __str__(self) -> str:
        """One line."""
        user = "own user each" if self.own_user else "your user for all"
        together = "in all" if self.memory_of_all else "per process only"
        return (
            f"bubblewrap, {self.seconds * 1000:.0f} ms to start, {user}, network off; "
            f"memory {together} (cgroup {self.cgroup}), processes, CPU, files and output limited"
        )


async def enforced() -> Enforced:
    """Start a sandbox and look.

    Raises:
        MachineError: none can be started here; the message says why.
        SandboxError: one started and did not answer.
    """
    async with Sandbox(SandboxSpec()) as box:
        result = await box.run("true", TRIAL_S)
        parents = usable()
        return Enforced(
            box.start_s + result.seconds,
            host_uid() is not None,
            parents.version,
            parents.memory is not None,
        )
