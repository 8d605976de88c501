"""Feedback as a condition: learn what earns which, then ask for the best and learn from what comes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import nan
from typing import Any

from gnomon.engines.base import Engine
from gnomon.envs.base import Env
from gnomon.keys import Key
from gnomon.models.tokenizer import Tokenizer
from gnomon.models.weights import WeightsRef
from gnomon.rendering import Transcript
from gnomon.rollout.actor import Actor, one_turn
from gnomon.types import Group, Message, Rollout, Status, Task

__all__ = ["WISH", "Conditioned"]

WISH = Status.CORRECT
"""The feedback that the policy is asked to earn."""


class Conditioned(Actor):
    """Samples with the desired feedback before the task, and trains each reply behind the feedback that it received.

    The initial policy does not know what feedback in a prompt means. So the first steps learn from replies that it
    writes to the task alone; the fit is π(o|c) ∝ π₀(o)·p(c|o). Evaluations always put the desired feedback first.

    Args:
        base: copies of the initial weights, which are never updated.
        offline: number of first steps of the run whose rollouts are sampled from the base.
    Source: FCP 2025 (feedback-conditional policy), arXiv 2509.22638.
    """

    def __init__(
        self, env: Env, tokenizer: Tokenizer, engine: Engine, *, base: WeightsRef, offline: int, **settings: Any
    ) -> None:
        one_turn(env)
        super().__init__(env, tokenizer, engine, **settings)
        self.base, self.present, self.step, self.offline = base, base, 0, offline
        shared = {"workers": self.workers, "renderer": self.renderer}
        self.plain = Actor(env, tokenizer, engine, **{**settings, **shared})

    def begun(self, messages: Sequence[Message]) -> Transcript:
        return super().begun([condition(WISH), *messages])

    async def sync(self, weights: WeightsRef, step: int) -> None:
        self.present, self.step = weights, step
        await super().sync(weights, step)

    async def collect(self, tasks: Sequence[tuple[int, Task]], key: Key) -> list[Group]:
        if self.step < self.offline:
            await self.plain.sync(self.base, self.step)
            groups = await self.plain.collect(tasks, key)
            await super().sync(self.present, self.step)
        else:
            groups = await self.play(tasks, key, self.group)
        return [replace(group, rollouts=tuple(map(self._relabelled, group.rollouts))) for group in groups]

    def _relabelled(self, rollout: Rollout) -> Rollout:
        """The same tokens behind the feedback they earned; nobody sampled them there."""
        (turn,) = rollout.turns
        completion = replace(turn.completion, logprobs=(nan,) * len(turn.completion.token_ids))
        told = (condition(rollout.verdict.status), *rollout.task.messages)
        talk = super().begun(told)
        turn = replace(turn, prompt_ids=talk.token_ids, completion=completion, messages=told, given=talk.segments)
        return replace(rollout, turns=(turn,))


def condition(status: Status) -> Message:
    """The feedback as a line of its own."""
    return Message(role="system", content=f"<EF>{status.value}</EF>")
