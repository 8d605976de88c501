"""Select the groups to train on from more than the planned ones: mixed ones, or the most uncertain candidates."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Protocol

from gnomon.keys import Key
from gnomon.rollout.failures import together
from gnomon.types import Group, Rollout, Task

__all__ = [
    "Candidates",
    "Refill",
    "Selector",
    "further",
    "mixed",
    "of_tasks",
    "predictive_entropy",
    "with_spares",
]

Play = Callable[[Sequence[tuple[int, Task]]], Awaitable[list[Group]]]
"""Plays tasks, each with its index, with the group size of a step."""


class Selector(Protocol):
    """Selects the groups that a step trains on."""

    async def groups(self, tasks: Sequence[tuple[int, Task]], key: Key, play: Play) -> list[Group]:
        """All groups that were played; they are recorded and counted. Groups that are not trained on are `spare`.

        Args: tasks: the planned tasks; key: key of the step.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Refill:
    """Dynamic sampling: replaces tasks whose rollouts are all correct or all wrong by further tasks.

    A step always trains on the planned number of tasks, each with all its players: the first mixed ones in sampling
    order and, if too few remain after the last round, the first of the others. A task of several players is mixed if
    one of its groups is; with a shared baseline, if its groups together are. A task that was not judged is also
    replaced. With enough tasks, an objective with zero gradient on unmixed tasks has the expected gradient
    E[g]/P(mixed), for one player E[g]/P(0 < K < N): larger, in the same direction.

    Source: Yu et al. 2025 (DAPO), arXiv 2503.14476, §3.2.
    Differs: a round samples only the missing tasks, DAPO's as many as the first; after the last round a step trains on
        the groups it has, where DAPO stops the run.
    """

    offered: Sequence[Task]
    """The train tasks."""
    rounds: int
    """Largest number of rounds of further sampling per step."""
    among: Sequence[int] = ()
    """Indices of the tasks to draw from; empty means all."""
    shared: bool = False
    """Whether rewards are compared across the players of a task."""

    async def groups(self, tasks: Sequence[tuple[int, Task]], key: Key, play: Play) -> list[Group]:
        groups = await play(tasks)
        for turn in range(self.rounds):
            missing = max(0, len(tasks) - sum(map(self.teaches, of_tasks(groups))))
            met = {group.index for group in groups}
            more = further(self.offered, self.among, missing, met, key.at("refill", round=turn))
            if not more:
                break
            with together(groups):
                groups = [*groups, *await play(more)]
        return with_spares(groups, len(tasks), self.teaches)

    def teaches(self, groups: Sequence[Group]) -> bool:
        """Whether a task was judged, and its compared rollouts are neither all correct nor all wrong."""
        compared = [[r for group in groups for r in group.rollouts]] if self.shared else [g.rollouts for g in groups]
        return all(group.judged for group in groups) and any(map(mixed, compared))


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidates:
    """Active selection: samples several times the planned number of tasks, and trains on those of highest entropy.

    Either all players of a task are trained on, or none.

    Source: Muldrew et al. 2024 (active preference learning), arXiv 2402.08114.
    Differs: spare rollouts are judged too. In the paper a person judges, and the aim is fewer judgements; here it is
        fewer rollouts to train on.
    """

    offered: Sequence[Task]
    """The train tasks."""
    candidates: int
    """Number of tasks sampled per task that is trained on."""
    among: Sequence[int] = ()
    """Indices of the tasks to draw from; empty means all."""

    async def groups(self, tasks: Sequence[tuple[int, Task]], key: Key, play: Play) -> list[Group]:
        more = (self.candidates - 1) * len(tasks)
        met = {index for index, _ in tasks}
        groups = await play([*tasks, *further(self.offered, self.among, more, met, key.at("candidates"))])
        return with_spares(groups, len(tasks), predictive_entropy)


def further(
    tasks: Sequence[Task], among: Sequence[int], count: int, met: Collection[int], key: Key
) -> list[tuple[int, Task]]:
    """Distinct tasks that the step has not used yet, each with its index; fewer if there are not enough.

    Args: among: indices to draw from, empty means all; count: 0 or more; met: indices to exclude.
    """
    indices = among or range(len(tasks))
    draws = key.random().sample(indices, min(count + len(met), len(indices)))
    return [(index, tasks[index]) for index in draws if index not in met][:count]


def with_spares(groups: Sequence[Group], count: int, worth: Callable[[Sequence[Group]], float]) -> list[Group]:
    """The same groups. Those of the `count` tasks with the highest worth are for training, the others are spare.

    Args: count: number of tasks; worth: value of a task's groups. Ties keep the order. A task that was not judged is
        selected only if there is no other.
    """
    tasks = of_tasks(groups)
    order = sorted(tasks, key=lambda task: (not all(group.judged for group in task), -worth(task)))
    indices = {task[0].index for task in order[:count]}
    return [replace(group, spare=group.index not in indices) for group in groups]


def of_tasks(groups: Sequence[Group]) -> list[list[Group]]:
    """The groups of each task of a step, one per learning player."""
    return [list(players) for _, players in groupby(groups, lambda group: group.index)]


def mixed(rollouts: Sequence[Rollout]) -> bool:
    """Whether some rollouts are correct and some are not."""
    return 0 < sum(rollout.verdict.correct for rollout in rollouts) < len(rollouts)


def predictive_entropy(groups: Sequence[Group]) -> float:
    """An estimate of the entropy of a player's replies to a task, from its sampled rollouts, in nats.

    Equation: −1/N Σᵢ log π(yᵢ|x), unbiased for H(π(·|x)). A demonstration was not sampled and does not count.
    """
    logps = [
        [logp for turn in rollout.turns for logp in turn.completion.logprobs]
        for group in groups
        for rollout in group.rollouts
    ]
    replies = [logps for logps in logps if not any(map(math.isnan, logps))]
    return -math.fsum(logp for logps in replies for logp in logps) / max(1, len(replies))
