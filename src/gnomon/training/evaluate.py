"""Measure a policy on held-out tasks: unbiased pass@k, with intervals over different tasks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from gnomon.config import Eval
from gnomon.keys import Key
from gnomon.rollout.actor import Actor
from gnomon.rollout.failures import Unjudged, judged_groups
from gnomon.stats import Interval, mean_interval, pass_at_k
from gnomon.types import Group, Stop, Task

__all__ = ["Evaluation", "EvaluationSet", "evaluate", "first"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """The results of a policy on a set of tasks."""

    groups: tuple[Group, ...]
    kind: str
    """Kind of the records of its rollouts: `held_out`, or `held_out.SET`."""
    version: int
    """Version of the evaluated weights."""
    pass_at: Mapping[int, Interval]
    """pass@k by k: means over the tasks that were played, with intervals over the different ones among them."""
    reward: float
    """Mean over rollouts."""
    length: float
    """Mean number of sampled tokens."""
    truncated: float
    """Fraction of rollouts that reached the token limit."""
    statuses: Mapping[str, int]
    """Counts over all rollouts. All other numbers are over fully judged groups."""

    def body(self) -> dict[str, Any]:
        """The evaluation in plain values, without its rollouts."""
        return {
            "version": self.version,
            "pass_at": {str(k): asdict(interval) for k, interval in self.pass_at.items()},
            "reward": self.reward,
            "length": self.length,
            "truncated": self.truncated,
            "statuses": dict(self.statuses),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationSet:
    """Held-out tasks beside those of the main evaluation, and how the policy plays them. Fixed during a run."""

    name: str
    actor: Actor
    """It samples with the engine of the main evaluation, in an environment and at a temperature of its own."""
    config: Eval

    async def evaluate(self, key: Key, main: Actor) -> Evaluation:
        """Args: key: of the run; main: the actor of the main evaluation. Raises: as `evaluate`."""
        self.actor.step, self.actor.weights = main.step, main.weights
        tasks = first(self.actor.env.tasks("test"), self.config.tasks)
        return await evaluate(self.actor, tasks, key.at("eval", set=self.name), self.config)


def first(tasks: Sequence[Task], count: int) -> list[tuple[int, Task]]:
    """The first tasks of a split, each with its index."""
    return [(index, tasks[index]) for index in range(min(count, len(tasks)))]


async def evaluate(actor: Actor, tasks: Sequence[tuple[int, Task]], key: Key, config: Eval) -> Evaluation:
    """Play every task `config.samples` times with the actor's current weights.

    The key is the same at every evaluation of a run, so two evaluations differ only by the weights.
    Raises: Unjudged, with the held-out groups that were played.
    """
    try:
        groups = await actor.rollouts(tasks, key, config.samples)
        counted = judged_groups(groups)
    except Unjudged as error:
        error.kind = actor.kind
        raise
    rollouts = [rollout for group in counted for rollout in group.rollouts]
    right = [sum(rollout.verdict.correct for rollout in group.rollouts) for group in counted]
    statuses = Counter(rollout.verdict.status.value for group in groups for rollout in group.rollouts)
    ks, ids = sorted({1, *config.pass_at}), [group.task.id for group in counted]
    return Evaluation(
        groups=tuple(groups),
        kind=actor.kind,
        version=actor.engine.version,
        pass_at={k: mean_interval([pass_at_k(config.samples, c, k) for c in right], ids) for k in ks},
        reward=sum(rollout.reward for rollout in rollouts) / len(rollouts),
        length=sum(rollout.tokens for rollout in rollouts) / len(rollouts),
        truncated=sum(rollout.stop is Stop.TRUNCATED for rollout in rollouts) / len(rollouts),
        statuses=dict(sorted(statuses.items())),
    )
