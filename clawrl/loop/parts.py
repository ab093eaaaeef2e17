"""Parts that several commands build alike from a configuration."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clawrl.collect.collector import Collector
from clawrl.collect.episodes import EpisodeCollector
from clawrl.config.build import build
from clawrl.config.schema import Config
from clawrl.environments.pool import LocalPool
from clawrl.errors import ConfigError, first_error
from clawrl.gateway.app import create_app
from clawrl.gateway.serve import GatewayServer
from clawrl.loop.pipeline import RESUME, disk_error
from clawrl.loop.policy import Policy
from clawrl.problems.sets import training_problems
from clawrl.protocols import Engine, Persona, TaskSet
from clawrl.records.folder import RunFolder
from clawrl.records.nouns import Feedback, Interaction, Sample, Verdict
from clawrl.records.writer import RecordWriter
from clawrl.samples.assemble import assemble
from clawrl.samples.credit import Credit, step_credits
from clawrl.samples.render import PromptRenderer
from clawrl.serving.policy import ServedPolicy

WATCH_S = 0.25
_SEEDS_APART = 1_000_003


@dataclass(frozen=True, slots=True)
class Recording:
    """A gateway that listens, and the writer that keeps what it serves."""

    base_url: str
    """Where this machine reaches it, without `/v1`."""
    writer: RecordWriter
    then: str
    """What to do once a disk that failed is mended."""

    async def watch(self) -> None:
        """Look at the writer for ever. Raises MachineError when records cannot be written."""
        await watch_writer(self.writer, then=self.then)


@asynccontextmanager
async def open_recording(
    config: Config,
    folder: RunFolder,
    policy: Policy,
    on_feedback: Callable[[Interaction, Feedback], None],
    *,
    then: str,
) -> AsyncGenerator[Recording]:
    """`record_engine` of a policy that runs. Raises as it does."""
    async with record_engine(
        config,
        folder,
        policy.engine,
        policy.served,
        on_feedback,
        model_name=policy.model_name,
        then=then,
    ) as recording:
        yield recording


@asynccontextmanager
async def record_engine(
    config: Config,
    folder: RunFolder,
    engine: Engine,
    served: ServedPolicy,
    on_feedback: Callable[[Interaction, Feedback], None],
    *,
    model_name: str,
    then: str,
) -> AsyncGenerator[Recording]:
    """Serve an engine through the gateway and record it; at the end everything is on the disk.

    Args:
        config: of the run.
        folder: where it is recorded.
        engine: what replies.
        served: the version of its weights.
        on_feedback: told each next state, in the event loop.
        model_name: what clients call it.
        then: what to do once a disk that failed is mended.

    Raises:
        MachineError: the port is in use, the host is none of this machine's, or, at the end,
            something could not be written.
    """
    writer = RecordWriter(
        folder, version=served.version, queue_records=config.gateway.queue_records
    )
    app = create_app(
        engine=engine,
        served=served,
        writer=writer,
        config=config.gateway,
        model_name=model_name,
        template_kwargs=config.model.template_kwargs,
        temperature=config.sampling.temperature,
        on_feedback=on_feedback,
        earlier=await asyncio.to_thread(earlier_turns, folder, config.gateway.session_idle_s),
    )
    try:
        async with GatewayServer(app, config.gateway.host, config.gateway.port) as gateway:
            yield Recording(gateway.base_url, writer, then)
    finally:
        await asyncio.to_thread(writer.close)
    if writer.failure is not None:
        raise disk_error(writer.failure, then=then)


def decoder(model_path: Path) -> Callable[[int], str]:
    """What one token id reads as."""
    from transformers import AutoTokenizer

    tokenizer: Any = AutoTokenizer.from_pretrained(str(model_path))

    def decode(token: int) -> str:
        return str(tokenizer.decode([token]))

    return decode


def earlier_turns(folder: RunFolder, idle_s: float) -> list[tuple[Interaction, bool]]:
    """The recorded turns whose sessions may go on, with whether each still waits.

    Args:
        folder: of a run that is served again.
        idle_s: older turns are left out.

    Raises:
        RecordError: a line is no record.
    """
    answered = {feedback.interaction_id for feedback in folder.feedback.read()}
    since = time.time() - idle_s
    return [
        (turn, turn.turn_type == "main" and turn.interaction_id not in answered)
        for turn in folder.interactions.read()
        if turn.created >= since and turn.untrainable != "session_done"
    ]


async def watch_writer(writer: RecordWriter, *, then: str = RESUME) -> None:
    """Look at the writer for ever. Raises MachineError when records cannot be written.

    `then` is what to do once the disk is mended.
    """
    while True:
        if writer.failure is not None:
            raise disk_error(writer.failure, then=then)
        await asyncio.sleep(WATCH_S)


async def run_until(event: asyncio.Event, *loops: Coroutine[Any, Any, None]) -> None:
    """Run loops side by side until `event` is set. Raises the first error of one of them."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(loop) for loop in loops]
            await event.wait()
            for task in tasks:
                task.cancel()
    except BaseExceptionGroup as errors:
        raise first_error(errors) from None


def recorded_credits(
    config: Config, folder: RunFolder, verdicts: Iterable[Verdict]
) -> dict[str, Credit]:
    """What the steps of a run's episodes earned; empty where it has none."""
    episodes = list(folder.episodes.read())
    if not episodes or config.environment is None:
        return {}
    return step_credits(
        episodes,
        {verdict.interaction_id: verdict for verdict in verdicts},
        process=config.environment.process,
        outcome=config.environment.outcome,
    )


def assembler(
    config: Config, model_path: Path, earned: Mapping[str, Credit] | None = None
) -> Callable[[Interaction, Verdict], Sample]:
    """What turns a verdict into a sample under this configuration.

    Args:
        config: of the run.
        model_path: the base model, for its chat template.
        earned: by interaction, what steps of episodes earned; looked up when a sample is made.
    """
    renderer = PromptRenderer(model_path)

    def one(interaction: Interaction, verdict: Verdict) -> Sample:
        return assemble(
            interaction,
            verdict,
            objective=config.objective,
            renderer=renderer,
            context_tokens=config.model.context_tokens,
            credit=(earned or {}).get(interaction.interaction_id),
        )

    return one


@asynccontextmanager
async def open_episodes(
    config: Config,
    folder: RunFolder,
    recording: Recording,
    *,
    give_up: Callable[[str], None],
    trusted: bool,
    episodes: int | None,
) -> AsyncGenerator[EpisodeCollector]:
    """The configured environments' pool and what drives it; at the end all are closed.

    Args:
        config: its section `environment` must be there.
        folder: the run, whose earlier episodes are counted: a resumed one makes others.
        recording: the gateway and the writer of what comes out.
        give_up: is told the id of a turn that will never get a next state.
        trusted: whether foreign `_target_`s are honoured.
        episodes: to make in all; None: for ever.

    Raises:
        ConfigError: there are no environments in the configuration, or no such tasks.
    """
    section = config.environment
    if section is None:
        raise ConfigError("environment", "this run has none; try environment=terminal")
    tasks = build(section.tasks, TaskSet, key="environment.tasks", trusted=trusted)
    earlier = [episode.group for episode in folder.episodes.read()]
    async with LocalPool(tasks, parallel=section.parallel, tools=section.tools) as pool:
        yield EpisodeCollector(
            pool=pool,
            task_ids=tasks.ids(),
            attempts=section.attempts,
            parallel=section.parallel,
            max_steps=section.max_steps,
            base_url=f"{recording.base_url}/v1",
            api_key=config.gateway.api_key or "local",
            model_name="policy",
            sampling=config.sampling,
            give_up=give_up,
            record=recording.writer.put,
            seed=config.seed * _SEEDS_APART + len(earlier),
            first_group=max(earlier, default=-1) + 1,
            episodes=episodes,
        )


def build_collector(
    config: Config,
    folder: RunFolder,
    base_url: str,
    *,
    give_up: Callable[[str], None],
    trusted: bool,
) -> Collector:
    """The persona's sessions. A resumed run goes on with other sessions than it began with."""
    begun = sum(1 for _ in folder.interactions.read())
    return Collector(
        persona=build(config.persona, Persona, key="persona", trusted=trusted),
        problems=training_problems(
            config.data.model_copy(update={"seed": config.data.seed + begun})
        ),
        base_url=f"{base_url}/v1",
        api_key=config.gateway.api_key or "local",
        model_name="policy",
        sampling=config.sampling,
        max_turns=config.max_turns,
        concurrent_sessions=config.loop.concurrent_sessions,
        give_up=give_up,
        seed=config.seed * _SEEDS_APART + begun,
    )
