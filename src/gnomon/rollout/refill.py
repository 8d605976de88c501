"""Dynamic sampling: further tasks in place of those that teach a comparison nothing."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

from gnomon.engines.base import Engine
from gnomon.envs.base import Env
from gnomon.keys import Key
from gnomon.models.tokenizer import Tokenizer
from gnomon.rollout.actor import Actor, together
from gnomon.types import Group, Task

__all__ = ["Refilled", "further", "mixed"]


class Refilled(Actor):
    """Samples as many further tasks as groups are all right or all wrong, until enough are neither.

    What is trained is always as many groups as were planned: the first that are neither, in the order sampled, and
    where even the last round leaves too few, the first of the others. All that was sampled is returned, and so
    recorded and counted; what is not trained is `spare`. With enough groups the expected gradient of a row that
    learns nothing from the others is E[g]/P(0 < K < N): longer, in the same direction.

    Args:
        rounds: most times per step that further tasks are sampled.
        among: indices of the train tasks to draw from; none means all.
    Source: Yu et al. 2025 (DAPO), arXiv 2503.14476, §3.2.
    Differs: a round samples what is still missing, there as much as the first; a step that runs out of rounds
        trains on what it has, there the run ends.
    """

    def __init__(
        self,
        env: Env,
        tokenizer: Tokenizer,
        engine: Engine,
        *,
        rounds: int,
        among: Sequence[int] = (),
        **settings: Any,
    ) -> None:
        super().__init__(env, tokenizer, engine, **settings)
        self.rounds, self.among = rounds, among

    async def collect(self, tasks: Sequence[tuple[int, Task]], key: Key) -> list[Group]:
        groups = await self.play(tasks, key, self.group)
        for turn in range(self.rounds):
            missing = max(0, len(tasks) - sum(map(mixed, groups)))
            met = {group.index for group in groups}
            more = further(self.env.tasks("train"), self.among, missing, met, key.at("refill", round=turn))
            if not more:
                break
            with together(groups):
                groups += await self.play(more, key, self.group)
        order = sorted(range(len(groups)), key=lambda place: (not mixed(groups[place]), place))
        trained = set(order[: len(tasks)])
        return [replace(group, spare=place not in trained) for place, group in enumerate(groups)]


def further(
    tasks: Sequence[Task], among: Sequence[int], count: int, met: Collection[int], key: Key
) -> list[tuple[int, Task]]:
    """Different tasks that a step has not met yet, each with its index; fewer where there are no more.

    Args: among: indices to draw from, none means all; count: 0 or more; met: indices to leave out.
    """
    indices = among or range(len(tasks))
    drawn = key.random().sample(indices, min(count + len(met), len(indices)))
    return [(index, tasks[index]) for index in drawn if index not in met][:count]


def mixed(group: Group) -> bool:
    """Whether some of its rollouts are right, and some are not."""
    return 0 < sum(rollout.verdict.correct for rollout in group.rollouts) < len(group.rollouts)
