"""The model that a name stands for: a checkpoint of a run, or a model folder."""

from __future__ import annotations

from pathlib import Path

from gnomon.errors import RunError
from gnomon.models.folder import model_folder
from gnomon.store import RunReader
from gnomon.store.checkpoints import examine, stored
from gnomon.store.layout import RECIPE

__all__ = ["checkpoint", "saved_model", "split_step"]


def split_step(name: str) -> tuple[Path, int | None]:
    """`FOLDER` or `FOLDER:STEP` as the folder and the step."""
    folder, colon, step = name.rpartition(":")
    return (Path(folder), int(step)) if colon and step.isascii() and step.isdigit() else (Path(name), None)


def saved_model(name: str) -> Path:
    """The folder of `RUN`, `RUN:STEP` or a model folder.

    Raises: RunError E185 when the run has no verified checkpoint there; ModelError E301 when the folder holds no model.
    """
    folder, step = split_step(name)
    if (folder / RECIPE).is_file():
        return checkpoint(folder, step)
    return model_folder(name)


def checkpoint(folder: Path, step: int | None = None) -> Path:
    """The newest checkpoint of a run that verifies, or the one of a step. Raises: RunError E185."""
    with RunReader(folder) as reader:
        run = reader.uuid
    found = stored(folder)
    for path in found:
        if step in (None, int(path.name)) and not examine(path, run):
            return path
    there = ", ".join(str(int(path.name)) for path in reversed(found)) or "none"
    raise RunError(
        "E185",
        f"the run has no verified checkpoint{'' if step is None else f' of step {step}'}",
        where=str(folder),
        why=f"checkpoints exist for these steps: {there}",
        fix="in a new run, save.keep=99 keeps the last 99 checkpoints",
    )
