"""Configurations of models that the shipped recipes name, so that these are planned before a model is downloaded."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from gnomon.models.folder import config_folder
from gnomon.models.hub import cached, hub_name

__all__ = ["described"]


def described(path: str) -> Path:
    """The model folder, or the model in the cache of the hub; where it is not there, the shipped configuration of the
    model that it is named after, else what the hub has beside weights.

    Raises: ModelError, as `config_folder`, where there is none of them.
    """
    name = hub_name(path)
    last = name.repo.rpartition("/")[2] if name else Path(path).name
    shipped = Path(str(files("gnomon.recipes").joinpath("shapes", last)))
    there = cached(name) is not None if name else Path(path).exists()
    return shipped if not there and shipped.is_dir() else config_folder(path)
