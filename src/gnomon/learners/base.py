"""The mind: what a learner is."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from gnomon.learners.batch import Batch
from gnomon.models.weights import Weights
from gnomon.objectives import Objective
from gnomon.stats import Stat

__all__ = ["Learner"]


class Learner(Protocol):
    """Owns the weights and what the optimiser remembers."""

    def prepare(self, batch: Batch, objective: Objective, *, updates: int = 1) -> Batch:
        """Give every token its advantage, and whatever else the objective asks of the learner."""
        ...

    def forward_backward(self, batch: Batch, objective: Objective) -> dict[str, Stat]:
        """Add the batch's gradient of the objective to what has been gathered since the last step."""
        ...

    def optim_step(self) -> dict[str, Stat]:
        """Take one step uphill with the gathered gradient and forget it."""
        ...

    def save_state(self, folder: Path) -> None:
        """Write everything a bitwise continuation needs; the folder is a model folder too."""
        ...

    def load_state(self, folder: Path) -> None: ...

    def weights(self) -> Weights:
        """The present version, for engines."""
        ...
