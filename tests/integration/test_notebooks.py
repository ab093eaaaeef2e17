from pathlib import Path

import pytest

NOTEBOOKS = sorted((Path(__file__).parents[2] / "notebooks").glob("*.ipynb"))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_every_notebook_runs_from_top_to_bottom(path: Path):
    import nbformat
    from nbclient import NotebookClient

    NotebookClient(nbformat.read(path, as_version=4), timeout=120).execute()
