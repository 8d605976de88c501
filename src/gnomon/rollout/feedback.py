"""Feedback-conditional policies: the prompt states the feedback that the reply should receive."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from gnomon.keys import Key
from gnomon.models.weights import WeightsRef
from gnomon.rollout.relabel import WISH, condition
from gnomon.rollout.speakers import Cast, Own, Speaker

__all__ = ["Asked"]


class Asked:
    """Puts the requested feedback before every task, also in evaluations.

    The initial policy does not know the meaning of feedback in a prompt. So the first steps train on its replies to the
    task alone; the fitted policy is π(o|c) ∝ π₀(o)·p(c|o).

    Args:
        base: copies of the initial weights, which are never updated.
        offline: number of first steps of the run whose rollouts are sampled from the base.
        praise: the environment's words for a good reply; by default the status of a correct one.
    Source: FCP 2025 (feedback-conditional policy), arXiv 2509.22638.
    """

    def __init__(self, own: Own, *, base: WeightsRef, offline: int, praise: str = "") -> None:
        self.own, self.base, self.present, self.step, self.offline = own, base, base, 0, offline
        self.wish = condition(praise or WISH)

    def sync(self, weights: WeightsRef, step: int) -> None:
        self.present, self.step = weights, step
        self.own.sync(weights, step)

    def save_state(self, folder: Path) -> None:
        self.own.save_state(folder)

    def load_state(self, folder: Path) -> None:
        self.own.load_state(folder)

    @contextmanager
    def training(self, key: Key, group: int) -> Iterator[Cast]:
        if self.step >= self.offline:
            yield self._speakers
            return
        self.own.sync(self.base, self.step)
        try:
            with self.own.training(key, group) as cast:
                yield cast
        finally:
            self.own.sync(self.present, self.step)

    @contextmanager
    def evaluation(self, key: Key) -> Iterator[Cast]:
        yield self._speakers

    def _speakers(self, index: int, sample: int) -> tuple[Speaker, ...]:
        return (replace(self.own.speaker, preface=(self.wish,)),) * self.own.players
