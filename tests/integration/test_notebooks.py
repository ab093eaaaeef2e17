from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from clawrl.compare.differences import compare
from clawrl.compare.sources import read_source
from clawrl.config.compose import load
from clawrl.records.folder import RunFolder
from clawrl.report.run_report import write_report

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
RECORDED = FOLDER / "runs" / "student"
LIGHT = [path for path in NOTEBOOKS if path.stem != "anatomy_of_one_update"]
"""They load no model."""
MOST_BYTES = 400_000
every_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def execute(path: Path, started_in: Path) -> None:
    import nbformat
    from nbclient import NotebookClient

    resources = {"metadata": {"path": str(started_in)}}
    NotebookClient(nbformat.read(path, as_version=4), timeout=900, resources=resources).execute()


def code_cells(path: Path) -> list[dict[str, Any]]:
    return [cell for cell in json.loads(path.read_text())["cells"] if cell["cell_type"] == "code"]


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.filterwarnings("ignore")
@every_notebook
def test_every_notebook_runs_from_top_to_bottom(path: Path):
    execute(path, FOLDER)


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("path", LIGHT, ids=lambda path: path.stem)
def test_a_notebook_may_be_started_in_the_repositorys_root(path: Path):
    execute(path, ROOT)


def test_there_is_a_notebook_for_each_thing_to_learn():
    assert [path.stem for path in NOTEBOOKS] == [
        "anatomy_of_one_update",
        "comparing_runs",
        "judging_the_judge",
        "quickstart",
    ]


@every_notebook
def test_every_notebook_is_kept_as_it_ran_without_errors(path: Path):
    cells = code_cells(path)
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    outputs = [output for cell in cells for output in cell["outputs"]]
    assert outputs
    for output in outputs:
        assert output["output_type"] != "error"
        assert output.get("name") != "stderr"


@every_notebook
def test_every_notebook_is_kept_with_its_figures_and_is_small(path: Path):
    pictures = [
        output
        for cell in code_cells(path)
        for output in cell["outputs"]
        if "image/png" in output.get("data", {})
    ]
    assert pictures
    assert path.stat().st_size < MOST_BYTES


@every_notebook
def test_no_output_names_a_folder_of_the_machine_it_ran_on(path: Path):
    shown = json.dumps([cell["outputs"] for cell in code_cells(path)])
    for start in ("/home/", "/root/", "/tmp/", "/work/", "/Users/"):
        assert start not in shown


def test_tokens_are_kept_coloured_by_their_advantage():
    shown = json.dumps(
        [cell["outputs"] for cell in code_cells(FOLDER / "anatomy_of_one_update.ipynb")]
    )
    assert "advantage: " in shown
    assert "background:#b2182b" in shown


def test_the_recorded_runs_configuration_fits_the_schema():
    config = load(RECORDED / "config.yaml")
    assert config.objective.w_binary == 0.2
    assert config.objective.opd_over == "sampled"


def test_the_recorded_run_is_small_and_holds_no_weights():
    files = [path for path in RECORDED.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < 1_200_000
    assert not [path for path in files if path.suffix == ".safetensors"]


def test_the_recorded_run_can_be_reported_and_compared(tmp_path: Path):
    copy = tmp_path / "student"
    shutil.copytree(RECORDED, copy)
    report = write_report(RunFolder.open(copy)).read_text(encoding="utf-8")
    assert "0.64" in report
    comparison = compare([read_source(f"{copy}@0"), read_source(f"{copy}@6")])
    assert comparison.problems == 36
    assert comparison.differences[0].verdict == "no difference"
