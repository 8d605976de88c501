"""What an objective sees of a step, trainable tokens laid end to end and the sizes of the whole step; what it makes of
them; and which of the tokens a coefficient depends on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import partial
from typing import Any, TypeVar

import torch
from torch import Tensor

__all__ = ["Coefficients", "Denominators", "Reach", "Tokens", "places_in", "reach_of", "reaches"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokens:
    """Trainable tokens of a step or of a part of it, one flat [T] vector per quantity.

    Prompt, tool and padding tokens never enter, so no formula carries a mask. A part holds everything within the
    reach of the objective that looks at it (`Objective.reach`), in any order: single tokens, whole rollouts or groups.
    """

    logp: Tensor
    """[T] log-probability under the policy being trained. Detached: only its value is used."""
    behavior_logp: Tensor
    """[T] log-probability under the distribution that sampled the token."""
    advantage: Tensor
    """[T] what credit gives each token; equal over a rollout where the reward comes at its end."""
    sequence: Tensor
    """[T] int64, index of the rollout in the whole step, 0 … S−1."""
    group: Tensor
    """[T] int64, index of the group in the whole step."""
    proximal_logp: Tensor | None = None
    """[T] log-probability under the centre of the trust region. None: behavior is the centre."""
    reference_logp: Tensor | None = None
    """[T] log-probability under the anchor of a KL penalty."""
    demonstrated: Tensor | None = None
    """[T] bool, whether the rollout was given rather than sampled. None: none was."""
    right: Tensor | None = None
    """[T] bool, whether the rollout has a reward of at least one."""
    length: Tensor | None = None
    """[T] int64, trainable tokens of the whole rollout, of all its turns. None: all of them are here."""
    position: Tensor | None = None
    """[T] int64, place of a token among those of its rollout that are here, from 0. None: they stand in order."""

    def __post_init__(self) -> None:
        if self.logp.dim() != 1:
            raise ValueError(f"tokens are flat [T] vectors, but logp has shape {list(self.logp.shape)}")
        for name in (
            "behavior_logp",
            "advantage",
            "sequence",
            "group",
            "proximal_logp",
            "reference_logp",
            "demonstrated",
            "right",
            "length",
            "position",
        ):
            values = getattr(self, name)
            if values is not None and values.shape != self.logp.shape:
                raise ValueError(f"{name} has shape {list(values.shape)}, logp {list(self.logp.shape)}")
        for name in ("sequence", "group"):
            if getattr(self, name).dtype != torch.int64:
                raise ValueError(f"{name} is an index and must be int64, not {getattr(self, name).dtype}")
        if self.demonstrated is not None and self.demonstrated.dtype != torch.bool:
            raise ValueError(f"demonstrated says yes or no and must be bool, not {self.demonstrated.dtype}")

    def __len__(self) -> int:
        return self.logp.shape[0]

    @property
    def log_ratio(self) -> Tensor:
        """[T] log(policy/proximal)."""
        return self.logp - self._centre

    @property
    def log_mismatch(self) -> Tensor:
        """[T] log(proximal/behavior)."""
        return self._centre - self.behavior_logp

    @property
    def log_divergence(self) -> Tensor:
        """[T] log(policy/reference). Raises: ValueError where the tokens carry no reference."""
        if self.reference_logp is None:
            raise ValueError("a penalty relative to a reference needs reference_logp on its tokens")
        return self.logp - self.reference_logp

    @property
    def lengths(self) -> Tensor:
        """[T] trainable tokens of the rollout that each token belongs to."""
        return torch.bincount(self.sequence)[self.sequence] if self.length is None else self.length

    @property
    def positions(self) -> Tensor:
        """[T] place of each token among those of its rollout that are here, from 0."""
        return places_in(self.sequence) if self.position is None else self.position

    def per_sequence(self, values: Tensor, timestep: int = 0) -> Tensor:
        """[T] the sum of [T] values over the tokens here of the rollout that each token belongs to.

        Summed from the smallest up, so that no order of the tokens can change a bit of it.
        Args: timestep: tokens of a rollout that are summed together, the first ones first; 0 for all of them.
        """
        owner = self.sequence
        if timestep and len(self):
            steps = self.positions // timestep
            owner = torch.unique(owner * (steps.max() + 1) + steps, return_inverse=True)[1]
        order = values.argsort()
        order = order[owner[order].argsort(stable=True)]
        total = values.new_zeros(int(owner.max()) + 1 if len(self) else 0)
        return total.index_add(0, owner[order], values[order])[owner]

    def per_group(self, values: Tensor) -> Tensor:
        """[T] the sum over the rollouts of the group that each token belongs to, of [T] values equal over a rollout.

        Rollouts count by the tokens that are here; one without a token has none. Summed from the smallest up.
        """
        count, device = len(self), values.device
        rollouts = int(self.sequence.max()) + 1 if count else 0
        index = torch.arange(count, device=device)
        first = torch.full((rollouts,), count, device=device).scatter_reduce(0, self.sequence, index, "amin")
        first = first[first < count]
        once, group = values[first], self.group[first]
        order = once.argsort()
        order = order[group[order].argsort(stable=True)]
        total = values.new_zeros(int(self.group.max()) + 1 if count else 0)
        return total.index_add(0, group[order], once[order])[self.group]

    @property
    def _centre(self) -> Tensor:
        return self.behavior_logp if self.proximal_logp is None else self.proximal_logp


def places_in(owner: Tensor) -> Tensor:
    """[T] how many entries before each have the same number. Args: owner: [T] int64."""
    order, counts = owner.argsort(stable=True), torch.bincount(owner)
    index = torch.arange(len(owner), device=owner.device)
    return torch.empty_like(index).index_copy_(0, order, index - (counts.cumsum(0) - counts)[owner[order]])


@dataclass(frozen=True, slots=True, kw_only=True)
class Denominators:
    """Sizes of the whole step, as planned: known before the first backward, equal in every micro-batch."""

    groups: int
    sequences: int
    """Rollouts planned, those without a single token included."""
    tokens: int
    """Trainable tokens of the whole step."""
    max_tokens: int
    """Length limit of one rollout, in trainable tokens, all its turns together."""
    group_tokens: tuple[int, ...] = ()
    """Trainable tokens of each group of the step, by its index. Only a mean over prompts asks for them."""
    observed: int = 0
    """Tokens that the environment wrote after the first replies. Only `Objective.observation` asks for them."""

    def __post_init__(self) -> None:
        for name, least in (("groups", 1), ("sequences", 1), ("tokens", 0), ("max_tokens", 1)):
            if getattr(self, name) < least:
                raise ValueError(f"{name} of a step must be at least {least}, not {getattr(self, name)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Coefficients:
    """What an objective gives to tokens."""

    kappa: Tensor
    """[T] κ, the factor of ∇log π of each token."""
    weight: Tensor
    """[T] the factor of each token by the aggregate alone, for the terms beside it: entropy bonus and full KL."""
    clipped: Tensor
    """[T] bool, whether the clip or mask of the ratio removed the credit of the token."""
    observation: float = 0.0
    """Weight of the mean log-likelihood of the observed tokens, at least 0."""

    def take(self, tokens: Tensor) -> Coefficients:
        """The coefficients of some of the tokens."""
        return replace(self, kappa=self.kappa[tokens], weight=self.weight[tokens], clipped=self.clipped[tokens])


Part = TypeVar("Part", bound=Callable[..., Tensor])


class Reach(IntEnum):
    """The tokens that the coefficient of a token depends on, beside the sizes of the step."""

    TOKEN = 0
    """Itself alone."""
    SEQUENCE = 1
    """All tokens of its rollout, of every turn."""
    GROUP = 2
    """All tokens of its group."""
    STEP = 3
    """All tokens of the optimiser step. The default for a function that declares nothing."""


def reaches(reach: Reach) -> Callable[[Part], Part]:
    """Declare the reach of a ratio, a correction, an aggregate or a penalty.

    A learner that splits a step computes a coefficient only from all tokens within its reach. If a
    function declares too small a reach, its gradient depends on the split.
    """

    def declare(part: Part) -> Part:
        _DECLARED.append((part, reach))
        return part

    return declare


def reach_of(part: Callable[..., Tensor]) -> Reach:
    """The declared reach of a function, also under `functools.partial`."""
    whole = without_options(part)
    return next((reach for declared, reach in _DECLARED if declared is whole), Reach.STEP)


def without_options(part: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """The function under any `functools.partial`."""
    while isinstance(part, partial):
        part = part.func
    return part


_DECLARED: list[tuple[Callable[..., Any], Reach]] = []
