"""Run the notebooks of docs/notebooks in a folder of their own, and keep what they print: python docs/notebooks.py

A test runs them in the same way. Edit them in Jupyter, then run this.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import nbformat
from nbclient import NotebookClient

FOLDER = Path(__file__).parent / "notebooks"


def executed(path: Path, folder: Path) -> nbformat.NotebookNode:
    """A notebook with the outputs of its cells, run in a folder. Raises: CellExecutionError for a cell that fails."""
    notebook = nbformat.read(path, as_version=4)
    env = {**os.environ, "NO_COLOR": "1", "OMP_NUM_THREADS": "1"}
    env["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{env['PATH']}"
    place = {"metadata": {"path": str(folder)}}
    NotebookClient(notebook, timeout=600, kernel_name="python3", resources=place).execute(env=env)
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)  # The clock.
        if cell.cell_type == "code":
            cell.outputs = [kept(output) for output in cell.outputs if output.get("name") != "stderr"]
    return notebook


def kept(output: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """An output without the text that stands for a picture or a table; it holds addresses in memory."""
    if len(output.get("data", ())) > 1:
        output.data.pop("text/plain", None)
    return output


if __name__ == "__main__":
    for path in sorted(FOLDER.glob("*.ipynb")):
        with TemporaryDirectory() as folder:
            notebook = executed(path, Path(folder))
        nbformat.write(notebook, path)
        print(path)
