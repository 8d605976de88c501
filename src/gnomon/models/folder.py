"""Where a model lies. Needs no torch, so that a wrong path is told at once."""

from __future__ import annotations

from pathlib import Path

from gnomon.errors import ModelError

__all__ = ["model_folder"]

TINY = Path(__file__).parent / "tiny"


def model_folder(name: str | Path) -> Path:
    """The folder of a model: `tiny` is the policy that ships, all else a path.

    Raises: ModelError E301 when the folder is missing or holds no model.
    """
    if str(name) == "tiny":
        return TINY
    folder = Path(name)
    if not (folder / "config.json").is_file():
        raise ModelError(
            "E301",
            "the folder holds no model" if folder.exists() else "no model folder there",
            where=str(folder),
            why="a model folder has config.json, model.safetensors and tokenizer.json",
            fix="policy=tiny uses the policy that ships; a hub model: snapshot_download it, then policy=FOLDER",
        )
    return folder
