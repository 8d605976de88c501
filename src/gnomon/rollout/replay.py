"""Batches of which some groups are earlier ones, of the same run or of another run, in place of sampled ones."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from gnomon.keys import Key
from gnomon.models.weights import WeightsRef
from gnomon.rollout.actor import Actor
from gnomon.rollout.batches import Batches, Order, staleness
from gnomon.stats import Mean, Stats
from gnomon.types import Group, Task

__all__ = ["Earlier", "Replay", "draw"]


class Earlier(Protocol):
    """Recorded groups, as `store.RecordedGroups` reads them."""

    seed: int

    def steps(self, before: int | None = None) -> Mapping[int, Sequence[int]]: ...

    def read(self, step: int, task: int) -> list[Group]: ...


class Replay:
    """Replaces some of the tasks of a step by earlier groups. The others are sampled as without it.

    A step draws tasks that it does not sample, uniformly from those with an earlier group, and then one group of each
    task, with the key of the step. So all of a step has different tasks, and a batch follows from its number alone. The
    groups keep the log-probabilities and verdicts that were recorded with them.

    Args:
        fresh: the batches of what is sampled.
        count: number of earlier groups per step, counted in tasks.
        recorded: the groups of another run. None: those of the steps before, which `own` must be set to read; the first
            step then has none.
        among: indices of the tasks to draw from; empty means all.
    """

    exact = False
    """Earlier groups were sampled with other weights than those that are trained."""

    def __init__(
        self, fresh: Batches, count: int, *, recorded: Earlier | None = None, among: Sequence[int] = ()
    ) -> None:
        self.fresh, self.count, self.recorded, self.among = fresh, count, recorded, frozenset(among)
        self.own: Earlier | None = None
        """Reads the groups of the run itself."""
        self._stats: Stats = {}

    @property
    def actors(self) -> Sequence[Actor]:
        return self.fresh.actors

    async def take(self, step: int, weights: WeightsRef, order: Order) -> list[Group]:
        def fewer(number: int) -> tuple[Sequence[tuple[int, Task]], Key]:
            tasks, key = order(number)
            return tasks[: len(tasks) - self._replayed_step(number, len(tasks))], key

        tasks, key = order(step)
        new_groups = await self.fresh.take(step, weights, fewer)
        earlier = self._draw(step, self._replayed_step(step, len(tasks)), {group.index for group in new_groups}, key)
        groups = [*new_groups, *earlier]
        aged = groups if self.recorded is None else []
        share = {"replayed": Mean(float(len(earlier)), len(groups))}
        self._stats = {**self.fresh.counts(), **staleness(aged, weights.version), **share}
        return groups

    def _replayed_step(self, step: int, tasks: int) -> int:
        return min(self.count, tasks) if self.recorded is not None or step else 0

    def _draw(self, step: int, count: int, met: Collection[int], key: Key) -> list[Group]:
        source = self.recorded or self.own
        if not count or source is None:
            return []
        steps_of = source.steps(None if source is self.recorded else step)
        usable = {task: steps for task, steps in steps_of.items() if not self.among or task in self.among}
        return [
            replace(group, replayed=(source.seed, before), spare=False)
            for task, before in draw(usable, count, met, key.at("replay"))
            for group in source.read(before, task)
        ]

    def counts(self) -> Stats:
        return self._stats

    def save_state(self, folder: Path) -> None:
        """Write the state of what is sampled: earlier groups are in the records."""
        self.fresh.save_state(folder)

    def load_state(self, folder: Path) -> None:
        self.fresh.load_state(folder)

    def close(self) -> None:
        self.fresh.close()


def draw(steps: Mapping[int, Collection[int]], count: int, met: Collection[int], key: Key) -> list[tuple[int, int]]:
    """Different tasks, uniformly, and for each one of the steps that played it, uniformly; fewer if there are not
    enough. Args: steps: by task; met: tasks to leave out."""
    free = sorted(set(steps).difference(met))
    tasks = key.random().sample(free, min(count, len(free)))
    return [(task, key.at("visit", task=task).random().choice(sorted(steps[task]))) for task in tasks]
