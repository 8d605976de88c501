"""Active selection of tasks: sample more than are trained on, and keep where the policy is least sure what to say."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from gnomon.engines.base import Engine
from gnomon.envs.base import Env
from gnomon.keys import Key
from gnomon.models.tokenizer import Tokenizer
from gnomon.rollout.actor import Actor
from gnomon.rollout.refill import chosen, further
from gnomon.types import Group, Task

__all__ = ["Uncertain", "predictive_entropy"]


class Uncertain(Actor):
    """Samples several times the planned number of tasks, and trains on the planned number with the highest entropy.

    A task is trained on in all its seats, or in none. All groups are returned, and so recorded and counted; groups that
    are not trained on are `spare`.

    Args:
        candidates: tasks sampled for each that is trained on.
        among: indices of the train tasks to draw from; none means all.
    Source: Muldrew et al. 2024 (active preference learning), arXiv 2402.08114.
    Differs: spare rollouts are judged too. In the paper a person judges, and the aim is fewer judgements; here it is
        fewer rollouts to train on.
    """

    def __init__(
        self,
        env: Env,
        tokenizer: Tokenizer,
        engine: Engine,
        *,
        candidates: int,
        among: Sequence[int] = (),
        **settings: Any,
    ) -> None:
        super().__init__(env, tokenizer, engine, **settings)
        self.candidates, self.among = candidates, among

    async def collect(self, tasks: Sequence[tuple[int, Task]], key: Key) -> list[Group]:
        more = (self.candidates - 1) * len(tasks)
        met = {index for index, _ in tasks}
        offered = [*tasks, *further(self.env.tasks("train"), self.among, more, met, key.at("candidates"))]
        groups = await self.play(offered, key, self.group)
        return chosen(groups, len(tasks), predictive_entropy)


def predictive_entropy(groups: Sequence[Group]) -> float:
    """What the rollouts of a task, in all its seats, say of the entropy of what a seat replies to it, in nats.

    Equation: −1/N Σᵢ log π(yᵢ|x), an unbiased estimate of H(π(·|x)).
    """
    rollouts = [rollout for group in groups for rollout in group.rollouts]
    said = (logp for rollout in rollouts for turn in rollout.turns for logp in turn.completion.logprobs)
    return -math.fsum(said) / len(rollouts)
