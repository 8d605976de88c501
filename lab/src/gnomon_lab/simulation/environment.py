"""An environment whose calls only take time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from gnomon.envs.base import Step
from gnomon.keys import Key
from gnomon.types import Message, Part, Status, Task, Verdict
from gnomon.verifiers.judging import limit_verdict

__all__ = ["Calls", "Waiting"]

OPENING = (Message(role="user", content="."),)


@dataclass(frozen=True, kw_only=True)
class Waiting:
    """Tasks without content. Args: max_turns: replies per episode."""

    max_turns: int = 1
    count: int = 4096
    reward_range: tuple[float, float] = (0.0, 1.0)

    def tasks(self, split: str) -> Sequence[Task]:
        return [Task(id=f"{split} {index}", messages=OPENING, answer=None) for index in range(self.count)]

    def start(self, task: Task, key: Key) -> Any:
        raise NotImplementedError("its episodes are played by `Calls`")


@dataclass(slots=True)
class Episode:
    task: Task
    key: Key
    turn: int = 0


class Calls:
    """Takes the place of `EnvWorkers`: as many calls at once as there are workers, and each waits for its time.

    Args: seconds: of the call after reply t of an episode; right: probability that an episode ends with a success.
    """

    players = 1
    room = 2**20
    """Number of unfinished episodes that are kept."""

    def __init__(
        self, env: Waiting, workers: int, seconds: Callable[[Task, Key, int], float], right: float = 0.5
    ) -> None:
        self.env, self.seconds, self.right, self._room = env, seconds, right, asyncio.Semaphore(workers)
        self.busy = 0.0
        """Seconds that calls took, all workers together."""

    async def start(self, task: Task, key: Key) -> tuple[Episode, Step]:
        return Episode(task, key), Step(messages=task.messages, done=False)

    async def step(self, episode: Episode, reply: str) -> Step:
        async with self._room:
            seconds = self.seconds(episode.task, episode.key, episode.turn)
            self.busy += seconds
            await asyncio.sleep(seconds)
        episode.turn += 1
        if episode.turn < self.env.max_turns:
            return Step(messages=OPENING, done=False)
        right = episode.key.at("right").random().random() < self.right
        parts = (Part(name="right", value=float(right)),)
        return Step(done=True, verdict=Verdict(status=Status.CORRECT if right else Status.WRONG, parts=parts))

    def over(self, detail: str) -> Step:
        return Step(done=True, verdict=limit_verdict(detail, self.env.reward_range))

    def abandon(self, episode: Episode) -> None:
        """Nothing is kept."""

    def close(self) -> None:
        """Nothing is kept."""
