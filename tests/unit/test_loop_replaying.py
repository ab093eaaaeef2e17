"""Replay on run folders written by hand: what differs is named, what a run leaves open is not."""

from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from clawrl.cli.replaying import outcome_table
from clawrl.config.compose import compose, dump
from clawrl.errors import ModelError, UserError
from clawrl.judge.cues import CuesJudge
from clawrl.offline.equality import difference_of, ledger_difference, shortened, update_difference
from clawrl.offline.replay import Outcome, recorded_threads, replay_records, replay_run
from clawrl.records.folder import RunFolder, Stream
from clawrl.records.jsonl import JsonlFile
from clawrl.records.nouns import Interaction, Retired, Sample, Update, Verdict
from tests.factories import make_feedback, make_interaction
from tests.judges import verdict_of

SAYINGS = ["Please write it without the list.", "Thanks, perfect!", "", "ok, and 3 + 4?"]


def assemble(interaction: Interaction, verdict: Verdict) -> Sample:
    """A small stand-in: accepted where there is a score."""
    return Sample(
        interaction_id=interaction.interaction_id,
        session_id=interaction.session_id,
        accepted=bool(verdict.score),
        reason=None if verdict.score else "no_feedback_score",
        behaviour_logp=[-0.1, float("nan")] if verdict.score else [],
        score=verdict.score,
        hint=verdict.hint,
    )


async def written(
    root: Path,
    *,
    judge: Callable[[Interaction], Verdict] | None = None,
    change: Callable[[str, Verdict | Sample], Verdict | Sample | None] = lambda _name, line: line,
) -> RunFolder:
    """Four turns t0..t3, judged and made into samples; `change` has the last word on each line."""
    folder = RunFolder(root)
    streams = [folder.interactions, folder.feedback, folder.verdicts, folder.samples]
    interactions, feedback, verdicts, samples = [stream.writer(0) for stream in streams]
    for number, content in enumerate(SAYINGS):
        name = f"t{number}"
        turn = make_interaction(interaction_id=name)
        next_state = make_feedback(turn, content=content)
        verdict = judge(turn) if judge else await CuesJudge().judge(turn, next_state)
        interactions.append(turn)
        feedback.append(next_state)
        sample = assemble(turn, verdict)
        for writer, line in ((verdicts, verdict), (samples, sample)):
            changed = change(name, line)
            if changed is not None:
                writer.append(changed)
    return folder


async def replayed(folder: RunFolder) -> Outcome:
    outcome = Outcome()
    await replay_records(folder, assemble, lambda _line: None, outcome)
    return outcome


async def test_cues_read_anew_give_the_same_records(tmp_path: Path):
    outcome = await replayed(await written(tmp_path))
    assert outcome.difference is None
    assert (outcome.turns, outcome.unfinished) == (4, 0)
    assert (outcome.verdicts.equal, outcome.verdicts.of) == (4, 4)
    assert (outcome.samples.equal, outcome.samples.of) == (4, 4)


async def test_recorded_votes_are_counted_again_and_failed_calls_abstain_again(tmp_path: Path):
    votes = iter([(1, None, 1), (None, None), (-1, 1), (-1, -1, None)])
    folder = await written(
        tmp_path, judge=lambda turn: verdict_of(turn, "prm/m@v2", *next(votes), hint="Be shorter!")
    )
    scores = [verdict.score for verdict in folder.verdicts.read()]
    assert scores == [1, None, 0, -1]
    outcome = await replayed(folder)
    assert outcome.difference is None
    assert outcome.samples.equal == 4


@pytest.mark.parametrize(
    ("noun", "changes", "message"),
    [
        (Verdict, {"score": 1}, "verdict of t0, score: recorded 1, replay gives -1"),
        (Verdict, {"votes": []}, "verdict of t0, votes: recorded 0 items, replay gives 1 items"),
        (Verdict, {"judge": "cues/0"}, "verdict of t0, judge: recorded cues/0, replay gives cues/"),
        (Sample, {"score": 1}, "sample of t0, score: recorded 1, replay gives -1"),
        (Sample, {"behaviour_logp": [-0.1, 0.0]}, "behaviour_logp[1]: recorded 0.0, replay gives"),
        (Sample, {"accepted": False}, "accepted: recorded false, replay gives true"),
        (Sample, {"hint": "Pay me."}, "sample of t0, hint: recorded Pay me., replay gives Write"),
    ],
)
async def test_a_changed_record_is_named_with_its_field(
    tmp_path: Path, noun: type, changes: dict[str, object], message: str
):
    def change(name: str, line: Verdict | Sample) -> Verdict | Sample:
        if name == "t0" and isinstance(line, noun):
            return line.model_copy(update=changes)
        return line

    outcome = await replayed(await written(tmp_path, change=change))
    assert message in str(outcome.difference)
    equal = (outcome.verdicts.equal, outcome.samples.equal)
    assert equal == ((3, 4) if noun is Verdict else (4, 3))


async def test_a_changed_majority_of_recorded_votes_is_found(tmp_path: Path):
    def change(name: str, line: Verdict | Sample) -> Verdict | Sample:
        return line.model_copy(update={"score": 1}) if name == "t2" else line

    folder = await written(
        tmp_path, judge=lambda turn: verdict_of(turn, "prm/m", -1, -1, 1), change=change
    )
    difference = (await replayed(folder)).difference
    assert str(difference) == "verdict of t2, score: recorded 1, replay gives -1"


async def test_a_committees_votes_that_fit_no_members_are_named_with_the_turn(tmp_path: Path):
    name = "committee/1[1*cues/2(1+0),2*prm/m(3+0)]"
    folder = await written(tmp_path, judge=lambda turn: verdict_of(turn, name, 1, -1, -1, -1))
    assert (await replayed(folder)).difference is None
    short = await written(tmp_path / "b", judge=lambda turn: verdict_of(turn, name, 1, -1))
    assert "verdict of t0, judge" in str((await replayed(short)).difference)


async def test_cues_of_another_version_are_said_to_be_so(tmp_path: Path):
    folder = await written(tmp_path, change=lambda _name, line: line.model_copy(update=older(line)))
    outcome = await replayed(folder)
    assert "verdict of t0, judge: recorded cues/0" in str(outcome.difference)
    assert len(outcome.notes) == 1
    assert "the rules have changed" in outcome.notes[0]


def older(line: Verdict | Sample) -> dict[str, object]:
    return {"judge": "cues/0"} if isinstance(line, Verdict) else {}


async def test_the_first_difference_is_that_of_the_first_turn(tmp_path: Path):
    def change(name: str, line: Verdict | Sample) -> Verdict | Sample:
        late = name == "t3" and isinstance(line, Verdict)
        early = name == "t1" and isinstance(line, Sample)
        return line.model_copy(update={"score": 0}) if late or early else line

    assert str((await replayed(await written(tmp_path, change=change))).difference).startswith(
        "sample of t1, score"
    )


async def test_turns_that_a_stopped_run_left_open_are_no_difference(tmp_path: Path):
    def change(name: str, line: Verdict | Sample) -> Verdict | Sample | None:
        return None if name == "t3" or (name == "t2" and isinstance(line, Sample)) else line

    outcome = await replayed(await written(tmp_path, change=change))
    assert outcome.difference is None
    assert (outcome.turns, outcome.unfinished) == (4, 2)
    assert (outcome.verdicts.equal, outcome.samples.equal) == (3, 2)


async def test_a_sample_without_a_verdict_is_a_difference(tmp_path: Path):
    def change(name: str, line: Verdict | Sample) -> Verdict | Sample | None:
        return None if name == "t1" and isinstance(line, Verdict) else line

    outcome = await replayed(await written(tmp_path, change=change))
    assert "sample of t1, verdict" in str(outcome.difference)


@pytest.mark.parametrize("stream", ["verdicts", "samples"])
async def test_a_line_written_twice_is_a_difference(tmp_path: Path, stream: str):
    folder = await written(tmp_path)
    lines: Stream[Verdict] = getattr(folder, stream)
    again = next(iter(lines.read()))
    lines.writer(1).append(again)
    assert f"{stream[:-1]} of t0, line: recorded one too many" in str(
        (await replayed(folder)).difference
    )


async def test_a_missing_interaction_is_a_difference(tmp_path: Path):
    folder = await written(tmp_path)
    path = folder.interactions.path(0)
    path.write_text("".join(path.read_text().splitlines(keepends=True)[1:]))
    assert "verdict of t0, interaction" in str((await replayed(folder)).difference)


async def test_samples_without_next_states_are_taken_as_they_are(tmp_path: Path):
    folder = RunFolder(tmp_path)
    folder.samples.writer(0).append(sample("a"))
    outcome = await replayed(folder)
    assert outcome.difference is None
    assert "no next states" in outcome.notes[0]


def sample(name: str, *, accepted: bool = True) -> Sample:
    return Sample(interaction_id=name, session_id="s", accepted=accepted)


def update(version: int, *names: str, **changes: object) -> Update:
    fields: dict[str, object] = {
        "version": version,
        "parent": version - 1,
        "sample_ids": names,
        "digest_before": f"d{version - 1}",
        "digest_after": f"d{version}",
        "created": 1.0,
    }
    return Update.model_validate(fields | changes)


GOOD = [update(1, "a", "b"), update(2, "c", stale={"e": 3}), update(3, "d")]


@pytest.mark.parametrize(
    ("updates", "message"),
    [
        (GOOD, None),
        (GOOD[:2], None),
        ([GOOD[0], GOOD[2]], "update 2, line"),
        (GOOD[1:], "update 1, line"),
        ([GOOD[0], update(2, "c", digest_before="x")], "update 2, digest_before: recorded x"),
        ([GOOD[0], update(2, "c", parent=0)], "update 2, parent: recorded 0, replay gives 1"),
        ([update(1, "a", "r")], "update 1, sample_ids[1]: recorded r"),
        ([GOOD[0], update(2, "c", "a")], "update 2, sample_ids[1]: recorded a"),
        ([update(1, "a", digest_before="other")], "update 1, digest_before: recorded other"),
    ],
)
def test_a_ledger_that_does_not_follow_is_named(updates: list[Update], message: str | None):
    samples = [*map(sample, "abcde"), sample("r", accepted=False)]
    found = ledger_difference(updates, samples, base="d0")
    assert found is None if message is None else str(found).startswith(message)


def test_an_update_is_compared_without_its_time_and_speed():
    assert update_difference(GOOD[1], update(2, "c", stale={"e": 3}, created=9.0)) is None
    for changes, message in (
        ({"stale": {}}, "update 2, stale.e: recorded 3, replay gives null"),
        ({"stale": {"e": 3}, "digest_after": "x"}, "update 2, digest_after: recorded d2"),
        ({"stale": {"e": 3}, "sample_ids": ["d"]}, "update 2, sample_ids[0]: recorded c"),
    ):
        found = update_difference(GOOD[1], update(2, "c", **changes))
        assert str(found).startswith(message)


def test_an_integer_is_not_a_float_and_long_values_are_cut():
    one = Verdict(
        interaction_id="a", session_id="s", judge="j", votes=[], score=None, hint="x" * 99
    )
    other = one.model_copy(update={"score": 0})
    assert str(difference_of("v", one, other)) == "v, score: recorded null, replay gives 0"
    assert len(shortened("x" * 99)) == 60
    assert shortened("two\nlines") == "two lines"


def test_threads_are_read_from_the_learners_log(tmp_path: Path):
    folder = RunFolder(tmp_path)
    assert recorded_threads(folder) == []
    folder.logs.mkdir()
    lines = ["INFO clawrl.learner rank=0 of 1 threads=2", "rank=1 of 2 threads=9"]
    (folder.logs / "learner.log").write_text("\n".join([*lines, lines[0].replace("=2", "=4")]))
    assert recorded_threads(folder) == [2, 4]


@pytest.fixture
async def run(tmp_path: Path, tiny_tokenizer: Path) -> RunFolder:
    """A run folder with a configuration, for the whole of `replay_run`."""
    folder = await written(tmp_path / "run")
    folder.config.write_text(dump(compose([f"model.name={tiny_tokenizer}"])))
    return folder


@pytest.fixture(scope="module")
def tiny_tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model folder that can render prompts; its weights are one empty file."""
    from tests.tiny import make_byte_tokenizer

    path = tmp_path_factory.mktemp("model")
    make_byte_tokenizer().save_pretrained(path)
    (path / "config.json").write_text('{"model_type": "llama"}')
    (path / "model.safetensors").touch()
    return path


def everything(root: Path) -> dict[str, bytes]:
    return {str(p.relative_to(root)): p.read_bytes() for p in root.rglob("*") if p.is_file()}


async def test_a_replay_of_the_records_leaves_the_run_as_it_is(run: RunFolder):
    before = everything(run.root.parent)
    outcome = await replay_run(run, lambda _line: None, records=True)
    # The stand-in's samples are not those of this configuration.
    assert (outcome.verdicts.equal, outcome.samples.equal) == (4, 0)
    assert str(outcome.difference).startswith("sample of t0")
    assert everything(run.root.parent) == before


async def test_a_missing_update_is_found_without_training(run: RunFolder):
    for stream in (run.verdicts, run.samples, run.feedback):
        stream.path(0).unlink()
    run.samples.writer(0).append(sample("a"))
    with JsonlFile(run.ledger) as ledger:
        ledger.append(update(1, "a"))
        ledger.append(update(2, "b"))
        ledger.append(Retired(version=2, digest="d2", sample_ids=["b"], created=1.0))
        ledger.append(update(3, "c"))
    outcome = await replay_run(run, lambda _line: None, records=True)
    assert str(outcome.difference).startswith("update 2, line")
    assert (outcome.updates.of, outcome.trained) == (2, False)
    assert outcome_table(outcome, "run").row_count == 4


async def test_a_base_model_that_is_not_here_is_one_line(run: RunFolder):
    run.config.write_text(dump(compose([f"model.name={run.root}/nothing"])))
    with pytest.raises(ModelError, match="no such file"):
        await replay_run(run, lambda _line: None, records=False)


async def test_a_run_trained_on_gpus_is_replayed_by_its_records_alone(run: RunFolder):
    config = yaml.safe_load(run.config.read_text())
    config["resources"]["learner_gpus"] = [0]
    run.config.write_text(yaml.safe_dump(config))
    with JsonlFile(run.ledger) as ledger:
        ledger.append(update(1, "t0"))
    with pytest.raises(UserError, match="--records"):
        await replay_run(run, lambda _line: None, records=False)
    assert (await replay_run(run, lambda _line: None, records=True)).verdicts.equal == 4


async def test_a_run_in_which_nothing_happened_is_one_line(run: RunFolder):
    for stream in (run.interactions, run.verdicts, run.samples, run.feedback):
        stream.path(0).unlink()
    with pytest.raises(UserError, match="nothing is recorded"):
        await replay_run(run, lambda _line: None, records=True)
