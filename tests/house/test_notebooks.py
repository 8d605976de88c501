"""The notebooks of the documentation run from the first cell to the last, and are kept with what they print."""

from __future__ import annotations

import sys
from pathlib import Path

import nbformat
import pytest

DOCS = Path(__file__).parents[2] / "docs"
NOTEBOOKS = sorted((DOCS / "notebooks").glob("*.ipynb"))


def kinds(notebook: nbformat.NotebookNode) -> list[set[str]]:
    """What each cell of code put out: kinds of data, or the name of a stream."""
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    return [{kind for out in cell.outputs for kind in out.get("data", [out.get("name")])} for cell in cells]


def test_there_are_three():
    assert len(NOTEBOOKS) == 3


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_outputs_are_kept(path):
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in cells] == [*range(1, len(cells) + 1)], "run python docs/notebooks.py"
    assert sum(map(bool, kinds(notebook))) >= len(cells) - 2 and not any("stderr" in each for each in kinds(notebook))
    text = path.read_text("utf-8")
    assert not any(place in text for place in ("/home/", "/root/", "/tmp/", "site-packages")), "a path of a machine"


@pytest.mark.long
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path, tmp_path, monkeypatch):
    for name in ("IPYTHONDIR", "JUPYTER_RUNTIME_DIR", "JUPYTER_CONFIG_DIR"):
        monkeypatch.setenv(name, str(tmp_path / ".jupyter"))
    monkeypatch.syspath_prepend(DOCS)
    sys.modules.pop("notebooks", None)
    from notebooks import executed

    assert kinds(executed(path, tmp_path)) == kinds(nbformat.read(path, as_version=4))
