"""What a learner is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from gnomon.learners import batch as learning
from gnomon.models.weights import WeightsRef
from gnomon.objectives import Coefficients, Objective, objective, penalties
from gnomon.stats import Stats

__all__ = ["Closing", "FloatArray", "Learner", "Model", "Named"]

FloatArray = NDArray[np.floating[Any]]


class Model(StrEnum):
    """Which of a learner's models is asked."""

    POLICY = "policy"
    ENTROPY = "entropy"
    """The policy, for the entropy of its next-token distribution in the place of a log-probability."""
    COLLISION = "collision"
    """The policy, for the chance that two draws from that distribution are the same token."""
    REFERENCE = "reference"
    """The policy that stands still."""
    CRITIC = "critic"
    """What the rest of the rollout is expected to earn, in the place of a log-probability."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """An objective by its name and options, as it can be sent to another process."""

    name: str
    """In `gnomon.objectives.TABLE`."""
    options: Mapping[str, Any] = field(default_factory=dict)
    penalty: str = ""
    """In `gnomon.objectives.penalties`, in the place of the row's own; empty keeps that."""
    penalty_weight: float = 0.0

    def row(self) -> Objective:
        """Raises: ValueError for an option out of range."""
        row = objective(self.name, **self.options)
        if self.penalty:
            row = replace(row, penalty=getattr(penalties, self.penalty), penalty_weight=self.penalty_weight)
        return row


class Learner(Protocol):
    """Owns weights and what the optimiser keeps beside them. It sees tokens and coefficients, never text.

    The verbs can travel: arguments and results are plain values and arrays, with `Named` or `Coefficients` for the
    objective. There are six, since scoring and training are asked for at different times and state is saved and loaded.
    """

    def score(
        self, sequences: Sequence[learning.TokenSequence], temperature: float = 1.0, model: Model = Model.POLICY
    ) -> list[FloatArray]:
        """What a model says of every trainable token of each sequence: natural log-probability, entropy, …"""
        ...

    def forward_backward(self, batch: learning.Batch, objective: Objective | Named | Coefficients) -> Stats:
        """Add the gradient of a batch with credit to what has been gathered since the last step.

        Args: objective: whose coefficients are computed here; or the coefficients of every token of the batch.
        """
        ...

    def optim_step(self, lr: float) -> Stats:
        """Take one optimiser step that raises the objective, at this learning rate, and forget the gradient."""
        ...

    def save_state(self, folder: Path) -> None:
        """Write everything that a bitwise continuation needs; the folder is a model folder too."""
        ...

    def load_state(self, folder: Path) -> None: ...

    def publish(self) -> WeightsRef:
        """The present version, for engines."""
        ...


@runtime_checkable
class Closing(Protocol):
    """A learner that has processes of its own."""

    def close(self) -> None:
        """End them."""
        ...
