"""Reasoning by the policy, answer by the book: what objectives without a verifier train on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import nan
from typing import Any

from gnomon.engines.base import Engine
from gnomon.envs.base import Env, SingleTurn
from gnomon.errors import ConfigError
from gnomon.keys import Key
from gnomon.models.tokenizer import Tokenizer
from gnomon.rollout.actor import Actor, one_turn
from gnomon.types import Group, Rollout, Status, Task, Verdict

__all__ = ["Splicer"]

OPEN, CLOSE = "<answer>", "</answer>"


class Splicer(Actor):
    """Samples up to the opening of the answer slot and puts the reference answer behind it.

    A rollout that never opens its slot has no answer tokens. What training is like is not judged; `play`, and
    so every evaluation, is that of a plain actor.
    """

    def __init__(self, env: Env, tokenizer: Tokenizer, engine: Engine, **settings: Any) -> None:
        if not isinstance(env, SingleTurn):
            raise ConfigError(
                "E037",
                "the environment has no reference answers",
                where=type(env).__name__,
                why="this objective scores a reference answer after the policy's own reasoning",
                fix="use an environment with `solution(task)` (a SingleTurn), or objective=rloo",
            )
        one_turn(env)
        super().__init__(env, tokenizer, engine, **settings)
        self.solution = env.solution

    async def collect(self, tasks: Sequence[tuple[int, Task]], key: Key) -> list[Group]:
        groups = await self.play(tasks, key, self.group, replace(self.sampling, stop=(OPEN,)))
        return [replace(group, rollouts=tuple(map(self._spliced, group.rollouts))) for group in groups]

    def _spliced(self, rollout: Rollout) -> Rollout:
        (turn,) = rollout.turns
        completion = turn.completion
        if completion.text.endswith(OPEN):
            answer = self.solution(rollout.task) + CLOSE
            given = self.tokenizer.encode(answer)
            completion = replace(
                completion,
                token_ids=completion.token_ids + given,
                logprobs=completion.logprobs + (nan,) * len(given),
                text=completion.text + answer,
            )
        unjudged = Verdict(status=Status.UNJUDGED, parts=(), detail="the reference answer was given")
        return replace(rollout, turns=(replace(turn, completion=completion),), verdict=unjudged)
