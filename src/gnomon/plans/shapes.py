"""Configurations of models that the shipped recipes name, so that these are planned before a model is downloaded."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from gnomon.models.folder import config_folder

__all__ = ["described"]


def described(path: str) -> Path:
    """The model folder; where it is not there, the shipped configuration of the model that it is named after.

    Raises: ModelError E301 where there is neither.
    """
    shipped = Path(str(files("gnomon.recipes").joinpath("shapes", Path(path).name)))
    return shipped if not Path(path).exists() and shipped.is_dir() else config_folder(path)
