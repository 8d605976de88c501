"""One seat learns; the others are played by somebody who does not."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gnomon.engines.base import Engine
from gnomon.envs.base import Env
from gnomon.errors import ConfigError
from gnomon.keys import Key
from gnomon.models.past import Past
from gnomon.models.tokenizer import Tokenizer
from gnomon.models.weights import WeightsRef
from gnomon.rollout.actor import Actor, Play
from gnomon.types import Group, Sampling, Task

__all__ = ["Opponents"]


class Opponents(Actor):
    """Seats the policy once at every table, in a seat drawn by the task's key, and an opponent everywhere else.

    Only the policy's seat gives groups, so nothing is learned from what the opponent said.

    Args:
        opponent: an engine of its own.
        past: earlier weights of the policy, one of which is drawn for the opponent in each training step. Evaluations
            play against the first of them, so that they can be compared. None: the opponent is what it is.
    Raises: ConfigError E181 for an environment of one seat.
    """

    def __init__(
        self, env: Env, tokenizer: Tokenizer, engine: Engine, *, opponent: Engine, past: Past | None, **settings: Any
    ) -> None:
        super().__init__(env, tokenizer, engine, **settings)
        if self.workers.players < 2:
            raise ConfigError(
                "E181",
                "the environment has one player, so an opponent cannot play",
                where=type(env).__name__,
                fix='players.opponent="", or an environment for several players (gnomon env list)',
            )
        self.opponent, self.past = opponent, past

    async def sync(self, weights: WeightsRef, step: int) -> None:
        await super().sync(weights, step)
        if self.past is not None:
            self.past.remember(weights, step)

    def save_state(self, folder: Path) -> None:
        if self.past is not None:
            self.past.save_state(folder)

    def load_state(self, folder: Path) -> None:
        if self.past is not None:
            self.past.load_state(folder)

    async def collect(self, tasks: Sequence[tuple[int, Task]], key: Key) -> list[Group]:
        if self.past is not None:
            self.opponent.load(self.past.draw(key.at("opponent").random()))
        return await super().play(tasks, key, self.group)

    async def play(
        self, tasks: Sequence[tuple[int, Task]], key: Key, group: int, sampling: Sampling | None = None
    ) -> list[Group]:
        if self.past is not None:
            self.opponent.load(self.past.first)
        return await super().play(tasks, key, group, sampling)

    def plays(self, tasks: Sequence[tuple[int, Task]], key: Key, samples: Sequence[int]) -> list[Play]:
        plays = super().plays(tasks, key, samples)
        for play in plays:
            own = key.at("seat", task=play.index).random().randrange(self.workers.players)
            play.voices = tuple(self.engine if at == own else self.opponent for at in range(self.workers.players))
        return plays
