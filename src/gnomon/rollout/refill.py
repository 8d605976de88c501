"""Dynamic sampling: further tasks in place of those that teach a comparison nothing."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

from gnomon.engines.base import Engine
from gnomon.envs.base import Env
from gnomon.keys import Key
from gnomon.models.tokenizer import Tokenizer
from gnomon.rollout.actor import Actor, together
from gnomon.types import Group, Rollout, Task

__all__ = ["Refilled", "chosen", "further", "mixed", "of_tasks"]


class Refilled(Actor):
    """Replaces tasks whose rollouts are all right or all wrong by further tasks, until enough tasks are mixed.

    The planned number of tasks is always trained, each in all its seats: the first mixed ones in the order sampled and,
    if the last round leaves too few, the first of the others. A task of several seats is mixed if one of its groups is;
    with a shared baseline, if all its groups together are. A task that could not be judged is replaced too. All groups
    are returned, and so recorded and counted; groups that are not trained on are `spare`. With enough tasks the
    expected gradient of a row that learns nothing from unmixed tasks is E[g]/P(mixed), for one seat
    E[g]/P(0 < K < N): longer, in the same direction.

    Args:
        rounds: most times per step that further tasks are sampled.
        among: indices of the train tasks to draw from; none means all.
        shared: whether rewards are compared across the seats of a task.
    Source: Yu et al. 2025 (DAPO), arXiv 2503.14476, §3.2.
    Differs: a round samples only the missing tasks, DAPO's as many as the first; a step without rounds left trains on
        what it has, DAPO's run ends.
    """

    def __init__(
        self,
        env: Env,
        tokenizer: Tokenizer,
        engine: Engine,
        *,
        rounds: int,
        among: Sequence[int] = (),
        shared: bool = False,
        **settings: Any,
    ) -> None:
        super().__init__(env, tokenizer, engine, **settings)
        self.rounds, self.among, self.shared = rounds, among, shared

    async def collect(self, tasks: Sequence[tuple[int, Task]], key: Key) -> list[Group]:
        groups = await self.play(tasks, key, self.group)
        for turn in range(self.rounds):
            missing = max(0, len(tasks) - sum(map(self.teaches, of_tasks(groups))))
            met = {group.index for group in groups}
            more = further(self.env.tasks("train"), self.among, missing, met, key.at("refill", round=turn))
            if not more:
                break
            with together(groups):
                groups += await self.play(more, key, self.group)
        return chosen(groups, len(tasks), self.teaches)

    def teaches(self, groups: Sequence[Group]) -> bool:
        """Whether a task was judged, and some rollouts that are compared are neither all right nor all wrong."""
        compared = [[r for group in groups for r in group.rollouts]] if self.shared else [g.rollouts for g in groups]
        return all(group.judged for group in groups) and any(map(mixed, compared))


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
    """The groups of each task of a step, one for each seat that learns."""
    return [list(seats) for _, seats in groupby(groups, lambda group: group.index)]


def mixed(rollouts: Sequence[Rollout]) -> bool:
    """Whether some of them are right, and some are not."""
    return 0 < sum(rollout.verdict.correct for rollout in rollouts) < len(rollouts)
