"""When the batches of a run are sampled: each when it is needed, or some while earlier ones are trained.

With a lag of S, batch k is sampled with the weights that k − S batches have trained, so sampling never waits for the
batches between them. Which rollouts make a batch, and with which weights, follows from its number alone: not from the
clock, the number of processes, or which episode ends first. So a run with a lag repeats its bytes too.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Protocol

from safetensors.torch import load_file, save_file

from gnomon.engines.threaded import LoopThread, Thread
from gnomon.models.weights import Kind, WeightsRef
from gnomon.rollout.actor import Actor
from gnomon.rollout.order import Planned
from gnomon.stats import Max, Mean, Stats, merge
from gnomon.types import Group

__all__ = ["Ahead", "Batches", "InTurn", "Order"]

Order = Callable[[int], Planned]

OPEN = "ahead.json"
"""File of a checkpoint: with which weights the unfinished batches are sampled."""


class Batches(Protocol):
    """The rollouts of consecutive steps."""

    @property
    def actors(self) -> Sequence[Actor]:
        """Those that sample the batches."""
        ...

    @property
    def exact(self) -> bool:
        """Whether the sampler's log-probabilities must be equal in every bit to those of the weights being trained."""
        ...

    async def take(self, step: int, weights: WeightsRef, order: Order) -> list[Group]:
        """The groups of a step. Args: weights: those that the step begins with."""
        ...

    def counts(self) -> Stats:
        """Metrics of the batch that was taken last."""
        ...

    def save_state(self, folder: Path) -> None:
        """Write the state for the next steps of a run into a checkpoint."""
        ...

    def load_state(self, folder: Path) -> None:
        """Restore the state from a checkpoint."""
        ...

    def close(self) -> None:
        """End what is still being sampled."""
        ...


class InTurn:
    """Every batch is sampled when its step begins, with the newest weights. Args: actor: it holds them already."""

    def __init__(self, actor: Actor) -> None:
        self.actors = (actor,)

    @property
    def exact(self) -> bool:
        return self.actors[0].exact

    async def take(self, step: int, weights: WeightsRef, order: Order) -> list[Group]:
        tasks, key = order(step)
        return await self.actors[0].collect(tasks, key)

    def counts(self) -> Stats:
        return self.actors[0].counts()

    def save_state(self, folder: Path) -> None:
        """Nothing: no batch is unfinished between two steps."""

    def load_state(self, folder: Path) -> None:
        """Nothing."""

    def close(self) -> None:
        """Nothing is being sampled between two steps."""


class Ahead:
    """Batches are sampled while earlier ones are trained, in a thread of their own.

    Args:
        actors: lag + 1, each with an engine of its own, because unfinished batches have different weights.
        steps: number of batches of the run.
        thread: where they are sampled; by default a new one, when the first batch begins.
    """

    exact = False
    """A batch is trained by later weights than those that sampled it."""

    def __init__(self, actors: Sequence[Actor], steps: int, thread: Thread | None = None) -> None:
        self.actors, self.lag, self.steps = tuple(actors), len(actors) - 1, steps
        self._open: dict[int, tuple[WeightsRef, Future[list[Group]]]] = {}
        """Unfinished batches, by step, with their weights."""
        self._restored: dict[int, WeightsRef] = {}
        """Weights of batches that were unfinished at the checkpoint, by step."""
        self._stats: Stats = {}
        self._thread = thread

    async def take(self, step: int, weights: WeightsRef, order: Order) -> list[Group]:
        missing = [k for k in range(step, min(step + self.lag + 1, self.steps)) if k not in self._open]
        newest = weights.copy() if any(k not in self._restored for k in missing) else weights
        for k in missing:
            self._begin(k, self._restored.pop(k, newest), order)
        _, future = self._open[step]
        groups = await asyncio.wrap_future(future)
        del self._open[step]
        self._stats = staleness(groups, weights.version)
        return groups

    def _begin(self, step: int, weights: WeightsRef, order: Order) -> None:
        self._thread = self._thread or LoopThread()
        actor, (tasks, key) = self.actors[step % len(self.actors)], order(step)

        async def sample() -> list[Group]:
            await actor.sync(weights, step)
            return await actor.collect(tasks, key)

        self._open[step] = weights, self._thread.submit(sample())

    def counts(self) -> Stats:
        stats = self._stats
        for actor in self.actors:
            stats = merge(stats, actor.counts())
        return stats

    def save_state(self, folder: Path) -> None:
        """Write the weights of the unfinished batches, each version once: they are sampled again after a resume."""
        unfinished = {step: weights for step, (weights, _) in self._open.items()} | self._restored
        versions = {weights.version: weights for weights in unfinished.values()}
        for version, weights in versions.items():
            save_file({name: value.contiguous() for name, value in weights.read().items()}, folder / file_of(version))
        body = {
            "batches": {str(step): weights.version for step, weights in unfinished.items()},
            "versions": {str(version): facts(weights) for version, weights in versions.items()},
        }
        (folder / OPEN).write_text(json.dumps(body, sort_keys=True), "utf-8")

    def load_state(self, folder: Path) -> None:
        body = json.loads((folder / OPEN).read_text("utf-8"))
        versions = {int(name): load_version(facts, folder) for name, facts in body["versions"].items()}
        self._restored = {int(step): versions[version] for step, version in body["batches"].items()}

    def close(self) -> None:
        if self._thread is not None:
            self._thread.close()
            self._thread = None
        self._open.clear()


def staleness(groups: Sequence[Group], version: int) -> Stats:
    """How many optimiser steps older than `version` the weights of sampled tokens are."""
    completions = [turn.completion for group in groups for rollout in group.rollouts for turn in rollout.turns]
    if not completions:
        return {}
    ages = [(version - own, tokens) for each in completions for own, tokens in each.spans() if tokens]
    total, count = sum(age * tokens for age, tokens in ages), sum(tokens for _, tokens in ages)
    oldest = max((age for age, _ in ages), default=0)
    return {"staleness": Mean(float(total), count), "staleness_max": Max(float(oldest))}


def file_of(version: int) -> str:
    return f"ahead-{version}.safetensors"


def facts(weights: WeightsRef) -> dict[str, Any]:
    """A version without its tensors."""
    return {
        "kind": weights.kind.value,
        "base": weights.base,
        "version": weights.version,
        "probe": weights.probe,
        "probe_logp": weights.probe_logp,
    }


def load_version(facts: dict[str, Any], folder: Path) -> WeightsRef:
    """A version from a checkpoint, with its tensors in memory, because the checkpoint may be deleted."""
    return WeightsRef(
        kind=Kind(facts["kind"]),
        base=facts["base"],
        version=facts["version"],
        tensors=load_file(folder / file_of(facts["version"])),
        probe=tuple(facts["probe"]),
        probe_logp=tuple(facts["probe_logp"]),
    )
