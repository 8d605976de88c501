"""Two sides play each other over the same deals, each in both seats."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gnomon.engines.base import Engine
from gnomon.envs.base import Env
from gnomon.envs.workers import EnvWorkers, verdicts_of
from gnomon.errors import ConfigError
from gnomon.keys import Key
from gnomon.models.tokenizer import Tokenizer
from gnomon.rendering import Renderer
from gnomon.rollout.actor import Actor, Limits
from gnomon.types import Sampling, Status, Task

__all__ = ["Deal", "Match"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Deal:
    """One deal that two sides played twice, with the seats changed in between."""

    index: int
    """Of the task."""
    rewards: tuple[tuple[float, float], tuple[float, float]]
    """Of the one side and the other: first where the one side sat in seat 0, then where the other did."""

    @property
    def gain(self) -> float:
        """Mean reward of the one side less that of the other: what the seats and the cards did to both is gone."""
        return sum(one - other for one, other in self.rewards) / 2


class Match(Actor):
    """Plays an environment of two seats, a side in each.

    Args: engine: of one of the sides, whichever.
    Raises: ConfigError E183 for an environment that has not two seats.
    """

    def __init__(
        self,
        env: Env,
        tokenizer: Tokenizer,
        engine: Engine,
        *,
        sampling: Sampling,
        renderer: Renderer | None = None,
        workers: EnvWorkers | None = None,
        limits: Limits | None = None,
    ) -> None:
        super().__init__(
            env, tokenizer, engine, group=1, sampling=sampling, renderer=renderer, workers=workers, limits=limits
        )
        if self.workers.players != 2:
            raise ConfigError(
                "E183",
                f"the environment has {self.workers.players} players, and a match needs two",
                where=type(env).__name__,
                fix="choose a game for two players: --env kuhn_poker, nim or tic_tac_toe (gnomon env list)",
            )

    async def contest(self, one: Engine, other: Engine, tasks: Sequence[tuple[int, Task]], key: Key) -> list[Deal]:
        """Every task twice, with the same chance of its own. Deals that the environment broke are left out.

        Raises: VerifierError E104 when it broke too many.
        """
        plays = self.plays(tasks, key, (0, 1))
        for play in plays:
            play.key = key.at("episode", task=play.index)
            play.voices = (other, one) if play.sample else (one, other)
        await self.finish(plays, key)
        self.count(plays)
        found = []
        for first, second in zip(plays[::2], plays[1::2], strict=True):
            ends = [verdicts_of(play.step) for play in (first, second)]
            (a, b), (d, c) = [[v.reward for v in end if v is not None] for end in ends]
            if not any(v is None or v.status is Status.FAILED for end in ends for v in end):
                found.append(Deal(index=first.index, rewards=((a, b), (c, d))))
        return found
