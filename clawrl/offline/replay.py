"""Shows that a run's records make the run again: verdicts, samples and updates, bit for bit.

Cues are read anew, the votes of other judges are counted again, samples are assembled again, and
the ledger's batches are trained again on the CPU. Invariant: nothing in the run folder is written;
no class that the run folder names is loaded.
"""

from __future__ import annotations

import asyncio
import re
import shutil
import tempfile
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from clawrl import models
from clawrl.config import compose as composing
from clawrl.config.schema import Config
from clawrl.errors import JudgeError, LearnerError, UserError, first_error
from clawrl.judge.cues import CuesJudge
from clawrl.judge.votes import replay
from clawrl.loop.learner_process import LearnerProcess
from clawrl.loop.parts import assembler, recorded_credits
from clawrl.offline.equality import Difference, difference_of, ledger_difference, update_difference
from clawrl.offline.stages import REPLAY
from clawrl.records.folder import LEDGER_LINES, RunFolder
from clawrl.records.jsonl import JsonlFile, Reader
from clawrl.records.nouns import Feedback, Interaction, Sample, Update, Verdict
from clawrl.records.versions import prune

R = TypeVar("R", Verdict, Sample)
Progress = Callable[[str], None]
Assemble = Callable[[Interaction, Verdict], Sample]

POLL_S = 0.2
_THREADS = re.compile(r"rank=0 of \d+ threads=(\d+)")


@dataclass(slots=True)
class Tally:
    """How many of the records of one kind came out equal."""

    equal: int = 0
    of: int = 0


@dataclass(slots=True)
class Outcome:
    """What a replay found."""

    turns: int = 0
    """Next states that are recorded."""
    unfinished: int = 0
    """Turns that the run was stopped before judging or before making into a sample."""
    verdicts: Tally = field(default_factory=Tally)
    samples: Tally = field(default_factory=Tally)
    updates: Tally = field(default_factory=Tally)
    trained: bool = False
    """Whether updates were trained again; else only their order in the ledger was checked."""
    notes: list[str] = field(default_factory=list)
    difference: Difference | None = None
    """The first one."""

    def note(self, line: str) -> None:
        """Say something once."""
        if line not in self.notes:
            self.notes.append(line)

    def differs(self, difference: Difference | None) -> bool:
        """Take in a comparison; returns whether it found a difference."""
        self.difference = self.difference or difference
        return difference is not None


async def replay_run(folder: RunFolder, progress: Progress, *, records: bool) -> Outcome:
    """Make a run again from its records and compare.

    Args:
        folder: the run; it stays as it is.
        progress: is told in one line what happens now.
        records: verdicts and samples only; nothing is trained.

    Raises:
        UserError: nothing is recorded, or the updates were made on GPUs.
        ModelError: the base model is not on this machine.
        RecordError: a line is not a record.
        LearnerError: the learner fails.
    """
    config = composing.load(folder.config)
    updates = folder.surviving_updates()
    if updates and config.resources.learner_gpus and not records:
        raise UserError(
            f"{folder.root}: trained on GPUs, whose sums are not the same each time; "
            "--records checks its verdicts and samples"
        )
    model_path = await asyncio.to_thread(models.resolve, config.model.name, progress=progress)
    outcome = Outcome()
    earned = recorded_credits(config, folder, folder.verdicts.read())
    assemble = await asyncio.to_thread(assembler, config, model_path, earned)
    samples = await replay_records(folder, assemble, progress, outcome)
    if not samples and not updates and not outcome.turns:
        raise UserError(f"{folder.root}: nothing is recorded there yet")
    base = None
    if updates and not records:
        base = await asyncio.to_thread(models.base_digest, model_path)
    outcome.differs(ledger_difference(updates, samples, base=base))
    outcome.updates.of = len(updates)
    if not updates or records or outcome.difference is not None:
        return outcome
    outcome.trained = True
    config = _repeating(config, folder, updates, outcome)
    async with _scratch(folder, config, samples, updates) as target:
        await _replay_updates(config, target, model_path, updates, progress, outcome)
    if outcome.difference is not None:
        outcome.note(
            "the same records give other weights with another torch, processor or number of "
            "threads, and where the run was resumed with other settings than it began with"
        )
    return outcome


async def replay_records(
    folder: RunFolder, assemble: Assemble, progress: Progress, outcome: Outcome
) -> list[Sample]:
    """Make every verdict and sample again and compare them, in the order of the next states.

    Returns:
        The run's samples, in the order in which they were written.
    """
    samples = list(folder.samples.read())
    feedback = list(folder.feedback.read())
    outcome.turns, outcome.samples.of = len(feedback), len(samples)
    if not feedback:
        outcome.samples.of = 0
        if samples:
            outcome.note(
                f"no next states are recorded here: its {len(samples)} samples are taken as they "
                "are; replay the run that they were made from, too"
            )
        return samples
    verdicts = list(folder.verdicts.read())
    outcome.verdicts.of = len(verdicts)
    turns = _Turns(folder, verdicts, samples)
    judge = CuesJudge()
    for number, next_state in enumerate(feedback, start=1):
        progress(f"{number}/{len(feedback)} turns judged again")
        await _replay_turn(turns, next_state, judge, assemble, outcome)
    for difference in turns.left_over():
        outcome.differs(difference)
    return samples


class _Turns:
    """A run's interactions, verdicts and samples by interaction; each is taken once."""

    def __init__(
        self, folder: RunFolder, verdicts: Iterable[Verdict], samples: Iterable[Sample]
    ) -> None:
        self.interactions = {i.interaction_id: i for i in folder.interactions.read()}
        self.verdicts: dict[str, list[Verdict]] = {}
        self.samples: dict[str, list[Sample]] = {}
        for verdict in verdicts:
            self.verdicts.setdefault(verdict.interaction_id, []).append(verdict)
        for sample in samples:
            self.samples.setdefault(sample.interaction_id, []).append(sample)

    def left_over(self) -> list[Difference]:
        """Verdicts and samples of no next state, or of more than one line."""
        kinds = (("verdict", self.verdicts), ("sample", self.samples))
        return [
            Difference(f"{kind} of {name}", "line", "one too many", "none")
            for kind, held in kinds
            for name, lines in held.items()
            for _ in lines
        ]


def _take(held: dict[str, list[R]], name: str) -> R | None:
    """The record of a turn, or None. A second line stays and is left over."""
    lines = held.get(name)
    return lines.pop(0) if lines else None


async def _replay_turn(
    turns: _Turns, feedback: Feedback, judge: CuesJudge, assemble: Assemble, outcome: Outcome
) -> None:
    name = feedback.interaction_id
    verdict = _take(turns.verdicts, name)
    sample = _take(turns.samples, name)
    interaction = turns.interactions.get(name)
    if verdict is None or sample is None:
        outcome.unfinished += sample is None
        if sample is not None:
            outcome.differs(Difference(f"sample of {name}", "verdict", "none", "one"))
        if verdict is None:
            return
    if interaction is None:
        outcome.differs(Difference(f"verdict of {name}", "interaction", "none", "one"))
        return
    try:
        cues = verdict.judge.startswith("cues/")
        verdict_again = await judge.judge(interaction, feedback) if cues else replay(verdict)
    except JudgeError as error:  # a committee's votes do not fit its members
        outcome.differs(Difference(f"verdict of {name}", "judge", verdict.judge, str(error)))
        return
    if cues and verdict.judge != judge.name:
        outcome.note(
            f"judged by {verdict.judge}, this clawrl has {judge.name}: the rules have changed since"
        )
    found = difference_of(f"verdict of {name}", verdict, verdict_again, apart_from={"cost"})
    outcome.verdicts.equal += not outcome.differs(found)
    if sample is not None:
        again = await asyncio.to_thread(assemble, interaction, verdict_again)
        found = difference_of(f"sample of {name}", sample, again)
        outcome.samples.equal += not outcome.differs(found)


async def _replay_updates(
    config: Config,
    target: RunFolder,
    model_path: Path,
    updates: Sequence[Update],
    progress: Progress,
    outcome: Outcome,
) -> None:
    """Train the ledger's batches again, comparing each update as it comes."""
    learner = LearnerProcess(
        config,
        target,
        model_path,
        until=len(updates),
        replay=target.root / REPLAY,
        bound_staleness=False,
    )
    ended = asyncio.Event()

    async def run() -> None:
        try:
            await learner.run()
        finally:
            ended.set()

    async def compare() -> None:
        reader = Reader(target.ledger, LEDGER_LINES)
        equal: set[int] = set()  # a learner that crashed announces some versions twice
        last = False
        while not last:
            last = ended.is_set()
            for line in await asyncio.to_thread(reader.poll):
                if isinstance(line, Update):
                    if outcome.differs(update_difference(updates[line.version - 1], line)):
                        return
                    equal.add(line.version)
                    outcome.updates.equal = len(equal)
                    await asyncio.to_thread(prune, target.weights, keep=1, protect={line.version})
            progress(f"{len(equal)}/{len(updates)} updates trained again")
            await asyncio.sleep(POLL_S)

    try:
        async with asyncio.TaskGroup() as group:
            running = group.create_task(run())
            await compare()
            running.cancel()
    except BaseExceptionGroup as errors:
        raise first_error(errors) from None
    finally:
        await learner.stop(now=True)


def recorded_threads(folder: RunFolder) -> list[int]:
    """How many threads the run's learners used, oldest first, as their log says."""
    log = folder.logs / "learner.log"
    if not log.exists():
        return []
    return [int(n) for n in _THREADS.findall(log.read_text(encoding="utf-8", errors="replace"))]


def _repeating(
    config: Config, folder: RunFolder, updates: Sequence[Update], outcome: Outcome
) -> Config:
    """The run's configuration with the threads that it was trained with, as far as they are known.

    Checkpoints change no bit; the one at the end is enough.
    """
    learner = config.learner.model_copy(update={"checkpoint_every": len(updates)})
    used = list(dict.fromkeys(recorded_threads(folder)))
    if not used:
        outcome.note("the run does not say with how many threads it was trained: bits depend on it")
        return config.model_copy(update={"learner": learner})
    if len(used) > 1:
        outcome.note(
            f"the run was trained with {' and then '.join(map(str, used))} threads, this replay "
            f"with {used[-1]}: bits depend on it"
        )
    resources = config.resources.model_copy(update={"learner_threads": used[-1]})
    return config.model_copy(update={"learner": learner, "resources": resources})


@asynccontextmanager
async def _scratch(
    folder: RunFolder, config: Config, samples: Iterable[Sample], updates: Iterable[Update]
) -> AsyncGenerator[RunFolder]:
    """A folder to train in, beside the run, gone at the end; a failed learner's log stays."""
    target = await asyncio.to_thread(_fill_scratch, folder, config, samples, updates)
    keep = False
    try:
        yield target
    except LearnerError:
        keep = True
        raise
    finally:
        if not keep:
            await asyncio.to_thread(shutil.rmtree, target.root, ignore_errors=True)


def _fill_scratch(
    folder: RunFolder, config: Config, samples: Iterable[Sample], updates: Iterable[Update]
) -> RunFolder:
    prefix = f"{folder.root.name}-replay-"
    try:  # a disk that held the run once will hold it again
        root = tempfile.mkdtemp(prefix=prefix, dir=folder.root.parent)
    except OSError:
        root = tempfile.mkdtemp(prefix=prefix)
    target = RunFolder(Path(root))
    target.config.write_text(composing.dump(config))
    writer = target.samples.writer(0)
    for sample in samples:
        writer.append(sample)
    writer.close()
    with JsonlFile(target.root / REPLAY) as ledger:
        for update in updates:
            ledger.append(update)
    return target
