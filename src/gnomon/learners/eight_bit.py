"""AdamW whose moments are numbers of 8 bits, by bitsandbytes. Extra `gnomon[low-memory]`."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

from gnomon.errors import ConfigError

__all__ = ["adamw_8bit", "from_store", "to_store"]

MAPS = {"qmap1": "dynamic", "qmap2": "udynamic"}
"""Of the state of a tensor in 8 bits: the values that the numbers stand for, and their names in the optimiser. They
are constants, so a checkpoint does not hold them."""


def adamw_8bit(
    parameters: Iterable[Tensor], *, betas: tuple[float, float], eps: float, weight_decay: float
) -> torch.optim.Optimizer:
    """An optimiser with the learning rate 0.

    Moments are stored in blocks of 256 numbers with one float32 scale each; those of a tensor with fewer than 4,096
    elements stay float32.

    Source: Dettmers et al. 2021 (8-bit optimizers), arXiv 2110.02861, §2.
    Raises: ConfigError E058 without bitsandbytes.
    """
    if not find_spec("bitsandbytes"):
        raise ConfigError(
            "E058",
            "optim.states=8bit needs the package bitsandbytes, which is not installed",
            where="optim.states",
            why="moments in 8 bits are an optional extra",
            fix='pip install "gnomon[low-memory]"',
        )
    logging.getLogger("bitsandbytes").setLevel(logging.ERROR)  # It warns of kernels that an optimiser does not use.
    from bitsandbytes.optim import AdamW8bit

    optimizer: torch.optim.Optimizer = AdamW8bit(parameters, lr=0.0, betas=betas, eps=eps, weight_decay=weight_decay)
    return optimizer


def to_store(state: Mapping[str, Any]) -> dict[str, Tensor]:
    """What a checkpoint keeps of the state of one parameter, of any optimiser."""
    return {
        kind: value if isinstance(value, Tensor) else torch.tensor(value, device="cpu")
        for kind, value in state.items()
        if kind not in MAPS
    }


def from_store(optimizer: torch.optim.Optimizer, stored: Mapping[str, Tensor]) -> dict[str, Any]:
    """The state of one parameter from what `kept` gave."""
    state: dict[str, Any] = dict(stored)
    if "state1" not in state:
        return state
    state["step"] = int(state["step"])
    if state["state1"].dtype == torch.uint8:
        maps: Mapping[str, Tensor] = optimizer.name2qmap  # type: ignore[attr-defined] # of bitsandbytes
        state |= {kind: maps[name].to(state["state1"].device) for kind, name in MAPS.items()}
    return state
