"""Which groups of a step are trained on: all that were planned, refilled ones, or the most uncertain candidates."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Protocol

from gnomon.keys import Key
from gnomon.rollout.failures import together
from gnomon.types import Group, Rollout, Task

__all__ = ["All", "Candidates", "Refill", "Selector", "chosen", "further", "mixed", "of_tasks", "predictive_entropy"]

Play = Callable[[Sequence[tuple[int, Task]]], Awaitable[list[Group]]]
"""Plays tasks, each with its index, as often as a step plays every task."""


class Selector(Protocol):
    """Chooses what a step is trained on."""

    async def groups(self, tasks: Sequence[tuple[int, Task]], key: Key, play: Play) -> list[Group]:
        """All groups that were played, and so are recorded and counted; those that are not trained on are `spare`.

        Args: tasks: as many as are to be trained on; key: of the step.
        """
        ...


class All:
    """Trains on the planned tasks."""

    async def groups(self, tasks: Sequence[tuple[int, Task]], key: Key, play: Play) -> list[Group]:
        return await play(tasks)


@dataclass(frozen=True, slots=True, kw_only=True)
class Refill:
    """Dynamic sampling: replaces tasks whose rollouts are all right or all wrong by further tasks.

    The planned number of tasks is always trained, each with all its players: the first mixed ones in the order sampled
    and, if the last round leaves too few, the first of the others. A task of several players is mixed if one of its
    groups is; with a shared baseline, if all its groups together are. A task that could not be judged is replaced too.
    With enough tasks the expected gradient of a row that learns nothing from unmixed tasks is E[g]/P(mixed), for one
    player E[g]/P(0 < K < N): longer, in the same direction.

    Source: Yu et al. 2025 (DAPO), arXiv 2503.14476, §3.2.
    Differs: a round samples only the missing tasks, DAPO's as many as the first; a step without rounds left trains on
        what it has, DAPO's run ends.
    """

    offered: Sequence[Task]
    """The train tasks."""
    rounds: int
    """Most times per step that further tasks are sampled."""
    among: Sequence[int] = ()
    """Indices of the tasks to draw from; none means all."""
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
        return chosen(groups, len(tasks), self.teaches)

    def teaches(self, groups: Sequence[Group]) -> bool:
        """Whether a task was judged, and some rollouts that are compared are neither all right nor all wrong."""
        compared = [[r for group in groups for r in group.rollouts]] if self.shared else [g.rollouts for g in groups]
        return all(group.judged for group in groups) and any(map(mixed, compared))


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidates:
    """Active selection: samples several times the planned number of tasks, and trains on those of highest entropy.

    A task is trained on with all its players, or with none.

    Source: Muldrew et al. 2024 (active preference learning), arXiv 2402.08114.
    Differs: spare rollouts are judged too. In the paper a person judges, and the aim is fewer judgements; here it is
        fewer rollouts to train on.
    """

    offered: Sequence[Task]
    """The train tasks."""
    candidates: int
    """Tasks sampled for each that is trained on."""
    among: Sequence[int] = ()
    """Indices of the tasks to draw from; none means all."""

    async def groups(self, tasks: Sequence[tuple[int, Task]], key: Key, play: Play) -> list[Group]:
        more = (self.candidates - 1) * len(tasks)
        met = {index for index, _ in tasks}
        groups = await play([*tasks, *further(self.offered, self.among, more, met, key.at("candidates"))])
        return chosen(groups, len(tasks), predictive_entropy)


def further(
    tasks: Sequence[Task], among: Sequence[int], count: int, met: Collection[int], key: Key
) -> list[tuple[int, Task]]:
    """Different tasks that a step has not met yet, each with its index; fewer where there are no more.

    Args: among: indices to draw from, none means all; count: 0 or more; met: indices to leave out.
    """
    indices = among or range(len(tasks))
    drawn = key.random().sample(indices, min(count + len(met), len(indices)))
    return [(index, tasks[index]) for index in drawn if index not in met][:count]


def chosen(groups: Sequence[Group], count: int, worth: Callable[[Sequence[Group]], float]) -> list[Group]:
    """The same groups; those of the worthiest tasks are for training, the others spare.

    Args: count, of the tasks; worth, of the groups of a task. The first of equals is chosen, and a task that could not
        be judged only where there is no other.
    """
    tasks = of_tasks(groups)
    order = sorted(tasks, key=lambda task: (not all(group.judged for group in task), -worth(task)))
    trained = {task[0].index for task in order[:count]}
    return [replace(group, spare=group.index not in trained) for group in groups]


def of_tasks(groups: Sequence[Group]) -> list[list[Group]]:
    """The groups of each task of a step, one for each player who learns."""
    return [list(players) for _, players in groupby(groups, lambda group: group.index)]


def mixed(rollouts: Sequence[Rollout]) -> bool:
    """Whether some of them are right, and some are not."""
    return 0 < sum(rollout.verdict.correct for rollout in rollouts) < len(rollouts)


def predictive_entropy(groups: Sequence[Group]) -> float:
    """An estimate of the entropy of what a player replies to a task, from its sampled rollouts, in nats.

    Equation: −1/N Σᵢ log π(yᵢ|x), unbiased for H(π(·|x)). A demonstration was not sampled and does not count.
    """
    logps = [
        [logp for turn in rollout.turns for logp in turn.completion.logprobs]
        for group in groups
        for rollout in group.rollouts
    ]
    sampled = [logps for logps in logps if not any(map(math.isnan, logps))]
    return -math.fsum(logp for logps in sampled for logp in logps) / max(1, len(sampled))
