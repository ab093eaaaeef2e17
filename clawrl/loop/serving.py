"""`clawrl serve`: the gateway over an engine, recording every turn."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from clawrl.config.schema import Config
from clawrl.loop.display import StatusLine
from clawrl.loop.parts import open_recording, run_until
from clawrl.loop.policy import Policy, open_external, open_policy
from clawrl.records.folder import RunFolder
from clawrl.records.nouns import Feedback, Interaction


class Serving:
    """Serves until it is asked to stop."""

    def __init__(
        self,
        config: Config,
        folder: RunFolder,
        display: StatusLine,
        hints: Callable[[str, str], list[str]],
    ) -> None:
        """Nothing is started yet; `hints` are lines for people, by base URL and model name."""
        self._config = config
        self._hints = hints
        self._folder = folder
        self._display = display
        self._stop = asyncio.Event()
        self._heard = 0

    def request_stop(self) -> None:
        """End: requests in flight are finished or cut by the server's own grace."""
        self._stop.set()

    async def run(self) -> None:
        """Serve. Raises EngineError or MachineError when a part fails for good."""
        config, say = self._config, self._display.phase
        external = config.engine.device == "external"
        opened = open_external(config, say) if external else open_policy(config, self._folder, say)
        async with opened as policy:
            await self.serve(policy)

    async def serve(self, policy: Policy) -> None:
        """Serve a policy that runs already. Raises as `run`."""
        folder, display = self._folder, self._display
        async with open_recording(
            self._config, folder, policy, self._on_feedback, then="serve again"
        ) as recording:
            display.say(f"serving {self._config.model.name} at {recording.base_url}/v1")
            for line in self._hints(recording.base_url, policy.model_name):
                display.say(line)
            display.say(f"recording into {folder.root}; Ctrl-C ends it")
            display.phase("serving")
            await run_until(self._stop, policy.keeper.run(), recording.watch())

    def _on_feedback(self, _interaction: Interaction, _feedback: Feedback) -> None:
        self._heard += 1
        self._display.phase(f"serving; {self._heard} next states recorded")
