"""Episodes with an external player. Every request contains all replies so far, and is judged in a worker process."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from threading import Thread
from types import TracebackType
from typing import Self

from gnomon.envs.base import Env, Step
from gnomon.envs.workers import EnvWorkers, Remote
from gnomon.keys import Key
from gnomon.types import Task, Verdict
from gnomon.verifiers.judging import failure_verdict

__all__ = ["Plays"]

Job = tuple[Task, Key, tuple[str, ...]]
KEPT = 256
"""Number of unfinished episodes that are kept. Others are replayed on request."""


class Plays:
    """The steps of an environment, from any thread. A failed verifier gives the verdict `failed`, never the reward 0.

    Args:
        workers: largest number of processes.
        seconds: CPU seconds for one step; the wall-clock limit is ten times as long.
    """

    def __init__(self, env: Env, *, workers: int = 2, seconds: float = 2.0) -> None:
        self.env = env
        self._workers = EnvWorkers(env, workers=workers, seconds=seconds)
        self._episodes: OrderedDict[tuple[str, bytes], Remote] = OrderedDict()
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever, name="gnomon plays", daemon=True)
        self._thread.start()

    def steps(self, jobs: Iterable[Job]) -> list[Step]:
        """The next step of each episode, in order. Args: jobs: task, key and all replies of each."""
        return asyncio.run_coroutine_threadsafe(self._steps(list(jobs)), self._loop).result()

    def verdicts(self, items: Iterable[tuple[Task, str]]) -> list[Verdict]:
        """The verdicts on single replies, for an environment of one turn."""
        steps = self.steps((task, Key(0).at("outward", task=task.id), (reply,)) for task, reply in items)
        return [step.verdict or failure_verdict("the environment needs another reply") for step in steps]

    async def _steps(self, jobs: Sequence[Job]) -> list[Step]:
        return await asyncio.gather(*(self._step(*job) for job in jobs))

    async def _step(self, task: Task, key: Key, replies: tuple[str, ...]) -> Step:
        name = task.id, key.bytes
        episode = self._episodes.pop(name, None)
        if episode is not None and episode.replies != list(replies[: len(episode.replies)]):
            self._workers.abandon(episode)
            episode = None
        if episode is None:
            episode, _ = await self._workers.start(task, key)
        for reply in replies[len(episode.replies) :]:
            if episode.done:
                return self._workers.failure_step("there is a reply after the end of the episode")
            await self._workers.step(episode, reply)
        if not episode.done:
            self._episodes[name] = episode
            while len(self._episodes) > KEPT:
                self._workers.abandon(self._episodes.popitem(last=False)[1])
        return episode.steps[-1]

    def close(self) -> None:
        """End the worker processes."""
        self._workers.close()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()
