"""A learner that shares its device with an engine, so that only one of them computes at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from gnomon.learners import batch as learning
from gnomon.learners.base import Closing, FloatArray, Learner, Model, Named
from gnomon.models.weights import WeightsRef
from gnomon.objectives import Coefficients, Objective
from gnomon.stats import Stats

__all__ = ["Alternating"]


class Alternating:
    """Args: learner: which computes; pause: has the engine free its memory, called before every computation."""

    def __init__(self, learner: Learner, pause: Callable[[], None]) -> None:
        self.learner, self._pause = learner, pause

    def score(
        self, sequences: Sequence[learning.TokenSequence], temperature: float = 1.0, model: Model = Model.POLICY
    ) -> list[FloatArray]:
        self._pause()
        return self.learner.score(sequences, temperature, model)

    def forward_backward(self, batch: learning.Batch, objective: Objective | Named | Coefficients) -> Stats:
        self._pause()
        return self.learner.forward_backward(batch, objective)

    def optim_step(self, lr: float) -> Stats:
        self._pause()
        return self.learner.optim_step(lr)

    def save_state(self, folder: Path) -> None:
        self.learner.save_state(folder)

    def load_state(self, folder: Path) -> None:
        self.learner.load_state(folder)

    def publish(self) -> WeightsRef:
        return self.learner.publish()

    def close(self) -> None:
        if isinstance(self.learner, Closing):
            self.learner.close()
