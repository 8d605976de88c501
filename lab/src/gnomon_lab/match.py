"""A match: two policies play each other over the same deals, each as both players."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gnomon.engines.base import Engine
from gnomon.envs.base import Env
from gnomon.envs.workers import verdicts_of
from gnomon.errors import ConfigError
from gnomon.keys import Key
from gnomon.rollout.actor import all_of
from gnomon.rollout.failures import Failures
from gnomon.rollout.runner import Episode, LocalRunner, reply_keys
from gnomon.rollout.speakers import Sampler
from gnomon.types import Sampling, Status, Task

__all__ = ["Deal", "Match"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Deal:
    """One deal that two policies played twice, with swapped players."""

    index: int
    """Of the task."""
    rewards: tuple[tuple[float, float], tuple[float, float]]
    """Rewards of both policies: first with the one as player 0, then with the other as player 0."""

    @property
    def gain(self) -> float:
        """Mean reward of the one policy minus that of the other. The effects of order and cards cancel."""
        return sum(one - other for one, other in self.rewards) / 2


class Match:
    """Plays an environment of two players with two policies.

    Args: runner: runs the games.
    Raises: ConfigError E183 if the environment does not have two players.
    """

    def __init__(self, env: Env, runner: LocalRunner, sampling: Sampling) -> None:
        self.env, self.runner, self.sampling = env, runner, sampling
        self.failures = Failures(type(env).__name__, runner.limits.failures)
        if runner.workers.players != 2:
            raise ConfigError(
                "E183",
                f"the environment has {runner.workers.players} players, and a match needs two",
                where=type(env).__name__,
                fix="choose a game for two players: --env kuhn_poker, nim or tic_tac_toe (gnomon env list)",
            )

    async def contest(self, one: Engine, other: Engine, tasks: Sequence[tuple[int, Task]], key: Key) -> list[Deal]:
        """Play every task twice with the same random draws. Deals in which the environment failed are left out.

        Raises: VerifierError E104 if it failed in too many.
        """
        sides = Sampler(one, self.runner.renderer), Sampler(other, self.runner.renderer)
        plan = [
            (
                index,
                game,
                Episode(
                    task=task,
                    key=key.at("episode", task=index),
                    speakers=sides[:: -1 if game else 1],
                    reply_key=reply_keys(key, index, game),
                    sampling=self.sampling,
                ),
            )
            for index, task in tasks
            for game in (0, 1)
        ]
        games = await all_of([self.runner.run(episode) for _, _, episode in plan])
        last = [(index, played.rollout(0, game)) for (index, game, _), played in zip(plan, games, strict=True)]
        self.failures.count(len(games), [end for end in last if end[1].verdict.status is Status.FAILED])
        deals = []
        for (index, _), first, second in zip(tasks, games[::2], games[1::2], strict=True):
            ends = [verdicts_of(game.step) for game in (first, second)]
            (a, b), (d, c) = [[v.reward for v in end if v is not None] for end in ends]
            if not any(v is None or v.status is Status.FAILED for end in ends for v in end):
                deals.append(Deal(index=index, rewards=((a, b), (c, d))))
        return deals
