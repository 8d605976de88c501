"""Parameters under the names that a model folder's files have: transformers joins experts into one parameter."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import AutoModelForCausalLM
from transformers.core_model_loading import revert_weight_conversion

from gnomon.errors import ModelError
from gnomon.models.policy import configuration

__all__ = ["as_published"]


def as_published(folder: Path, state: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
    """Parameters as the folder's files name and cut them.

    Args: state: every parameter of the folder's model, by the names of transformers.
    Raises: ModelError E339 for joined experts that transformers cannot take apart, since another program would leave
        the experts that it has in their place.
    """
    stored = names(folder)
    if stored.issuperset(state):
        return state
    published: Mapping[str, Tensor] = revert_weight_conversion(skeleton(folder), dict(state))
    unknown = sorted(name for name in published if name not in stored)
    if unknown:
        raise ModelError(
            "E339",
            f"the weights {', '.join(unknown[:3])} have other names in the model folder",
            where=str(folder),
            why="transformers joins the experts of this family and has no way back, so vLLM would keep the old ones",
            fix="engine=embedded, or policy.lora.rank=32 with policy.lora.targets of the attention",
        )
    return published


@cache
def skeleton(folder: Path) -> Any:
    """The model without numbers: transformers reads from it how names and tensors go back."""
    with torch.device("meta"):
        return AutoModelForCausalLM.from_config(configuration(folder))


@cache
def names(folder: Path) -> frozenset[str]:
    """The tensors in the safetensors files of a folder, by their headers."""
    tensor_names: set[str] = set()
    for path in folder.glob("*.safetensors"):
        with path.open("rb") as file:
            header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        tensor_names |= header.keys() - {"__metadata__"}
    return frozenset(tensor_names)
