import io
from collections.abc import Sequence
from pathlib import Path

import pytest
from rich.console import Console

from clawrl.cli import reporting
from clawrl.cli.reporting import as_markdown, on_screen, report_paper
from clawrl.config.compose import compose, dump
from clawrl.errors import UserError
from clawrl.eval.evaluation.folder import EvalFolder, EvalInfo
from clawrl.eval.evaluation.generation import Generation
from clawrl.eval.personalization.measurement import record
from clawrl.eval.statistics.estimates import Observations, mean
from clawrl.records.folder import RunFolder
from clawrl.records.jsonl import JsonlFile
from clawrl.records.nouns import Update
from clawrl.report.paper_table import BY_MODEL, PUBLISHED, RULE, paper_tables
from tests.factories import make_measurement

Scores = dict[int, Sequence[float]]
BASE = [0.0, 0.25, 0.5, 0.25]
SMALL = ["recipe=paper/personalization", "model=smollm2-135m", "resources=cpu", "judge=cues"]


def make_run(root: Path, scores: Scores, *overrides: str, **changes: object) -> RunFolder:
    """A run folder that holds a configuration and measurements, by version."""
    root.mkdir(parents=True)
    folder = RunFolder(root)
    folder.config.write_text(dump(compose([*SMALL, *overrides])))
    for version, found in scores.items():
        record(folder, make_measurement(version, found, **changes))
    return folder


@pytest.fixture
def folders(tmp_path: Path) -> list[RunFolder]:
    """Two seeds of OPD up to 16 updates, one of binary up to 8."""
    return [
        make_run(
            tmp_path / "opd1",
            {0: BASE, 8: [0.5, 0.5, 0.75, 0.25], 16: [0.75] * 4},
            "objective=opd",
            "seed=1",
        ),
        make_run(
            tmp_path / "opd2",
            {0: BASE, 8: [0.25, 0.5, 0.5, 0.5], 16: [1.0] * 4},
            "objective=opd",
            "seed=2",
        ),
        make_run(
            tmp_path / "binary1",
            {0: BASE, 4: BASE, 8: [0.25] * 4},
            "objective=binary",
            "seed=1",
            "loop.updates=8",
        ),
    ]


def test_seeds_are_pooled_and_problems_stay_the_clusters(folders: list[RunFolder]):
    (table,) = paper_tables(folders)
    cell = table.cells["opd", 8]
    pooled = Observations([0.5, 0.5, 0.75, 0.25, 0.25, 0.5, 0.5, 0.5], ["p0", "p1", "p2", "p3"] * 2)
    assert cell.measures["naturalness"] == mean(pooled)
    assert cell.measures[RULE].value == 6 / 8
    assert cell.by_seed == {1: 0.5, 2: 0.4375}
    assert table.cells["opd", 0].measures["naturalness"].value == 0.25


def test_what_was_not_run_is_missing_and_said_to_be(folders: list[RunFolder]):
    (table,) = paper_tables(folders)
    assert set(table.cells) == {
        ("binary", 0), ("binary", 8), ("opd", 0), ("opd", 8), ("opd", 16)
    }  # fmt: skip
    assert screen_of(folders).count("not run") == 2 * 4


def screen_of(folders: list[RunFolder]) -> str:
    screen = io.StringIO()
    for table in paper_tables(folders):
        for measure in table.measures:
            Console(width=80, file=screen).print(on_screen(table, measure))
    return screen.getvalue()


def test_the_screen_shows_the_paper_beside_it_within_80_columns(folders: list[RunFolder]):
    screen = screen_of(folders)
    assert "\N{HORIZONTAL ELLIPSIS}" not in screen
    for text in ("combined*", "0.17", "0.76", "0.81", "0.47, 2 seeds", "0.25, 1 seed", "0 (base)"):
        assert text in screen
    rule = screen[screen.index(RULE) :]
    assert "combined*" not in rule


def test_the_published_numbers_are_the_papers():
    student = PUBLISHED["student"]
    assert [student[kind, 8] for kind in ("binary", "opd", "combined")] == [0.25, 0.25, 0.76]
    assert [student[kind, 16] for kind in ("binary", "opd", "combined")] == [0.23, 0.72, 0.81]


def test_a_small_model_is_said_not_to_compare_in_level(folders: list[RunFolder], tmp_path: Path):
    (table,) = paper_tables(folders)
    assert any("smollm2-135m" in note and "not comparable in level" in note for note in table.notes)
    assert any("arXiv:2603.10165" in note for note in table.notes)
    paper = make_run(tmp_path / "qwen", {0: BASE}, "model=qwen3-4b")
    (table,) = paper_tables([paper])
    assert not any("not comparable" in note for note in table.notes)


def test_the_document_holds_the_same_numbers_and_the_spread_between_seeds(
    folders: list[RunFolder], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    for name in ("out", "err"):
        monkeypatch.setattr(reporting, name, Console(file=io.StringIO()))
    file = tmp_path / "table.md"
    report_paper([folder.root for folder in folders], markdown=file)
    text = file.read_text(encoding="utf-8")
    assert text == as_markdown(paper_tables(folders))
    assert "| 8 | 0.25, 1 seed<br>[0.25, 0.25] | 0.47, 2 seeds<br>[" in text
    assert "naturalness after 8 updates by seed: OPD 0.50, 0.44." in text
    assert "not run" in text


def test_tastes_and_models_are_tables_of_their_own(folders: list[RunFolder], tmp_path: Path):
    teacher = make_run(
        tmp_path / "teacher", {0: BASE}, "persona=teacher", taste="teacher", metric="warmth"
    )
    tables = paper_tables([*folders, teacher])
    assert [(table.taste, table.metric) for table in tables] == [
        ("student", "naturalness"),
        ("teacher", "warmth"),
    ]
    assert any("24 gradings" in note for note in tables[1].notes)
    assert "*published*" not in as_markdown(tables[1:])


def test_a_run_named_twice_counts_once(folders: list[RunFolder]):
    assert paper_tables([*folders, folders[0]]) == paper_tables(folders)


def test_two_runs_of_one_seed_are_refused(folders: list[RunFolder], tmp_path: Path):
    again = make_run(tmp_path / "again", {8: BASE}, "objective=opd", "seed=2")
    with pytest.raises(UserError, match="opd2 and again are both seed 2 of objective=opd"):
        paper_tables([*folders, again])


def test_a_cell_pools_nothing_but_seeds(folders: list[RunFolder], tmp_path: Path):
    other = make_run(tmp_path / "other", {8: BASE}, "objective=opd", "seed=3", "learner.lr=1e-6")
    with pytest.raises(
        UserError, match=r"opd2 and other differ in learner\.lr \(1\.2e-05 and 1e-06"
    ):
        paper_tables([*folders, other])


def test_columns_that_differ_in_more_than_their_signal_say_so(
    folders: list[RunFolder], tmp_path: Path
):
    other = make_run(tmp_path / "other", {8: BASE}, "objective=combined", "learner.lr=1e-6")
    (table,) = paper_tables([*folders, other])
    assert "The columns also differ in: learner.lr." in table.notes


def test_what_is_not_as_in_the_paper_is_said(folders: list[RunFolder], tmp_path: Path):
    (table,) = paper_tables(folders)
    assert (
        "Not as in the paper: objective.baseline=batch, objective.opd_clip=2.0, "
        "objective.opd_over=vocabulary."
    ) in table.notes
    alike = ["objective.baseline=none", "objective.opd_clip=null", "objective.opd_over=sampled"]
    weighted = make_run(tmp_path / "weighted", {8: BASE}, *alike, "objective.w_binary=0.2")
    (table,) = paper_tables([weighted])
    assert "Not as in the paper: objective.w_binary=0.2." in table.notes
    paper = make_run(tmp_path / "qwen", {0: BASE}, "model=qwen3-4b")
    assert not any("Not as in the paper" in note for note in paper_tables([paper])[0].notes)


def test_runs_measured_on_other_problems_cannot_stand_in_one_table(
    folders: list[RunFolder], tmp_path: Path
):
    other = make_run(tmp_path / "other", {8: [0.5]}, "objective=combined")
    with pytest.raises(UserError, match="opd1 and other: measured on other problems"):
        paper_tables([*folders, other])


def test_a_run_without_a_measurement_of_a_row_is_named(folders: list[RunFolder], tmp_path: Path):
    idle = make_run(tmp_path / "idle", {6: BASE}, "objective=combined")
    (table,) = paper_tables([*folders, idle])
    assert "Not measured at 0, 8 or 16 updates: idle." in table.notes
    with pytest.raises(UserError, match=r"idle: not measured at 0, 8 or 16 updates; set eval\."):
        paper_tables([idle])


def trained(folder: RunFolder, version: int, digest: str) -> None:
    """A ledger whose only update made `version` out of the base model."""
    with JsonlFile(folder.ledger) as ledger:
        ledger.append(
            Update(
                version=version,
                parent=0,
                sample_ids=[],
                digest_before="base",
                digest_after=digest,
                created=0,
            )
        )


def evaluated(evals: Path, digest: str, scores: Sequence[float | None], **changes: object) -> None:
    """A finished evaluation of weights; None: the persona's model abstained."""
    info = EvalInfo.model_validate(
        {
            "task": "gsm8k_student",
            "task_digest": "t",
            "model": "m",
            "model_digest": digest,
            "version": 8,
            "sampling": {},
            "seed": 1,
            "metric": "model",
            "items": len(scores),
            "created": 0,
        }
        | changes
    )
    folder = EvalFolder.of(evals, info)
    folder.root.mkdir(parents=True)
    folder.info_path.write_text(info.model_dump_json())
    folder.results_path.write_text("{}")
    with JsonlFile(folder.generations_path) as file:
        for number, score in enumerate(scores):
            given = {"rules": 0.0} | ({} if score is None else {"model": score})
            file.append(
                Generation(
                    item_id=f"p{number}",
                    sample=0,
                    seed=0,
                    question="q",
                    answer="a",
                    text="t",
                    scores=given,
                )
            )


def test_scores_of_the_personas_model_are_found_by_the_weights(tmp_path: Path):
    evals = tmp_path / "evals"
    runs = [
        make_run(
            tmp_path / f"opd{seed}",
            {0: BASE, 8: BASE},
            "objective=opd",
            f"seed={seed}",
            f"runs_dir={tmp_path}",
        )
        for seed in (1, 2)
    ]
    for number, run in enumerate(runs, start=1):
        trained(run, 8, f"w{number}")
    evaluated(evals, "w1", [1.0, None])
    (table,) = paper_tables(runs)
    assert BY_MODEL not in table.measures  # seed 2 was not scored, nor was the base model
    evaluated(evals, "w2", [0.5, 0.0])
    evaluated(evals, "base", [0.25, 0.25], version=0)
    evaluated(evals, "w1", [0.0, 0.0], task_digest="another scorer")
    evaluated(evals, "w2", [0.0, 0.0], metric="rules", task_digest="no scorer")
    (table,) = paper_tables(runs)
    assert table.measures == ["naturalness", RULE, BY_MODEL]
    assert table.cells["opd", 8].measures[BY_MODEL].value == 0.5
    assert table.cells["opd", 0].measures[BY_MODEL].value == 0.25
    assert "0.50, 2 seeds" in as_markdown([table])
