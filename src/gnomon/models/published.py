"""Parameters under the names that a model folder's files have: transformers joins experts into one parameter, and gives
the parts of a model that sees other names."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers.core_model_loading import revert_weight_conversion

from gnomon.errors import ModelError
from gnomon.models.policy import configuration, family_of

__all__ = ["as_published"]

TOWER = "vision_model."
"""A part of names in a folder that transformers leaves out where it has read the folder."""


def as_published(folder: Path, state: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
    """Parameters as the folder's files name and cut them.

    Args: state: every parameter of the folder's model that is trained, by the names of transformers.
    Raises: ModelError E339 for names without a way back, such as those of joined experts, since another program would
        leave the weights that it has in their place.
    """
    stored = names(folder)
    if stored.issuperset(state):
        return state
    published: Mapping[str, Tensor] = revert_weight_conversion(skeleton(folder), dict(state))
    of_tower = {name.replace(TOWER, ""): name for name in stored}
    published = {name if name in stored else of_tower.get(name, name): value for name, value in published.items()}
    unknown = sorted(name for name in published if name not in stored)
    if unknown:
        raise ModelError(
            "E339",
            f"the weights {', '.join(unknown[:3])} have other names in the model folder",
            where=str(folder),
            why="transformers renames or joins them without a way back, so vLLM would keep the old ones",
            fix="engine=embedded, or policy.lora.rank=32 with policy.lora.targets of the attention",
        )
    return published


@cache
def skeleton(folder: Path) -> Any:
    """The model without numbers: transformers reads from it how names and tensors go back."""
    config = configuration(folder)
    with torch.device("meta"):
        return family_of(config).from_config(config)


@cache
def names(folder: Path) -> frozenset[str]:
    """The tensors in the safetensors files of a folder, by their headers."""
    tensor_names: set[str] = set()
    for path in folder.glob("*.safetensors"):
        with path.open("rb") as file:
            header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        tensor_names |= header.keys() - {"__metadata__"}
    return frozenset(tensor_names)
