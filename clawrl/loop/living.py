"""`clawrl serve` with a learner: whoever uses the model trains it.

The same parts as `clawrl train`, without a persona and without an end: turns come from live users,
who are never held back, and the learner works when its schedule lets it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack

from starlette.applications import Starlette

from clawrl.config.schema import Config, given_keys
from clawrl.errors import first_error
from clawrl.gateway.access import AccessCheck
from clawrl.gateway.app import create_app
from clawrl.gateway.serve import GatewayServer, require_free
from clawrl.loop.backlog import Backlog, backlog
from clawrl.loop.display import REFRESH_S, Display
from clawrl.loop.learner_process import LearnerProcess
from clawrl.loop.metrics import MetricsLog
from clawrl.loop.parts import assembler, decoder, earlier_turns, watch_writer
from clawrl.loop.pipeline import Pipeline
from clawrl.loop.policy import Policy, open_judge, open_policy
from clawrl.loop.publishing import LedgerFollower
from clawrl.records.folder import RunFolder
from clawrl.records.nouns import Update
from clawrl.records.writer import RecordWriter
from clawrl.ui.mount import PATH, open_page
from clawrl.ui.page import Page
from clawrl.ui.view import RunView
from clawrl.weights.publisher import Publisher

ENDLESS = 1_000_000_000
"""The version after which the learner would end."""


class Living:
    """Serves and learns until it is asked to stop; started again, it goes on."""

    def __init__(
        self,
        config: Config,
        folder: RunFolder,
        display: Display,
        hints: Callable[[str, str], list[str]],
    ) -> None:
        """Nothing is started yet; `hints` are lines for people, by base URL and model name."""
        self._config = config
        self._hints = hints
        self._folder = folder
        self._display = display
        self._state = display.state
        self._stop = asyncio.Event()

    def request_stop(self) -> None:
        """Finish the learner's step, save, and end."""
        self._stop.set()

    async def run(self) -> None:
        """Serve. Raises ClawRLError when a part fails for good."""
        require_free(self._config.gateway.host, self._config.gateway.port)
        left = await asyncio.to_thread(backlog, self._folder)
        async with AsyncExitStack() as stack:
            await self._run(stack, left)

    async def _run(self, stack: AsyncExitStack, left: Backlog) -> None:
        config, folder, say = self._config, self._folder, self._display.phase
        metrics = stack.enter_context(MetricsLog(folder.metrics, config, folder.root.name))
        policy = await stack.enter_async_context(open_policy(config, folder, say))
        served = policy.served
        self._state.version = served.version
        learner = LearnerProcess(config, folder, policy.model_path, until=ENDLESS)
        judge = await stack.enter_async_context(
            open_judge(config, folder, say, policy=policy, trusted=True)
        )
        writer = RecordWriter(
            folder, version=served.version, queue_records=config.gateway.queue_records
        )
        stack.callback(writer.close)
        publisher = Publisher(
            weights=folder.weights,
            sink=policy.engine,
            engine=policy.engine,
            served=served,
            keep=config.weights.keep,
            tolerance=config.weights.probe_tolerance,
            on_served=writer.roll,
        )
        follower = LedgerFollower(
            folder,
            publisher,
            metrics,
            self._state,
            max_restarts=config.engine.max_restarts,
            phase=say,
        )
        pipeline = Pipeline(
            judge=judge,
            writer=writer,
            assemble=assembler(config, policy.model_path),
            concurrent=config.loop.judge_calls,
            on_sample=follower.count,
        )
        listening = ""
        access = AccessCheck(config.gateway)
        page = None
        if config.gateway.page:
            say("building the page")
            page = await stack.enter_async_context(
                open_page(
                    Page(
                        view=RunView(folder),
                        engine=policy.engine,
                        objective=config.objective,
                        decode=await asyncio.to_thread(decoder, policy.model_path),
                        base_url=lambda: listening,
                        version=lambda: served.version,
                        model_name=policy.model_name,
                        user_of=access.user_of,
                        keyed=bool(given_keys(config.gateway)),
                    ),
                    access.check_origin,
                )
            )
        app = create_app(
            engine=policy.engine,
            served=served,
            writer=writer,
            config=config.gateway,
            model_name=policy.model_name,
            template_kwargs=config.model.template_kwargs,
            temperature=config.sampling.temperature,
            on_feedback=pipeline.submit,
            earlier=await asyncio.to_thread(earlier_turns, folder, config.gateway.session_idle_s),
            page=page,
        )
        gateway = await stack.enter_async_context(
            GatewayServer(app, config.gateway.host, config.gateway.port)
        )
        listening = gateway.base_url
        self._state.unused = len(left.unused)
        for interaction, verdict in left.unassembled:
            await pipeline.settle(interaction, verdict, record_verdict=False)
        for interaction, feedback in left.unjudged:
            pipeline.submit(interaction, feedback)
        self._display.say(f"serving {config.model.name} at {gateway.base_url}/v1")
        if page is not None:
            self._display.say(f"  talk to it: {gateway.base_url}{PATH}/")
        for line in self._hints(gateway.base_url, policy.model_name):
            self._display.say(line)
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [
                    group.create_task(loop)
                    for loop in (
                        policy.keeper.run(),
                        watch_writer(writer, then="serve again"),
                        pipeline.run(),
                        learner.run(),
                        follower.run(self._served),
                        self._keep_fresh(app, policy, pipeline, writer, learner),
                    )
                ]
                await self._stop.wait()
                self._display.phase("stopping: the learner finishes its step and saves")
                await learner.stop()
                for task in tasks:
                    task.cancel()
        except BaseExceptionGroup as errors:
            raise first_error(errors) from None
        finally:
            await learner.stop(now=not self._stop.is_set())

    async def _served(self, update: Update) -> None:
        state = self._state
        self._display.say(
            f"version {update.version}: learned from {len(update.sample_ids)} replies; verdicts "
            f"{state.score_mean or 0:+.2f}, hints {state.hint_rate or 0:.0%}"
        )
        self._display.phase("serving")

    async def _keep_fresh(
        self,
        app: Starlette,
        policy: Policy,
        pipeline: Pipeline,
        writer: RecordWriter,
        learner: LearnerProcess,
    ) -> None:
        """Keep the picture fresh, and tell the learner when somebody is there."""
        self._display.phase("serving")
        tracker, state = app.state.tracker, self._state
        asked = -1
        while True:
            if tracker.running or tracker.asked != asked:
                asked = tracker.asked
                self._folder.activity.touch()
            tracker.close_idle()
            state.version = policy.served.version
            state.in_flight = tracker.running
            state.waiting_for_judge = pipeline.waiting
            state.waiting_for_disk = writer.waiting
            state.restarts = learner.restarts
            await asyncio.sleep(REFRESH_S)
