"""`clawrl serve`: the gateway over an engine, recording every turn."""

from __future__ import annotations

import asyncio

from clawrl.config.schema import Config
from clawrl.gateway.app import create_app
from clawrl.gateway.serve import GatewayServer
from clawrl.loop.display import StatusLine
from clawrl.loop.policy import open_policy
from clawrl.records.folder import RunFolder
from clawrl.records.nouns import Feedback, Interaction
from clawrl.records.writer import RecordWriter


class Serving:
    """Serves until it is asked to stop."""

    def __init__(self, config: Config, folder: RunFolder, display: StatusLine) -> None:
        self._config = config
        self._folder = folder
        self._display = display
        self._stop = asyncio.Event()
        self._heard = 0

    def request_stop(self) -> None:
        """End: requests in flight are finished or cut by the server's own grace."""
        self._stop.set()

    async def run(self) -> None:
        """Serve. Raises EngineError or MachineError when a part fails for good."""
        config, folder, display = self._config, self._folder, self._display
        async with open_policy(config, folder, display.phase) as policy:
            writer = RecordWriter(
                folder, version=policy.served.version, queue_records=config.gateway.queue_records
            )
            app = create_app(
                engine=policy.engine,
                served=policy.served,
                writer=writer,
                config=config.gateway,
                model_name=policy.server.served_name,
                template_kwargs=config.model.template_kwargs,
                on_feedback=self._on_feedback,
            )
            try:
                async with GatewayServer(app, config.gateway.host, config.gateway.port) as gateway:
                    display.say(f"serving {config.model.name} at {gateway.base_url}/v1")
                    display.say(f"  export OPENAI_BASE_URL={gateway.base_url}/v1")
                    display.say(f"recording into {folder.root}; Ctrl-C ends it")
                    display.phase("serving")
                    async with asyncio.TaskGroup() as group:
                        keeper = group.create_task(policy.keeper.run())
                        await self._stop.wait()
                        keeper.cancel()
            finally:
                await asyncio.to_thread(writer.close)

    def _on_feedback(self, _interaction: Interaction, _feedback: Feedback) -> None:
        self._heard += 1
        self._display.phase(f"serving; {self._heard} next states recorded")
