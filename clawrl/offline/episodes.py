"""`clawrl collect` where the recipe has environments: episodes are made and recorded."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from clawrl.collect.episodes import EpisodeCollector
from clawrl.config.schema import Config
from clawrl.engine.scripted import ScriptedEngine
from clawrl.errors import ConfigError
from clawrl.loop.environment_table import EnvironmentTable
from clawrl.loop.parts import Recording, open_episodes, open_recording, record_engine, run_until
from clawrl.loop.policy import open_policy
from clawrl.records.folder import RunFolder
from clawrl.records.nouns import Feedback, Interaction
from clawrl.serving.policy import ServedPolicy

_THEN = "collect again under another run=NAME"


async def collect_episodes(
    config: Config, folder: RunFolder, table: EnvironmentTable, *, episodes: int, scripted: bool
) -> None:
    """Make `episodes` attempts and record them.

    Args:
        config: with a section `environment`.
        folder: where they are recorded.
        table: shows what runs.
        episodes: to make in all.
        scripted: `environment.script` replies in place of a model.

    Raises:
        ConfigError: the recipe has no environments.
        EngineError: the engine does not start, or fails for good.
        MachineError: the port is in use, or records cannot be written.
    """
    if config.environment is None:
        raise ConfigError("environment", "this run has none; try recipe=terminal")
    if scripted:
        engine = ScriptedEngine(config.environment.script)
        served = ServedPolicy(0, "scripted")
        async with record_engine(
            config, folder, engine, served, _ignored, model_name="policy", then=_THEN
        ) as recording:
            await _make(config, folder, recording, table, episodes)
        return
    async with (
        open_policy(config, folder, table.phase) as policy,
        open_recording(config, folder, policy, _ignored, then=_THEN) as recording,
    ):
        await _make(config, folder, recording, table, episodes, policy.keeper.run())


async def _make(
    config: Config,
    folder: RunFolder,
    recording: Recording,
    table: EnvironmentTable,
    episodes: int,
    *beside: Coroutine[Any, Any, None],
) -> None:
    async with open_episodes(
        config,
        folder,
        recording,
        give_up=lambda _turn: None,
        trusted=True,
        episodes=episodes,
    ) as collector:
        enough = asyncio.Event()
        table.watch(collector, episodes)
        await run_until(enough, _to_the_end(collector, enough), recording.watch(), *beside)
        table.say(summary(collector, table.elapsed_s))


async def _to_the_end(collector: EpisodeCollector, enough: asyncio.Event) -> None:
    await collector.run()
    enough.set()


def summary(collector: EpisodeCollector, seconds: float) -> str:
    """One line: how many, how they ended, how fast."""
    stats = collector.stats
    solved = f"{stats.solved / stats.graded:.0%} solved" if stats.graded else "none graded"
    failures = ((stats.ungraded, "not graded"), (stats.lost, "lost"), (stats.failed, "failed"))
    said = "".join(f", {number} {name}" for number, name in failures if number)
    rates = f"{stats.begun / seconds:.1f} episodes/s, {stats.steps / seconds:.1f} steps/s"
    return f"{stats.begun} episodes, {solved}{said}; {stats.steps} steps; {rates}"


def _ignored(_interaction: Interaction, _feedback: Feedback) -> None:
    """Nothing is judged here."""
