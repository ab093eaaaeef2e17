"""The stages one after another, over a folder: what the live loop does, without the loop.

`collect` records turns, `judge` turns next states into verdicts and samples, `train --from` trains
on the samples. A run that was trained already is trained again by its ledger, batch for batch, in a
new folder beside it.
"""

from __future__ import annotations

import asyncio
import re
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from clawrl import models
from clawrl.config import compose as composing
from clawrl.config.schema import Config
from clawrl.errors import UserError
from clawrl.eval.personalization.measurement import Measurement
from clawrl.judge.votes import replay
from clawrl.loop.display import StatusLine
from clawrl.loop.learner_process import LearnerProcess
from clawrl.loop.measuring import Measurer
from clawrl.loop.metrics import MetricsLog
from clawrl.loop.parts import (
    assembler,
    build_collector,
    open_recording,
    recorded_credits,
    run_until,
)
from clawrl.loop.pipeline import Pipeline
from clawrl.loop.policy import Policy, open_judge, open_policy
from clawrl.loop.run_folder import store_config
from clawrl.records.folder import LEDGER_LINES, RunFolder, surviving
from clawrl.records.jsonl import read
from clawrl.records.nouns import Feedback, Interaction, Sample, Update, Verdict
from clawrl.records.versions import prune
from clawrl.records.writer import RecordWriter
from clawrl.samples.credit import Credit

REPLAY = "replay.jsonl"
"""In a folder made from a trained run: the ledger whose batches are to be trained again."""
_ACCESS = {"engine", "base_url", "api_key", "timeout_s", "member_timeout_s", "concurrent"}
"""Keys of a judge that say how it is reached; the others form its opinion."""
_VERSION = re.compile(r"@v\d+(?=$|[,\]])")
"""Of a judge or member that learns too: its name ends with the version of its weights."""
_GIVEN = re.compile(r"\(\d+\+\d+\)")
"""How many votes and hints a committee's member gave to one verdict."""


async def collect_turns(
    config: Config, folder: RunFolder, display: StatusLine, *, turns: int
) -> None:
    """Record turns until `turns` of them have a next state.

    Raises:
        EngineError: the engine does not start, or fails for good.
        MachineError: the port is in use, or records cannot be written.
    """
    async with open_policy(config, folder, display.phase) as policy:
        await collect_from(policy, config, folder, display, turns=turns)


async def collect_from(
    policy: Policy, config: Config, folder: RunFolder, display: StatusLine, *, turns: int
) -> None:
    """`collect_turns` from a policy that runs already. Raises as it does."""
    heard = 0
    enough = asyncio.Event()

    def on_feedback(_interaction: Interaction, _feedback: Feedback) -> None:
        nonlocal heard
        heard += 1
        display.phase(f"{heard}/{turns} next states recorded")
        if heard >= turns:
            enough.set()

    async with open_recording(
        config, folder, policy, on_feedback, then="collect again under another run=NAME"
    ) as recording:
        collector = build_collector(
            config, folder, recording.base_url, give_up=lambda _turn: None, trusted=True
        )
        await run_until(enough, policy.keeper.run(), collector.run(), recording.watch())


async def judge_run(
    config: Config, folder: RunFolder, display: StatusLine, *, fresh: bool, trusted: bool
) -> RunFolder:
    """Judge every next state of a run, in the order in which they were recorded.

    Votes that the same judge cast before are replayed, unless `fresh`; another judge is asked.

    Returns:
        The folder that holds the verdicts: the run's own, or a new one where it had some already.
    """
    recorded = {verdict.interaction_id: verdict for verdict in folder.verdicts.read()}
    same = same_judge(config, composing.load(folder.config))
    target = _judged_into(config, folder, again=bool(recorded), same=same)
    model_path = await asyncio.to_thread(models.prepare, config.model.name, progress=display.phase)
    turns = turns_of(folder)
    stepping = {step.interaction_id for one in folder.episodes.read() for step in one.steps}
    earned: dict[str, Credit] = {}
    steps: list[tuple[Interaction, Verdict]] = []
    samples: list[Sample] = []
    replayed = 0
    writer = RecordWriter(target, version=0, queue_records=max(len(turns) * 2, 1))

    def on_sample(sample: Sample) -> None:
        samples.append(sample)
        display.phase(f"{len(samples)}/{len(turns)} turns judged")

    try:
        async with open_judge(config, target, display.phase, policy=None, trusted=trusted) as judge:
            pipeline = Pipeline(
                judge=judge,
                writer=writer,
                assemble=assembler(config, model_path, earned),
                concurrent=1,  # in order: the same record gives the same files
                on_sample=on_sample,
            )
            for interaction, feedback in turns:
                known = None if fresh or not same else recorded.get(interaction.interaction_id)
                if known is not None and is_replayable(known, judge.name):
                    verdict = replay(known)
                    replayed += 1
                else:
                    verdict = await judge.judge(interaction, feedback)
                if interaction.interaction_id in stepping:  # it waits for the other attempts
                    steps.append((interaction, verdict))
                else:
                    await pipeline.settle(interaction, verdict, record_verdict=True)
            earned.update(recorded_credits(config, folder, (verdict for _, verdict in steps)))
            for interaction, verdict in steps:
                await pipeline.settle(interaction, verdict, record_verdict=True)
    finally:
        await asyncio.to_thread(writer.close)
    if replayed:
        display.say(f"{replayed} verdicts are from recorded votes; --fresh asks the judge again")
    return target


def _judged_into(config: Config, folder: RunFolder, *, again: bool, same: bool) -> RunFolder:
    """Where verdicts go: the run's own folder, or where it has some, a new one with its turns."""
    target = _sibling(config, folder, "judged") if again else folder
    if target is not folder:
        for name in ("interactions", "feedback", "episodes"):
            if (folder.root / name).is_dir():
                shutil.copytree(folder.root / name, target.root / name)
        if same and folder.ledger.exists():
            shutil.copy(folder.ledger, target.root / REPLAY)
    else:
        store_config(config, folder)
    return target


def same_judge(config: Config, stored: Config) -> bool:
    """Whether two configurations name one judge: all is equal but where and how fast it answers."""
    return _opinion(config.judge.model_dump()) == _opinion(stored.judge.model_dump())


def _opinion(settings: Any) -> Any:
    """A judge's settings, and those of its members, without how each is reached."""
    if not isinstance(settings, dict):
        return settings
    return {key: _opinion(value) for key, value in settings.items() if key not in _ACCESS}


def is_replayable(verdict: Verdict, judge: str) -> bool:
    """Whether a recorded verdict's votes stand for what the judge of this name would say.

    A language model's votes cannot be drawn again; they are recorded facts. Cues are read anew.
    """
    name = _lasting(verdict.judge)
    return name == _lasting(judge) and not name.startswith("cues/")


def _lasting(judge: str) -> str:
    """A judge's name without what changes from verdict to verdict."""
    if judge.startswith("committee/"):
        judge = _GIVEN.sub("", judge)
    return _VERSION.sub("", judge)


def turns_of(folder: RunFolder) -> list[tuple[Interaction, Feedback]]:
    """The turns that have a next state, in the order in which those were recorded."""
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

    A ledger is followed only where every sample that it names is an accepted one here. Where it is
    not (another judge, another objective), a line says so and the batches are made anew.

    Raises:
        UserError: there are no accepted samples, or fewer than one batch.
    """
    target, ledger = folder, folder.root / REPLAY
    if folder.surviving_updates():
        target = _sibling(config, folder, "retrained")
        shutil.copytree(folder.root / "samples", target.root / "samples")
        shutil.copy(folder.ledger, target.root / REPLAY)
        ledger = target.root / REPLAY
    accepted = {sample.interaction_id for sample in target.samples.read() if sample.accepted}
    again = surviving(read(ledger, LEDGER_LINES)) if ledger.exists() else []
    missing, named = missing_samples(again, accepted)
    if missing:
        display.say(
            f"{missing} of the {named} samples in the recorded ledger are not accepted here: "
            "batches are made anew, in the order of the samples"
        )
        again = []
    if target is folder:
        store_config(config, folder)
    updates = len(again) or len(accepted) // config.learner.batch_samples
    if updates == 0:
        raise UserError(
            f"{folder.root}: {len(accepted)} accepted samples, an update needs "
            f"{config.learner.batch_samples}; judge the run first or set learner.batch_samples"
        )
    model_path = await asyncio.to_thread(models.prepare, config.model.name, progress=display.phase)
    learner = LearnerProcess(
        config,
        target,
        model_path,
        until=updates,
        replay=ledger if again else None,
        bound_staleness=False,
    )
    async with asyncio.TaskGroup() as group:
        following = group.create_task(_follow(target, updates, config.weights.keep, display))
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


def missing_samples(updates: Iterable[Update], accepted: set[str]) -> tuple[int, int]:
    """How many of the samples that a ledger names are not accepted ones, and how many it names."""
    named = {name for update in updates for name in update.sample_ids}
    return len(named - accepted), len(named)


async def _follow(folder: RunFolder, updates: int, keep: int, display: StatusLine) -> None:
    """Say how many updates there are, and delete older weights as the publisher does."""
    while True:
        done = await asyncio.to_thread(folder.surviving_updates)
        display.phase(f"{len(done)}/{updates} updates")
        newest = {update.version for update in done[-1:]}
        await asyncio.to_thread(prune, folder.weights, keep=keep, protect=newest)
        await asyncio.sleep(0.5)


async def measure_once(config: Config, folder: RunFolder, display: StatusLine) -> Measurement:
    """Measure the newest weights of a folder; without any, the base model."""
    async with open_policy(config, folder, display.phase) as policy:
        measurer = Measurer(config, folder, policy, trusted=True)
        found = await measurer.measure(
            policy.served.version,
            lambda done, total: display.phase(f"{done}/{total} replies measured"),
        )
    with MetricsLog(folder.metrics, config, folder.root.name, job="eval") as metrics:
        metrics.log(found.version, found.metrics())
    return found


def _sibling(config: Config, folder: RunFolder, suffix: str) -> RunFolder:
    """A new folder beside a run, with the same configuration."""
    number = 1
    while (root := Path(f"{folder.root}-{suffix}-{number}")).exists():
        number += 1
    root.mkdir(parents=True)
    new = RunFolder(root)
    store_config(config.model_copy(update={"run": root.name}), new)
    return new
