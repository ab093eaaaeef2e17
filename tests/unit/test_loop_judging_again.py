"""A recorded run judged again: whose votes are replayed, and what the new folder says of itself."""

from pathlib import Path

import pytest
from rich.console import Console

from clawrl.config.compose import compose, dump, load
from clawrl.config.schema import Config
from clawrl.loop.display import StatusLine
from clawrl.offline.stages import REPLAY, is_replayable, judge_run, missing_samples, same_judge
from clawrl.records.folder import RunFolder
from clawrl.records.jsonl import JsonlFile
from clawrl.records.nouns import Update, Verdict
from tests.factories import make_feedback, make_interaction
from tests.judges import verdict_of
from tests.tiny import make_byte_tokenizer

JUDGE = "judge._target_=tests.judges.ScoringJudge"
TURNS = 3


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Enough of a model to render prompts."""
    path = tmp_path_factory.mktemp("model")
    make_byte_tokenizer().save_pretrained(path)
    (path / "config.json").write_text('{"model_type": "llama"}')
    (path / "model.safetensors").touch()
    return path


@pytest.fixture
def collected(tmp_path: Path, model: Path) -> RunFolder:
    """A run that was recorded and not judged."""
    folder = RunFolder(tmp_path / "run")
    interactions, feedback = folder.interactions.writer(0), folder.feedback.writer(0)
    for number in range(TURNS):
        turn = make_interaction(interaction_id=f"t{number}")
        interactions.append(turn)
        feedback.append(make_feedback(turn))
    folder.config.write_text(dump(compose([f"model.name={model}", "objective=binary"])))
    return RunFolder.open(folder.root)


@pytest.fixture
def judged(collected: RunFolder) -> RunFolder:
    """The same, judged -1 throughout by `prm/a`, and with one update."""
    set_config(collected, JUDGE, "judge.model=a", "judge.score=-1")
    for turn in collected.interactions.read():
        collected.verdicts.writer(0).append(verdict_of(turn, "prm/a@v1", -1, None, -1))
    with JsonlFile(collected.ledger) as ledger:
        ledger.append(update("t0", "t1"))
    return collected


def update(*names: str) -> Update:
    fields = {"version": 1, "parent": 0, "sample_ids": names, "created": 0.0}
    return Update.model_validate(fields | {"digest_before": "d0", "digest_after": "d1"})


def set_config(folder: RunFolder, *overrides: str) -> Config:
    config = load(folder.config, overrides)
    folder.config.write_text(dump(config))
    return config


async def judge(folder: RunFolder, *overrides: str, fresh: bool = False) -> list[Verdict]:
    display = StatusLine(Console(quiet=True))
    config = load(folder.config, overrides)
    target = await judge_run(config, folder, display, fresh=fresh, trusted=True)
    assert [s.interaction_id for s in target.samples.read()] == [f"t{n}" for n in range(TURNS)]
    return list(target.verdicts.read())


def beside(folder: RunFolder) -> RunFolder:
    return RunFolder.open(Path(f"{folder.root}-judged-1"))


async def test_a_run_judged_for_the_first_time_says_by_whom(collected: RunFolder):
    verdicts = await judge(collected, JUDGE, "judge.score=-1")
    assert [verdict.score for verdict in verdicts] == [-1] * TURNS
    assert load(collected.config).judge.target == "tests.judges.ScoringJudge"
    assert list(collected.verdicts.read()) == verdicts


async def test_the_same_judge_is_not_asked_again(judged: RunFolder):
    verdicts = await judge(judged)
    assert verdicts == list(judged.verdicts.read())
    assert all(len(verdict.votes) == 3 for verdict in verdicts)
    assert (beside(judged).root / REPLAY).read_bytes() == judged.ledger.read_bytes()


async def test_a_later_version_of_the_same_judge_is_the_same_judge(judged: RunFolder):
    set_config(judged, "judge.at=7")
    assert [verdict.judge for verdict in await judge(judged)] == ["prm/a@v1"] * TURNS


@pytest.mark.parametrize(
    "overrides",
    [
        ["judge.model=b", "judge.score=1"],  # another model
        ["judge.score=1"],  # other settings that form its opinion
        ["judge=cues"],
    ],
)
async def test_another_judge_is_asked_and_not_given_the_votes_of_the_first(
    judged: RunFolder, overrides: list[str]
):
    verdicts = await judge(judged, *overrides)
    assert all(len(verdict.votes) == 1 for verdict in verdicts)
    scores = {verdict.score for verdict in verdicts}
    assert scores == ({-1} if overrides == ["judge=cues"] else {1})
    assert not (beside(judged).root / REPLAY).exists()
    assert load(beside(judged).config).judge == load(judged.config, overrides).judge


async def test_fresh_asks_the_same_judge_again(judged: RunFolder):
    verdicts = await judge(judged, fresh=True)
    assert all(len(verdict.votes) == 1 for verdict in verdicts)


async def test_judging_again_leaves_the_run_as_it_is(judged: RunFolder):
    before = {path: path.read_bytes() for path in judged.root.rglob("*") if path.is_file()}
    await judge(judged, "judge.model=b", "judge.score=1")
    after = {path: path.read_bytes() for path in judged.root.rglob("*") if path.is_file()}
    assert after == before


@pytest.mark.parametrize(
    ("recorded", "asked", "replayable"),
    [
        ("prm/Qwen3-4B@v3", "prm/Qwen3-4B", True),
        ("prm/Qwen3-4B", "prm/Qwen3-4B@v9", True),
        ("prm/Qwen3-4B", "prm/Qwen3-8B", False),
        ("prm/a@v3b", "prm/a", False),
        ("cues/1", "prm/a", False),
        ("cues/1", "cues/1", False),  # read anew
        ("committee/1[1*cues/2(1+0),2*prm/m@v3(3+2)]", "committee/1[1*cues/2,2*prm/m]", True),
        ("committee/1[1*cues/2(1+0),2*prm/m(3+2)]", "committee/1[1*cues/2,1*prm/m]", False),
        ("prm/m(3+2)", "prm/m", False),
    ],
)
def test_votes_stand_for_the_judge_that_cast_them(recorded: str, asked: str, replayable: bool):
    verdict = verdict_of(make_interaction(), recorded, 1)
    assert is_replayable(verdict, asked) is replayable


def test_how_a_judge_is_reached_does_not_make_it_another():
    one = compose(["judge=prm"])
    reached = ["judge=prm", "judge.engine=http://x/v1", "judge.concurrent=1", "judge.timeout_s=9"]
    assert same_judge(one, compose(reached))
    committee = ["judge=committee", "judge.members.prm.model=m"]
    elsewhere = compose([*committee, "judge.members.prm.base_url=http://y/v1"])
    assert same_judge(compose(committee), elsewhere)
    assert not same_judge(compose(["judge=committee", "judge.members.prm.model=n"]), elsewhere)
    for other in (["judge=prm", "judge.model=b"], ["judge=prm", "judge.votes=5"], ["judge=cues"]):
        assert not same_judge(one, compose(other))


def test_a_ledger_names_samples_that_are_not_accepted_here():
    assert missing_samples([update("a", "b"), update("b", "c")], {"a", "b"}) == (1, 3)
    assert missing_samples([], {"a"}) == (0, 0)
