"""Batches whose completions go on with new weights while they are sampled."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path

from gnomon.engines.threaded import LoopThread, Renewing
from gnomon.models.weights import WeightsRef
from gnomon.rollout.actor import Actor
from gnomon.rollout.batches import Order, staleness
from gnomon.stats import Stats, merge
from gnomon.types import Group

__all__ = ["InFlight"]

OPEN = "in_flight.json"
"""File of a checkpoint: with which weights the unfinished batches began, as `WeightsRef.identity`."""


class InFlight:
    """Batches are sampled ahead by one engine, which loads the newest weights whenever a step begins.

    Batch k begins when step k − lag begins, and is trained in step k as a whole. So no weights of its tokens are older
    than those of step k − lag, and none of its rollouts is left out because it took long. Which token is the first with
    new weights depends on the clock. They are sampled in the engine's thread, or in a new one, which ends with them.

    Args:
        actors: lag + 1, all with this engine, because every unfinished batch has its own.
        steps: number of batches of the run.
    """

    exact = False
    """A token may be older than the weights that it is trained with."""

    def __init__(self, engine: Renewing, actors: Sequence[Actor], steps: int) -> None:
        self.engine, self.actors, self.lag, self.steps = engine, tuple(actors), len(actors) - 1, steps
        self._open: dict[int, Future[list[Group]]] = {}
        """Unfinished batches, by step."""
        self._begun: dict[int, str] = {}
        """Identity of the weights that each of them began with, also before a resume: it names their episodes."""
        self._stats: Stats = {}
        self._thread, self._own = engine.thread, engine.thread is None

    async def take(self, step: int, weights: WeightsRef, order: Order) -> list[Group]:
        self.engine.load(weights)
        for k in range(step, min(step + self.lag + 1, self.steps)):
            if k not in self._open:
                self._open[k] = self._begin(k, weights, order)
        groups = await asyncio.wrap_future(self._open[step])
        del self._open[step], self._begun[step]
        self._stats = staleness(groups, weights.version)
        return groups

    def _begin(self, step: int, weights: WeightsRef, order: Order) -> Future[list[Group]]:
        self._thread = self._thread or LoopThread()
        actor, (tasks, key) = self.actors[step % len(self.actors)], order(step)
        begun = self._begun.setdefault(step, weights.identity)

        async def sample() -> list[Group]:
            await actor.sync(weights, step)
            actor.weights = begun
            return await actor.collect(tasks, key)

        return self._thread.submit(sample())

    def counts(self) -> Stats:
        return merge(self._stats, self.engine.counts())

    def save_state(self, folder: Path) -> None:
        """Write how the unfinished batches began. A resumed run reads their episodes that had ended, and samples the
        others with the newest weights.
        """
        (folder / OPEN).write_text(json.dumps({str(step): begun for step, begun in self._begun.items()}), "utf-8")

    def load_state(self, folder: Path) -> None:
        self._begun = {int(step): begun for step, begun in json.loads((folder / OPEN).read_text("utf-8")).items()}

    def close(self) -> None:
        """Cancel what is still being sampled."""
        for future in self._open.values():
            future.cancel()
        self._open.clear()
        if self._own and self._thread is not None:
            self._thread.close()
            self._thread = None
