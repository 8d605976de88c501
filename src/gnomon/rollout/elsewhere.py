"""Episodes that are played by samplers in other processes."""

from __future__ import annotations

import io
import pickle
import time
from collections.abc import Callable, Sequence
from math import inf
from typing import Any

import cloudpickle

from gnomon.engines.remote import RemoteEngine
from gnomon.keys import Key
from gnomon.rollout.actor import Actor
from gnomon.rollout.played import Played
from gnomon.rollout.speakers import Speaker
from gnomon.types import Sampling, Task
from gnomon.workers import packed

__all__ = ["Elsewhere", "played"]


class Elsewhere:
    """Sends every episode to a sampler, with its key: it is the same episode on each, and also if it is sent again.

    Args: engine: the one that the samplers stand for; shared: objects of speakers that every sampler has, by name.
    """

    def __init__(self, engine: RemoteEngine, shared: dict[str, Any]) -> None:
        self.engine = engine
        self._names = {id(value): name for name, value in (shared | {"engine": engine}).items()}

    async def play(
        self,
        task: Task,
        key: Key,
        speakers: Sequence[Speaker] = (),
        *,
        drawn: Callable[[int], Key] | None = None,
        sampling: Sampling | None = None,
        deadline: float = inf,
    ) -> Played:
        left = deadline - time.monotonic()
        episode = self._written((task, key, tuple(speakers), drawn, sampling, left))
        answer = await self.engine.fleet.call("play", self.engine.loaded, episode)
        turns, step, stop, counts = pickle.loads(answer)
        self.engine.count(counts)
        return Played(task=task, speakers=tuple(speakers), turns=turns, step=step, stop=stop)

    def _written(self, value: Any) -> bytes:
        stream = io.BytesIO()
        Writer(stream, self._names).dump(value)
        return stream.getvalue()


async def played(actor: Actor, episode: bytes, shared: dict[str, Any]) -> bytes:
    """Play an episode that `Elsewhere` sent. Args: shared: this process's objects of the same names."""
    task, key, speakers, drawn, sampling, left = Reader(io.BytesIO(episode), shared | {"engine": actor.engine}).load()
    deadline = time.monotonic() + left
    found = await actor.play(task, key, speakers, drawn=drawn, sampling=sampling, deadline=deadline)
    return packed((found.turns, found.step, found.stop, actor.counts()))


class Writer(cloudpickle.Pickler):  # type: ignore[misc]
    """Writes objects that both sides have by name."""

    def __init__(self, stream: io.BytesIO, names: dict[int, str]) -> None:
        super().__init__(stream)
        self._names = names

    def persistent_id(self, value: Any) -> str | None:
        return self._names.get(id(value))


class Reader(pickle.Unpickler):
    def __init__(self, stream: io.BytesIO, shared: dict[str, Any]) -> None:
        super().__init__(stream)
        self._shared = shared

    def persistent_load(self, name: str) -> Any:
        return self._shared[name]
