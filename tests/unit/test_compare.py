from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import yaml
from typer.testing import CliRunner

from clawrl.cli.main import app
from clawrl.compare.differences import compare, holm, shown_replies
from clawrl.compare.picture import draw_comparison, legend
from clawrl.compare.report import as_markdown, as_numbers, default_folder, seed_lines
from clawrl.compare.sources import HIDDEN, flat, read_source, wandb_curve
from clawrl.errors import MachineError, UserError
from clawrl.eval.evaluation.generation import Generation
from clawrl.eval.personalization.measurement import MeasuredReply, Measurement, record
from clawrl.records.folder import RunFolder
from clawrl.records.jsonl import JsonlFile
from tests.factories import make_interaction

PROBLEMS, REPEATS = 36, 4


def measurement(version: int, rate: float, *, seed: int, problems=PROBLEMS, first=0, **more):
    """Replies to problems that differ in how hard they are, the same for every call."""
    hardness = np.random.default_rng(7).normal(0, 0.1, size=first + problems)
    generator = np.random.default_rng([seed, version])
    replies: list[MeasuredReply] = []
    for problem in range(first, first + problems):
        for repeat in range(REPEATS):
            passed = generator.random(4) < np.clip(rate + hardness[problem], 0, 1)
            tokens = int(generator.integers(20, 40))
            replies.append(
                MeasuredReply(
                    problem_id=f"p{problem}", question=f"What is 9 + {problem}?",
                    answer=str(9 + problem), repeat=repeat, seed=1000 * problem + repeat,
                    text=f"Version {version} says | *it* is <b>{9 + problem}</b>.\n\n1. So it is.",
                    finish_reason="stop", tokens=tokens,
                    checks={f"c{number}": bool(ok) for number, ok in enumerate(passed)},
                    score=float(passed.mean()), reference_rule=bool(passed[0]),
                    distinct_bigrams=0.9, final_number=True,
                    correct=bool(generator.random() < 0.4),
                )
            )  # fmt: skip
    wants = {f"c{number}": "something" for number in range(4)}
    fields = {"taste": "student", "metric": "naturalness", "wants": wants, "temperature": 1.0}
    return Measurement(version=version, max_tokens=128, replies=replies, **(fields | more))


def make_run(root: Path, rates: dict[int, float], *, seed=1, config=None, **more) -> str:
    root.mkdir(parents=True)
    whole = {
        "recipe": "r", "seed": seed, "run": root.name, "runs_dir": str(root.parent),
        "data": {"seed": seed}, "learner": {"lr": 1e-5},
        "objective": {"w_binary": 1.0, "w_opd": 1.0}, "gateway": {"api_key": None},
    } | (config or {})  # fmt: skip
    (root / "config.yaml").write_text(yaml.safe_dump(whole))
    for version, rate in rates.items():
        record(RunFolder(root), measurement(version, rate, seed=seed, **more))
    return str(root)


def make_eval(root: Path, rate: float, *, seed: int, items=30, samples=4, **more) -> str:
    root.mkdir(parents=True)
    info = {
        "task": "aime24", "task_digest": "t", "model": "/models/tiny", "model_digest": "m",
        "version": None, "sampling": {"temperature": 1.0}, "seed": seed, "metric": "correct",
        "items": 30, "created": 0.0,
    } | more  # fmt: skip
    (root / "eval.json").write_text(json.dumps(info))
    hardness = np.random.default_rng(7).beta(rate * 3, (1 - rate) * 3, size=items)
    generator = np.random.default_rng(seed)
    with JsonlFile(root / "generations.jsonl") as file:
        for item in range(items):
            for sample in range(samples):
                right = bool(generator.random() < hardness[item])
                file.append(
                    Generation(
                        item_id=f"i{item}", sample=sample, seed=seed + 1000 * item + sample,
                        question=f"Question {item}?", answer="204", text="It is \\boxed{204}.",
                        tokens=12, status="ok" if item else "truncated",
                        parsed="204" if right else "7", scores={"correct": float(right)},
                    )
                )  # fmt: skip
    return str(root)


def compared(*names: str):
    return compare([read_source(name) for name in names])


def invoke(*arguments: str):
    return CliRunner().invoke(app, ["compare", *arguments], catch_exceptions=True)


def drawn(path: Path, comparison) -> np.ndarray:
    from matplotlib.image import imread

    draw_comparison(path, comparison)
    return imread(path)


@pytest.fixture
def two_by_two(tmp_path):
    """Two configurations with two seeds each."""
    opd = {"objective": {"w_binary": 0.0, "w_opd": 1.0}}
    return [
        make_run(tmp_path / "a-1", {0: 0.4, 8: 0.45}, seed=1),
        make_run(tmp_path / "a-2", {0: 0.4, 8: 0.47}, seed=2),
        make_run(tmp_path / "b-1", {0: 0.4, 4: 0.6, 8: 0.8}, seed=1, config=opd),
        make_run(tmp_path / "b-2", {0: 0.4, 8: 0.78}, seed=2, config=opd),
    ]


def test_one_model_under_two_seeds_is_no_difference(tmp_path):
    one = make_run(tmp_path / "a-1", {0: 0.5}, seed=1)
    two = make_run(tmp_path / "a-2", {0: 0.5}, seed=2)
    found = compared(one, two)
    assert [difference.verdict for difference in found.differences] == ["no difference"]
    assert [group.label for group in found.groups] == ["a-1@0", "a-2@0"]
    assert found.config == {"seed": ["1", "2"]}
    assert any("one configuration" in note for note in found.notes)


def test_one_model_evaluated_under_two_sampling_seeds_is_no_difference(tmp_path):
    one = make_eval(tmp_path / "evals" / "aime24-1", 0.3, seed=1)
    two = make_eval(tmp_path / "evals" / "aime24-2", 0.3, seed=2)
    found = compared(one, two)
    assert found.differences[0].verdict == "no difference"
    assert [group.name for group in found.groups] == [
        "tiny on aime24, seed 1", "tiny on aime24, seed 2",
    ]  # fmt: skip
    controls = {row.name: row for row in found.differences[0].controls}
    assert controls["replies: truncated"].before.value == pytest.approx(1 / 30)
    assert default_folder([read_source(one)]).parent == tmp_path


def test_before_and_after_of_a_run_that_learned_is_better_and_the_other_way_round_worse(tmp_path):
    run = make_run(tmp_path / "a", {0: 0.4, 8: 0.6})
    (difference,) = compared(f"{run}@0", f"{run}@8").differences
    assert difference.verdict == "better"
    assert difference.change is not None
    assert 0 < difference.change.low < difference.value < difference.change.high
    assert compared(f"{run}@8", f"{run}@0").differences[0].verdict == "worse"


def test_a_run_without_a_version_is_its_newest_measurement(tmp_path):
    run = make_run(tmp_path / "a", {0: 0.4, 8: 0.6})
    assert read_source(run).version == 8
    assert read_source(f"{run}@0").version == 0


def test_runs_that_differ_in_their_seed_alone_are_one_group(two_by_two):
    found = compared(*two_by_two)
    assert [group.label for group in found.groups] == ["a@8 (2 seeds)", "b@8 (2 seeds)"]
    assert [len(group.scores.values) for group in found.groups] == [2 * PROBLEMS * REPEATS] * 2
    assert found.differences[0].verdict == "better"
    assert found.config == {"objective.w_binary": ["1.0", "0.0"]}
    lines = seed_lines(found)
    assert [line.split(":")[0] for line in lines] == ["a@8", "b@8"]
    assert "seed 1 0." in lines[0]
    assert "seed 2 0." in lines[0]
    each = [source.score.value for source in found.groups[0].sources]
    assert found.groups[0].score.value == pytest.approx(sum(each) / 2)


def test_two_versions_of_two_seeds_are_two_groups(two_by_two):
    first, second = two_by_two[:2]
    found = compared(f"{first}@0", f"{second}@0", first, second)
    assert [group.label for group in found.groups] == ["a@0 (2 seeds)", "a@8 (2 seeds)"]
    assert legend(found) == ["a (2 seeds)"]


@pytest.mark.parametrize(
    ("names", "label"),
    [
        (["objective=opd,seed=1", "objective=opd,seed=2"], "objective=opd"),
        (["seed=1,lr=3", "seed=2,lr=3"], "lr=3"),
        (["table-11", "table-12"], "table"),
        (["x", "y"], "x"),
    ],
)
def test_a_group_is_named_by_what_its_runs_names_share(tmp_path, names, label):
    runs = [make_run(tmp_path / name, {8: 0.5}, seed=n) for n, name in enumerate(names)]
    other = make_run(tmp_path / "other", {8: 0.5}, config={"learner": {"lr": 1.0}})
    assert compared(*runs, other).groups[0].name == f"{label}@8"


def test_runs_of_the_same_name_are_told_apart_by_their_folders(tmp_path):
    one = make_run(tmp_path / "x" / "1", {0: 0.5})
    two = make_run(tmp_path / "y" / "1", {0: 0.5}, config={"learner": {"lr": 1.0}})
    assert [group.name for group in compared(one, two).groups] == ["x/1@0", "y/1@0"]


def test_several_comparisons_are_corrected_and_counted(tmp_path):
    runs = [
        make_run(tmp_path / f"r{n}", {0: 0.5 + 0.02 * n}, seed=n, config={"learner": {"lr": n}})
        for n in range(4)
    ]
    found = compared(*runs)
    for difference in found.differences:
        assert difference.p_holm >= difference.p
        assert (difference.verdict in ("better", "worse")) == (difference.p_holm <= 0.05)
    assert any("3 comparisons" in note and "Holm" in note for note in found.notes)


def test_holms_correction_agrees_with_the_textbook():
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    assert holm([]) == []


def test_a_handful_of_problems_says_nothing(tmp_path):
    run = make_run(tmp_path / "a", {0: 0.1, 8: 0.9}, problems=5)
    found = compared(f"{run}@0", f"{run}@8")
    assert found.differences[0].verdict == "too few problems"
    assert any("Fewer than 6 problems" in note for note in found.notes)


def test_secrets_are_hidden_and_what_only_names_a_run_is_left_out():
    config = flat(
        {
            "run": "a", "runs_dir": "runs", "tracking": {"project": "p"}, "seed": 1,
            "data": {"seed": 1}, "gateway": {"api_key": "sk-1"}, "sampling": {"max_tokens": 5},
            "persona": {"base_url": "http://me:pw@host/v1"},
            "engine": {"extra_args": ["--api-key", "sk-2", "--seed=3"]},
        }
    )  # fmt: skip
    assert config["gateway.api_key"] == HIDDEN
    assert config["sampling.max_tokens"] == "5"
    assert "sk-" not in str(config)
    assert "pw" not in str(config)
    assert not {"run", "runs_dir", "tracking.project", "data.seed"} & set(config)


def test_replies_to_the_same_item_and_sample_stand_side_by_side(two_by_two):
    rows = shown_replies(compared(two_by_two[0], two_by_two[2]))
    assert [[one.item_id for one in row] for row in rows] == [["p0"] * 2, ["p1"] * 2, ["p2"] * 2]
    assert {one.sample for row in rows for one in row} == {0}


def test_the_screen_is_readable_in_80_columns_and_the_files_are_written(two_by_two, tmp_path):
    result = invoke(*two_by_two, "--out", str(tmp_path / "out"))
    assert result.exit_code == 0, result.output
    assert max(len(line) for line in result.stdout.splitlines()) <= 80
    for word in ("a@8 (2 seeds)", "better", "objective.w_binary", "reply length", "seed 2",
                 "What is 9 + 0?", "<b>9</b>"):  # fmt: skip
        assert word in result.stdout
    document = (tmp_path / "out" / "compare.md").read_text()
    assert "![scores](compare.png)" in document
    assert "better" in document
    assert "&#60;b&#62;9" in document
    assert (tmp_path / "out" / "compare.png").read_bytes().startswith(b"\x89PNG")


def test_four_ungrouped_runs_are_readable_too(tmp_path):
    runs = [
        make_run(
            tmp_path / f"a-rather-long-name-of-a-run-{n}", {0: 0.5}, config={"recipe": f"r{n}"}
        )
        for n in range(4)
    ]
    result = invoke(*runs)
    assert result.exit_code == 0, result.output
    assert max(len(line) for line in result.stdout.splitlines()) <= 80


def test_the_numbers_as_json(two_by_two):
    result = invoke(*two_by_two, "--json")
    numbers = json.loads(result.stdout)
    assert numbers == json.loads(json.dumps(as_numbers(compared(*two_by_two))))
    assert numbers["differences"][0]["verdict"] == "better"
    assert numbers["groups"][0]["sources"][1]["seed"] == "2"
    (folder,) = Path(two_by_two[0]).parent.glob("compare-*")
    assert sorted(path.name for path in folder.iterdir()) == ["compare.md", "compare.png"]


def test_the_picture_of_curves_shows_each_line_in_its_own_colour(two_by_two, tmp_path):
    found = compared(*two_by_two)
    picture = drawn(tmp_path / "x.png", found)
    for colour in ((0, 0x72, 0xB2), (0xD5, 0x5E, 0)):
        near = np.abs(picture[..., :3] * 255 - colour).max(axis=-1) < 3
        assert near.sum() > 500, colour
    assert legend(found) == ["a (2 seeds): w_binary=1.0", "b (2 seeds): w_binary=0.0"]


def test_the_picture_of_evaluations_shows_points(tmp_path):
    names = [make_eval(tmp_path / f"e{n}", 0.3, seed=n, model=f"m{n}") for n in range(3)]
    picture = drawn(tmp_path / "x.png", compared(*names))
    assert (picture[..., :3].std(axis=-1) > 0.1).sum() > 500


def test_names_and_values_cannot_break_the_documents_tables(tmp_path):
    one = make_run(tmp_path / "a_b_c", {0: 0.5}, config={"recipe": "x | <b> `y`"})
    two = make_run(tmp_path / "d", {0: 0.5})
    document = as_markdown(compared(one, two))
    assert "| recipe | x \\| &lt;b> \\`y\\` | r |" in document


def test_wandb_runs_are_shown_but_not_tested(tmp_path, monkeypatch):
    from clawrl.compare import sources
    from clawrl.compare.wandb_runs import WandbRun

    history = [
        {"version": version, "eval/naturalness": rate, "eval/naturalness_low": rate - 0.1,
         "eval/naturalness_high": rate + 0.1, "eval/correct": 0.5}
        for version, rate in ((0, 0.3), (8, 0.7))
    ]  # fmt: skip
    run = WandbRun("cloud", {"seed": 1, "learner": {"lr": 2}}, history, {})
    monkeypatch.setattr(sources, "fetch", lambda path: run)
    local = make_run(tmp_path / "a", {0: 0.5})
    found = compared(local, "wandb:me/p/1")
    difference = found.differences[0]
    assert (difference.verdict, difference.change, difference.p) == ("not tested", None, None)
    assert difference.value == pytest.approx(0.7 - found.groups[0].score.value)
    assert [point.value for point in found.groups[1].curve.values()] == [0.3, 0.7]
    assert any("W&B keeps no replies" in note for note in found.notes)
    result = invoke(local, "wandb:me/p/1@0", "--out", str(tmp_path / "out"))
    assert result.exit_code == 0, result.output
    assert "not tested" in result.stdout
    assert json.dumps(as_numbers(found), allow_nan=False)


def test_the_measured_score_is_found_among_wandbs_numbers():
    assert wandb_curve([{"version": 0, "eval/correct": 1.0, "train/loss_low": 2.0}]) == ("", {})


def test_an_unfinished_evaluation_says_so(tmp_path):
    names = [make_eval(tmp_path / f"e{n}", 0.3, seed=n, items=12) for n in range(2)]
    assert any("12 of 30 items" in note for note in compared(*names).notes)


def one_line(*names: str) -> str:
    with pytest.raises(UserError) as caught:
        compared(*names)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_mistakes_are_one_line_that_says_what_to_change(tmp_path):
    run = make_run(tmp_path / "student-1", {0: 0.5, 8: 0.5})
    bare = make_run(tmp_path / "bare", {})
    elsewhere = make_run(tmp_path / "other", {0: 0.5}, first=24, config={"recipe": "x"})
    aime = make_eval(tmp_path / "aime", 0.3, seed=1)
    (tmp_path / "empty").mkdir()
    shutil.copy(Path(aime) / "eval.json", tmp_path / "empty")
    assert "compare needs two or more" in one_line(run)
    assert "given twice" in one_line(run, f"{run}@8")
    assert "did you mean 'student-1'" in one_line(run, str(tmp_path / "studnet-1"))
    assert "neither a run" in one_line(run, str(tmp_path))
    assert "there is no such run" in one_line(run, "/nowhere/at/all")
    assert "nothing was measured yet; run `clawrl eval --model" in one_line(run, bare)
    assert "measured: 0, 8" in one_line(run, f"{run}@5")
    assert "a version is a number" in one_line(run, f"{run}@new")
    assert "12 in common" in one_line(run, elsewhere)
    assert "naturalness and" in one_line(run, aime)
    assert "one version" in one_line(run, f"{aime}@3")
    assert "no reply was drawn yet" in one_line(run, str(tmp_path / "empty"))


def test_names_that_a_picture_could_read_as_a_formula_are_shown_as_they_are(tmp_path):
    one = make_run(tmp_path / "_a$b_$", {0: 0.5, 8: 0.5})
    two = make_run(tmp_path / "$", {0: 0.5}, config={"learner": {"lr": "$x"}})
    assert drawn(tmp_path / "x.png", compared(one, two)).std() > 0
    assert drawn(tmp_path / "y.png", compared(f"{one}@0", two)).std() > 0


def test_a_folder_that_cannot_be_written_is_one_line(tmp_path):
    run = make_run(tmp_path / "a", {0: 0.5, 8: 0.5})
    (tmp_path / "file").write_text("")
    result = invoke(f"{run}@0", run, "--out", str(tmp_path / "file" / "x"))
    assert isinstance(result.exception, MachineError)
    assert "cannot be written" in str(result.exception)


def test_it_says_after_how_many_sessions_each_group_was_pleased(tmp_path):
    pleasing, stock = "Anna has 3 + 4 = 7 apples in the end.", "To solve this, we add. So, it is 7."
    names: list[str] = []
    for number, texts in enumerate(([stock, *[pleasing] * 3], [stock] * 2 + [pleasing] * 3)):
        name = make_run(
            tmp_path / f"a-{number}", {8: 0.8}, seed=number, config={"taste": "student"}
        )
        interactions = RunFolder(Path(name)).interactions.writer(0)
        for place, text in enumerate(texts):
            reply = {"role": "assistant", "content": text}
            interactions.append(make_interaction(session_id=f"s{place}", reply=reply))
        interactions.close()
        names.append(name)
    other = {"taste": "student", "learner": {"lr": 1e-6}}
    quiet = make_run(tmp_path / "b-1", {8: 0.4}, config=other)
    notes = [note for note in compared(*names, quiet).notes if "Sessions to effect" in note]
    assert notes == ["Sessions to effect, a@8: 4.5 [4, 5] over 2 runs."]
    interactions = RunFolder(Path(quiet)).interactions.writer(0)
    interactions.append(make_interaction(reply={"role": "assistant", "content": stock}))
    interactions.close()
    notes = compared(*names, quiet).notes
    assert "Sessions to effect, b-1@8: at least 1; 0 of 1 got there." in notes
