"""Episodes on environment workers, from given replies."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

from gnomon.envs import Env
from gnomon.envs.base import Step
from gnomon.envs.workers import EnvWorkers
from gnomon.keys import Key
from gnomon.types import Task


def last_steps(env: Env, episodes: Iterable[tuple[Task, Key, Sequence[str]]], **limits: float) -> list[Step]:
    """The last step of episodes that are played at once, each with its task, key and replies."""

    async def one(workers: EnvWorkers, task: Task, key: Key, replies: Sequence[str]) -> Step:
        episode, step = await workers.start(task, key)
        for reply in replies:
            step = await workers.step(episode, reply)
        workers.abandon(episode)
        return step

    async def every() -> list[Step]:
        workers = EnvWorkers(env, **limits)
        try:
            return await asyncio.gather(*(one(workers, *episode) for episode in episodes))
        finally:
            workers.close()

    return asyncio.run(every())
