"""The stages one after another, over a folder: what the live loop does, without the loop.

`collect` records turns, `judge` turns next states into verdicts and samples, `train --from` trains
on the samples. A run that was trained already is trained again by its ledger, batch for batch, in a
new folder beside it.
"""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

from clawrl import models
from clawrl.config import compose as composing
from clawrl.config.schema import Config
from clawrl.errors import UserError
from clawrl.eval.measurement import Measurement
from clawrl.gateway.app import create_app
from clawrl.gateway.serve import GatewayServer
from clawrl.judge.votes import replay
from clawrl.loop.display import StatusLine
from clawrl.loop.learner_process import LearnerProcess
from clawrl.loop.measuring import Measurer
from clawrl.loop.parts import assembler, build_collector
from clawrl.loop.pipeline import Pipeline
from clawrl.loop.policy import open_judge, open_policy
from clawrl.records.folder import LEDGER_LINES, RunFolder
from clawrl.records.jsonl import Reader
from clawrl.records.nouns import Feedback, Interaction, Sample, Update, Verdict
from clawrl.records.writer import RecordWriter

REPLAY = "replay.jsonl"
"""In a folder made from a trained run: the ledger whose batches are to be trained again."""


async def collect_turns(
    config: Config, folder: RunFolder, display: StatusLine, *, turns: int
) -> None:
    """Record turns until `turns` of them have a next state."""
    heard = 0
    enough = asyncio.Event()

    def on_feedback(_interaction: Interaction, _feedback: Feedback) -> None:
        nonlocal heard
        heard += 1
        display.phase(f"{heard}/{turns} next states recorded")
        if heard >= turns:
            enough.set()

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
            on_feedback=on_feedback,
        )
        try:
            async with GatewayServer(app, config.gateway.host, config.gateway.port) as gateway:
                collector = build_collector(
                    config, folder, gateway.base_url, give_up=lambda _turn: None, trusted=True
                )
                async with asyncio.TaskGroup() as group:
                    tasks = [
                        group.create_task(policy.keeper.run()),
                        group.create_task(collector.run()),
                    ]
                    await enough.wait()
                    for task in tasks:
                        task.cancel()
        finally:
            await asyncio.to_thread(writer.close)


async def judge_run(
    config: Config, folder: RunFolder, display: StatusLine, *, fresh: bool, trusted: bool
) -> RunFolder:
    """Judge every next state of a run, in the order in which they were recorded.

    Returns:
        The folder that holds the verdicts: the run's own, or a new one where it had some already.
    """
    recorded = {verdict.interaction_id: verdict for verdict in folder.verdicts.read()}
    target = folder if not recorded else _sibling(config, folder, "judged")
    if target is not folder:
        for name in ("interactions", "feedback"):
            shutil.copytree(folder.root / name, target.root / name)
        if folder.ledger.exists():
            shutil.copy(folder.ledger, target.root / REPLAY)
    model_path = await asyncio.to_thread(models.prepare, config.model.name, progress=display.phase)
    turns = _turns(folder)
    samples: list[Sample] = []
    writer = RecordWriter(target, version=0, queue_records=max(len(turns) * 2, 1))

    def on_sample(sample: Sample) -> None:
        samples.append(sample)
        display.phase(f"{len(samples)}/{len(turns)} turns judged")

    try:
        async with open_judge(config, target, display.phase, policy=None, trusted=trusted) as judge:
            pipeline = Pipeline(
                judge=judge,
                writer=writer,
                assemble=assembler(config, model_path),
                concurrent=1,  # in order: the same record gives the same files
                on_sample=on_sample,
            )
            for interaction, feedback in turns:
                known = recorded.get(interaction.interaction_id)
                if known is not None and not fresh and _is_replayable(known):
                    verdict = replay(known)
                else:
                    verdict = await judge.judge(interaction, feedback)
                await pipeline.settle(interaction, verdict, record_verdict=True)
    finally:
        await asyncio.to_thread(writer.close)
    return target


def _is_replayable(verdict: Verdict) -> bool:
    """A language model's votes cannot be drawn again; they are recorded facts."""
    return not verdict.judge.startswith("cues/")


def _turns(folder: RunFolder) -> list[tuple[Interaction, Feedback]]:
    feedback = list(folder.feedback.read())
    wanted = {f.interaction_id for f in feedback}
    interactions = {
        i.interaction_id: i for i in folder.interactions.read() if i.interaction_id in wanted
    }
    return [
        (interactions[f.interaction_id], f) for f in feedback if f.interaction_id in interactions
    ]


async def train_offline(config: Config, folder: RunFolder, display: StatusLine) -> RunFolder:
    """Train on recorded samples: batch by batch in their order, or again by a ledger.

    Raises:
        UserError: there are no accepted samples, or fewer than one batch.
    """
    target, replayed = folder, folder.root / REPLAY
    if folder.surviving_updates():
        target = _sibling(config, folder, "retrained")
        shutil.copytree(folder.root / "samples", target.root / "samples")
        shutil.copy(folder.ledger, target.root / REPLAY)
        replayed = target.root / REPLAY
    accepted = sum(sample.accepted for sample in target.samples.read())
    if replayed.exists():
        lines = Reader(replayed, LEDGER_LINES).poll()
        updates = len({line.version for line in lines if isinstance(line, Update)})
    else:
        updates = accepted // config.learner.batch_samples
    if updates == 0:
        raise UserError(
            f"{folder.root}: {accepted} accepted samples, an update needs "
            f"{config.learner.batch_samples}; judge the run first or set learner.batch_samples"
        )
    model_path = await asyncio.to_thread(models.prepare, config.model.name, progress=display.phase)
    learner = LearnerProcess(
        config,
        target,
        model_path,
        until=updates,
        replay=replayed if replayed.exists() else None,
        bound_staleness=False,
    )
    async with asyncio.TaskGroup() as group:
        following = group.create_task(_show_updates(target, updates, display))
        try:
            await learner.run()
        finally:
            await learner.stop()
            following.cancel()
    newest = target.surviving_updates()[-1]
    display.say(
        f"version {newest.version} after {updates} updates, weights {newest.digest_after[:12]}, "
        f"in {target.root}"
    )
    return target


async def _show_updates(folder: RunFolder, updates: int, display: StatusLine) -> None:
    while True:
        done = len(await asyncio.to_thread(folder.surviving_updates))
        display.phase(f"{done}/{updates} updates")
        await asyncio.sleep(0.5)


async def measure_once(config: Config, folder: RunFolder, display: StatusLine) -> Measurement:
    """Measure the newest weights of a folder; without any, the base model."""
    async with open_policy(config, folder, display.phase) as policy:
        measurer = Measurer(config, folder, policy, trusted=True)
        return await measurer.measure(
            policy.served.version,
            lambda done, total: display.phase(f"{done}/{total} replies measured"),
        )


def _sibling(config: Config, folder: RunFolder, suffix: str) -> RunFolder:
    """A new folder beside a run, with the same configuration."""
    number = 1
    while (root := Path(f"{folder.root}-{suffix}-{number}")).exists():
        number += 1
    root.mkdir(parents=True)
    new = RunFolder(root)
    new.config.write_text(composing.dump(config.model_copy(update={"run": root.name})))
    return new
