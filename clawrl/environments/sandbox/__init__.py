"""A cage for commands that a model wrote: bubblewrap, limits, and one persistent shell."""

from clawrl.environments.sandbox.sandbox import Sandbox
from clawrl.environments.sandbox.spec import CommandResult, SandboxSpec

__all__ = ["CommandResult", "Sandbox", "SandboxSpec"]
