"""Feedback as a condition: ask for the best, learn from what came."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import nan
from typing import Any

from gnomon.engines.base import Engine
from gnomon.envs.base import Env
from gnomon.keys import Key
from gnomon.models.tokenizer import Tokenizer
from gnomon.rendering import Transcript
from gnomon.rollout.actor import Actor, one_turn
from gnomon.types import Group, Message, Rollout, Status, Task

__all__ = ["WISH", "Conditioned"]

WISH = Status.CORRECT
"""The feedback that the policy is asked to earn."""


class Conditioned(Actor):
    """Puts the wished-for feedback before the task; what is trained stands behind the feedback that came.

    Evaluations ask for the same: this is how such a policy is used.
    Source: Luo et al. 2025 (feedback-conditional policy), arXiv 2509.22638.
    """

    def __init__(self, env: Env, tokenizer: Tokenizer, engine: Engine, **settings: Any) -> None:
        one_turn(env)
        super().__init__(env, tokenizer, engine, **settings)

    def begun(self, messages: Sequence[Message]) -> Transcript:
        return super().begun([condition(WISH), *messages])

    async def collect(self, tasks: Sequence[tuple[int, Task]], key: Key) -> list[Group]:
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
