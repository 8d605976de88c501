"""In which numbers a policy computes, and which ones an optimiser moves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor

from gnomon.errors import ModelError
from gnomon.models.backends import overflows
from gnomon.models.stored import Stored

__all__ = ["Masters", "Moved", "Precision", "at_least", "require_fitting", "require_range", "shapes_of", "whole"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Precision:
    """The dtypes of a policy."""

    master: torch.dtype = torch.float32
    """Of the weights that an optimiser moves and a checkpoint keeps."""
    compute: torch.dtype = torch.float32
    """Of the parameters in forward and backward passes."""
    logp: torch.dtype = torch.float32
    """The coarsest dtype of scores over the vocabulary, and of all that is made of them."""

    @classmethod
    def only(cls, dtype: torch.dtype) -> Precision:
        """Of a policy that keeps nothing finer than it computes with: a sampler's, or one that is never trained."""
        return cls(master=dtype, compute=dtype)

    @property
    def alone(self) -> Precision:
        """Of a policy that computes in the same dtype and is never trained."""
        return Precision.only(self.compute)

    @property
    def rounds(self) -> bool:
        """Whether the policy computes with rounded copies of its masters."""
        return torch.finfo(self.compute).bits < torch.finfo(self.master).bits


def require_range(family: str, dtype: torch.dtype | str, where: str = "policy.dtype") -> None:
    """Raises: ModelError E326 for a model that overflows in this dtype. Args: family: `model_type` of its config."""
    if str(dtype).removeprefix("torch.") == "float16" and overflows(family):
        raise ModelError(
            "E326",
            f"models of the family {family} overflow in float16",
            where=where,
            why="their hidden states exceed 65504, the largest number of float16",
            fix=f"{where}=bfloat16",
        )


class Moved(Protocol):
    """The parameters that an optimiser moves, and how the policy takes their values."""

    @property
    def parameters(self) -> Mapping[str, Tensor]: ...

    def round(self) -> None:
        """Give the policy the values of the parameters."""
        ...

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Copy weights in. Raises: ModelError E304 when names or shapes differ."""
        ...


class Masters:
    """The parameters that an optimiser moves: those of the policy itself, or finer copies where it computes coarser.

    A step of 1e-6 is less than half a unit in the last place of most bfloat16 weights, so rounding would undo it. Every
    backward pass adds its gradient to the masters in their dtype and leaves none on the policy; `round` gives the
    policy the masters' values, rounded.

    Args: own, the policy's parameters by name; their values are the masters' first ones.
    Source: Micikevicius et al. 2018 (mixed precision training), arXiv 1710.03740, §3.1.
    """

    def __init__(self, own: Mapping[str, Tensor], precision: Precision) -> None:
        self._own, self._rounds = dict(own), precision.rounds
        self.parameters: Mapping[str, Tensor] = dict(own)
        if self._rounds:
            copies = {name: value.detach().to(precision.master, copy=True) for name, value in own.items()}
            self.parameters = {name: value.requires_grad_() for name, value in copies.items()}
        for name, value in own.items():
            value.data = value.data.to(precision.compute)
            if self._rounds:
                value.register_post_accumulate_grad_hook(  # type: ignore[no-untyped-call]
                    partial(move_gradient, self.parameters[name])
                )

    @torch.no_grad()
    def round(self) -> None:
        """Give the policy the values of the masters, rounded to what it computes in."""
        if self._rounds:
            for name, value in self._own.items():
                value.copy_(self.parameters[name])

    @torch.no_grad()
    def load(self, state: Mapping[str, Tensor]) -> None:
        """Copy weights in. Raises: ModelError E304 when names or shapes differ."""
        require_fitting(self.parameters, shapes_of(state))
        for name, value in self.parameters.items():
            value.copy_(state[name])
        self.round()


def shapes_of(state: Mapping[str, Tensor]) -> Mapping[str, tuple[int, ...]]:
    """Shapes of tensors by name. Those in a file are not read for it."""
    return state.shapes() if isinstance(state, Stored) else {name: tuple(value.shape) for name, value in state.items()}


def require_fitting(own: Mapping[str, Tensor], shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Raises: ModelError E304 when names or shapes of the weights are not those of the model."""
    wrong = sorted(own.keys() ^ shapes.keys()) or [name for name, p in own.items() if tuple(p.shape) != shapes[name]]
    if wrong:
        raise ModelError("E304", f"weights do not fit the model: {', '.join(wrong[:3])} …")


def move_gradient(master: Tensor, own: Tensor) -> None:
    """Add the gradient of a parameter to its master, and leave none on the parameter."""
    assert own.grad is not None
    gradient = own.grad.to(master.dtype)
    master.grad = gradient if master.grad is None else master.grad.add_(gradient)
    own.grad = None


def whole(value: Tensor) -> Tensor:
    """All of a tensor, on every process that holds a part of it. Each of them must call this."""
    return value.full_tensor() if isinstance(value, DTensor) else value


def at_least(values: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
    """The values in this dtype where they are coarser, else as they are."""
    return values.to(torch.promote_types(values.dtype, dtype))
