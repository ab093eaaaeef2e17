import asyncio
import errno
import json
from pathlib import Path

import pytest

from clawrl.errors import MachineError, WeightsError
from clawrl.loop.backlog import backlog, consumed
from clawrl.loop.pipeline import Pipeline
from clawrl.loop.state import RunState
from clawrl.protocols import Judge, WeightSink
from clawrl.records.folder import RunFolder
from clawrl.records.jsonl import JsonlFile
from clawrl.records.nouns import Feedback, Interaction, Sample, Update, Verdict, Vote
from clawrl.records.writer import RecordWriter
from clawrl.serving.policy import ServedPolicy
from clawrl.weights.publisher import Publisher
from tests.factories import make_feedback, make_interaction
from tests.stub_engine import StubEngine


class Minus(Judge):
    """Everything is -1."""

    name = "minus/1"

    async def judge(self, interaction: Interaction, feedback: Feedback) -> Verdict:
        return verdict_of(interaction)


def verdict_of(interaction: Interaction) -> Verdict:
    return Verdict(
        interaction_id=interaction.interaction_id,
        session_id=interaction.session_id,
        judge="minus/1",
        votes=[Vote(score=-1)],
        score=-1,
    )


def sample_of(interaction: Interaction, verdict: Verdict) -> Sample:
    return Sample(
        interaction_id=verdict.interaction_id,
        session_id=verdict.session_id,
        accepted=True,
        score=verdict.score,
    )


def update_of(version: int, sample_ids: list[str], **more: object) -> Update:
    return Update.model_validate(
        {
            "version": version,
            "parent": version - 1,
            "sample_ids": sample_ids,
            "digest_before": f"d{version - 1}",
            "digest_after": f"d{version}",
            "created": 0.0,
            **more,
        }
    )


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return RunFolder(tmp_path)


def pipeline(writer: RecordWriter, done: list[Sample]) -> Pipeline:
    return Pipeline(
        judge=Minus(), writer=writer, assemble=sample_of, concurrent=2, on_sample=done.append
    )


async def test_every_next_state_becomes_one_verdict_and_one_sample(folder: RunFolder):
    writer = RecordWriter(folder, version=0, queue_records=100)
    done: list[Sample] = []
    loop = pipeline(writer, done)
    for number in range(5):
        turn = make_interaction(interaction_id=f"t{number}")
        loop.submit(turn, make_feedback(interaction_id=f"t{number}"))
    worker = asyncio.create_task(loop.run())
    await loop.drain()
    worker.cancel()
    await asyncio.to_thread(writer.close)
    names = [f"t{number}" for number in range(5)]
    assert sorted(sample.interaction_id for sample in done) == names
    assert sorted(v.interaction_id for v in folder.verdicts.read()) == names
    assert sorted(s.interaction_id for s in folder.samples.read()) == names


async def test_a_full_disk_ends_the_pipeline_with_what_to_do(folder: RunFolder):
    writer = RecordWriter(folder, version=0, queue_records=100)
    writer.failure = OSError(errno.ENOSPC, "No space left on device")
    loop = pipeline(writer, [])
    with pytest.raises(MachineError, match="free some space"):
        await loop.settle(make_interaction(), verdict_of(make_interaction()), record_verdict=True)
    await asyncio.to_thread(writer.close)


def test_the_backlog_is_what_was_heard_but_not_finished(folder: RunFolder):
    turns = [make_interaction(interaction_id=name) for name in "abcd"]
    interactions, feedback = folder.interactions.writer(0), folder.feedback.writer(0)
    verdicts, samples = folder.verdicts.writer(0), folder.samples.writer(0)
    for turn in turns:
        interactions.append(turn)
    for turn in turns[:3]:
        feedback.append(make_feedback(interaction_id=turn.interaction_id))
    for turn in turns[:2]:
        verdicts.append(verdict_of(turn))
    samples.append(sample_of(turns[0], verdict_of(turns[0])))
    left = backlog(folder)
    assert left.unused == ["a"]
    assert [turn.interaction_id for turn, _ in left.unassembled] == ["b"]
    assert [turn.interaction_id for turn, _ in left.unjudged] == ["c"]


def test_used_and_stale_samples_are_no_backlog(folder: RunFolder):
    with JsonlFile(folder.ledger) as ledger:
        ledger.append(update_of(1, ["a", "b"], stale={"c": 3}))
    assert consumed(folder) == {"a", "b", "c"}


class Sink(WeightSink):
    def __init__(self) -> None:
        self.taken: list[int] = []

    async def update_weights(self, path: Path, version: int) -> float:
        self.taken.append(version)
        return 0.1


class Scorer(StubEngine):
    """Scores every token -1."""

    async def score(self, prompt_ids: list[int], reply_ids: list[int]) -> list[float]:
        return [-1.0] * len(reply_ids)


def publisher(folder: RunFolder, served: ServedPolicy, *, probe: float | None) -> Publisher:
    place = folder.weights / "v000001"
    place.mkdir(parents=True)
    (place / "model.safetensors").write_bytes(b"")
    if probe is not None:
        probes = [{"prompt_ids": [1], "reply_ids": [2, 3], "logp": [probe, probe]}]
        (place / "probe.json").write_text(json.dumps(probes))
    return Publisher(
        weights=folder.weights,
        sink=Sink(),
        engine=Scorer(),
        served=served,
        keep=3,
        tolerance=0.02,
        on_served=lambda _version: None,
    )


async def test_publishing_moves_what_is_served(folder: RunFolder):
    served = ServedPolicy(0, "d0")
    published = await publisher(folder, served, probe=-1.001).publish(update_of(1, ["a"]))
    assert (served.version, served.digest) == (1, "d1")
    assert published.probe_gap == pytest.approx(0.001)


async def test_an_engine_that_serves_other_weights_stops_the_run(folder: RunFolder):
    with pytest.raises(WeightsError, match="probe_tolerance"):
        await publisher(folder, ServedPolicy(0, "d0"), probe=-1.5).publish(update_of(1, ["a"]))


@pytest.mark.parametrize(
    ("version", "digest", "news"),
    [(2, "d2", True), (1, "d1", False), (1, "x", True), (0, "d0", False)],
)
def test_news_is_a_later_version_or_this_one_made_anew(
    folder: RunFolder, version: int, digest: str, news: bool
):
    update = update_of(version, ["a"], digest_after=digest)
    assert publisher(folder, ServedPolicy(1, "d1"), probe=None).is_news(update) is news


def test_rates_are_of_turns_that_have_a_verdict():
    state = RunState(name="n", folder="f", target=1, batch_samples=4)
    about = {"session_id": "s", "accepted": False}
    state.count(Sample(interaction_id="a", score=-1, hint="shorter, please", **about))
    state.count(Sample(interaction_id="b", reason="untrainable: x", **about))
    assert (state.score_mean, state.hint_rate) == (-1, 0.5)
    assert state.rejected == {"untrainable": 1, "unknown": 1}
