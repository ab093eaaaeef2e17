"""`clawrl train`: the supervisor. It starts every part, connects them, and ends them all.

    collector -> gateway -> engine          a persona talks, a reply is served and recorded
                   |  next state
                pipeline                    verdict, then sample, then the learner's file
    learner -> ledger -> publisher -> engine    new weights, without dropping a request

The parts meet in the run folder and in three small objects: `ServedPolicy` (what is served),
`Admission` (how far ahead of the learner sampling may go), `RunState` (what people see).
"""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass

from clawrl.collect.collector import Collector
from clawrl.config.build import build
from clawrl.config.schema import Config
from clawrl.errors import ClawRLError, first_error
from clawrl.gateway.app import create_app
from clawrl.gateway.serve import GatewayServer, require_free
from clawrl.loop.backlog import Backlog, backlog, consumed
from clawrl.loop.display import REFRESH_S, Display
from clawrl.loop.learner_process import LearnerProcess
from clawrl.loop.measuring import Measurer
from clawrl.loop.metrics import MetricsLog
from clawrl.loop.parts import assembler, build_collector, watch_writer
from clawrl.loop.pipeline import Pipeline
from clawrl.loop.policy import Policy, open_judge, open_policy
from clawrl.loop.publishing import LedgerFollower, with_engine
from clawrl.problems.sets import training_problems
from clawrl.protocols import Persona
from clawrl.records.folder import RunFolder
from clawrl.records.jsonl import JsonlFile
from clawrl.records.nouns import Remainder, Sample, Update
from clawrl.records.writer import RecordWriter
from clawrl.serving.admission import Admission
from clawrl.weights.publisher import Publisher

log = logging.getLogger(__name__)


class Stopped(ClawRLError):
    """Somebody asked the run to stop before its end; it can be resumed."""


@dataclass
class _Parts:
    """What is running."""

    policy: Policy
    writer: RecordWriter
    pipeline: Pipeline
    collector: Collector
    follower: LedgerFollower
    measurer: Measurer
    learner: LearnerProcess
    metrics: MetricsLog


class Training:
    """One training run over one folder."""

    def __init__(
        self, config: Config, folder: RunFolder, display: Display, *, trusted: bool
    ) -> None:
        self._config = config
        self._folder = folder
        self._display = display
        self._state = display.state
        self._trusted = trusted
        self._target = config.loop.updates
        self._admission = Admission(0)
        self._collecting: asyncio.Task[None] | None = None
        self._stop = asyncio.Event()
        self._finished = asyncio.Event()

    def request_stop(self) -> None:
        """Finish the learner's step, save, and end (the first Ctrl-C)."""
        self._stop.set()

    async def run(self) -> None:
        """Train until the last update is published and measured.

        Raises:
            Stopped: `request_stop` was called; everything is saved.
            ClawRLError: a part failed for good.
        """
        left = await asyncio.to_thread(self._look_ahead)
        async with AsyncExitStack() as stack:
            parts = await self._start(stack)
            try:
                await self._run_parts(parts, left)
            finally:
                self._admission.close()
                await parts.learner.stop(
                    now=not self._finished.is_set() and not self._stop.is_set()
                )
                self._refresh(parts)
            if not self._finished.is_set():
                raise Stopped(f"stopped at version {parts.policy.served.version}")
        self._name_remainder()

    def _look_ahead(self) -> Backlog:
        """What would fail later fails now, before anything is started."""
        config = self._config
        require_free(config.gateway.host, config.gateway.port)
        build(config.persona, Persona, key="persona", trusted=self._trusted)
        next(training_problems(config.data))
        return backlog(self._folder)

    async def _start(self, stack: AsyncExitStack) -> _Parts:
        config, folder, say = self._config, self._folder, self._display.phase
        metrics = stack.enter_context(MetricsLog(folder.metrics, config, folder.root.name))
        policy = await stack.enter_async_context(open_policy(config, folder, say))
        served = policy.served
        self._state.version = served.version
        learner = LearnerProcess(config, folder, policy.model_path, until=self._target)
        judge = await stack.enter_async_context(
            open_judge(config, folder, say, policy=policy, trusted=self._trusted)
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
            on_sample=lambda sample: self._on_sample(follower, sample),
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
            admission=self._admission,
        )
        gateway = await stack.enter_async_context(
            GatewayServer(app, config.gateway.host, config.gateway.port)
        )
        collector = build_collector(
            config,
            folder,
            gateway.base_url,
            give_up=lambda turn: self._admission.settle([turn]),
            trusted=self._trusted,
        )
        measurer = Measurer(config, folder, policy, trusted=self._trusted)
        return _Parts(policy, writer, pipeline, collector, follower, measurer, learner, metrics)

    async def _run_parts(self, parts: _Parts, left: Backlog) -> None:
        """Everything at once, until the last update is published or a stop is asked for."""
        try:
            async with asyncio.TaskGroup() as group:
                everything = group.create_task(self._all_loops(parts, left))
                ends = [
                    group.create_task(self._stop.wait()),
                    group.create_task(self._finished.wait()),
                ]
                await asyncio.wait([everything, *ends], return_when=asyncio.FIRST_COMPLETED)
                if self._stop.is_set():
                    self._display.phase("stopping: the learner finishes its step and saves")
                    if self._collecting is not None:
                        self._collecting.cancel()
                    await parts.learner.stop()
                for task in (everything, *ends):
                    task.cancel()
        except BaseExceptionGroup as group_error:
            raise first_error(group_error) from None

    async def _all_loops(self, parts: _Parts, left: Backlog) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(parts.policy.keeper.run())
            group.create_task(self._keep_fresh(parts))
            group.create_task(watch_writer(parts.writer))
            await self._take_up(parts, left)
            await self._measure_if_new(parts)
            if parts.policy.served.version >= self._target:
                self._finished.set()
                return
            learner = group.create_task(parts.learner.run())
            group.create_task(parts.pipeline.run())
            self._collecting = group.create_task(parts.collector.run())
            group.create_task(parts.follower.run(lambda update: self._served(parts, update)))
            self._set_limit(parts)
            await learner
            if not self._stop.is_set():
                await self._finished.wait()

    async def _take_up(self, parts: _Parts, left: Backlog) -> None:
        """Finish what an earlier process of this run left half done."""
        self._state.unused = len(left.unused)
        self._admission.hold(left.unused)
        self._admission.hold(i.interaction_id for i, _ in (*left.unassembled, *left.unjudged))
        for interaction, verdict in left.unassembled:
            await parts.pipeline.settle(interaction, verdict, record_verdict=False)
        for interaction, feedback in left.unjudged:
            parts.pipeline.submit(interaction, feedback)

    def _on_sample(self, follower: LedgerFollower, sample: Sample) -> None:
        follower.count(sample)
        if not sample.accepted:
            self._admission.settle([sample.interaction_id])

    async def _served(self, parts: _Parts, update: Update) -> None:
        """A version is served: measure it if it is due, let sampling go on."""
        state = self._state
        self._display.say(
            f"version {update.version}/{self._target}  verdicts {state.score_mean or 0:+.2f}  "
            f"hints {state.hint_rate or 0:.0%}  mismatch {update.metrics.get('mismatch', 0):.1e}  "
            f"loss {update.metrics.get('loss', 0):+.3f}  {state.elapsed_s:.0f} s"
        )
        done = update.version >= self._target
        every = self._config.eval.every
        if done or (every and update.version % every == 0):
            await self._measure(parts)
        self._set_limit(parts)
        self._admission.settle([*update.sample_ids, *update.stale])
        if done:
            self._display.phase("done")
            self._finished.set()

    def _set_limit(self, parts: _Parts) -> None:
        """Sampling may be ahead of the learner by `max_staleness` batches, and never of the end."""
        batch = self._config.learner.batch_samples
        remaining = max(0, self._target - parts.policy.served.version)
        self._admission.set_limit(batch * min(self._config.loop.max_staleness + 1, remaining))
        self._display.phase("personas talk, the judge listens, the learner waits for its batch")

    async def _measure_if_new(self, parts: _Parts) -> None:
        if not await asyncio.to_thread(parts.measurer.measured, parts.policy.served.version):
            self._display.phase(f"measuring version {parts.policy.served.version}")
            await self._measure(parts)

    async def _measure(self, parts: _Parts) -> None:
        state = self._state

        def progress(done: int, total: int) -> None:
            state.eval_done = (done, total)
            state.phase = f"measuring version {state.version}: {done}/{total} replies"

        measurement = await with_engine(
            lambda: parts.measurer.measure(parts.policy.served.version, progress),
            max_restarts=self._config.engine.max_restarts,
        )
        state.eval_done = None
        state.evals.append((measurement.version, measurement.score))
        values = measurement.metrics()
        parts.metrics.log(measurement.version, values)
        rows = [[r.question, r.text, r.score] for r in measurement.replies[:16]]
        parts.metrics.table(
            "eval/replies", measurement.version, ["problem", "reply", "score"], rows
        )
        complaints = measurement.complaints
        also = f", complained about {complaints.value:.0%}" if complaints else ""
        self._display.say(
            f"measured version {measurement.version}: {measurement.metric} "
            f"{measurement.score:.3f}{also}"
        )

    async def _keep_fresh(self, parts: _Parts) -> None:
        """Keep the picture's queues fresh."""
        while True:
            self._refresh(parts)
            await asyncio.sleep(REFRESH_S)

    def _refresh(self, parts: _Parts) -> None:
        state = self._state
        state.in_flight = max(0, self._admission.outstanding - state.unused)
        state.waiting_for_judge = parts.pipeline.waiting
        state.waiting_for_disk = parts.writer.waiting
        state.restarts = parts.learner.restarts

    def _name_remainder(self) -> None:
        """The run has ended: say in the ledger which accepted samples no update used."""
        gone = consumed(self._folder)
        left = [
            sample.interaction_id
            for sample in self._folder.samples.read()
            if sample.accepted and sample.interaction_id not in gone
        ]
        with JsonlFile(self._folder.ledger, durable=True) as ledger:
            ledger.append(Remainder(sample_ids=left, created=time.time()))
