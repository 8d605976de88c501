"""Episodes that are played by samplers in other processes."""

from __future__ import annotations

import io
import pickle
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
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

__all__ = ["Deadline", "Elsewhere", "name_of", "played"]


class Elsewhere:
    """Sends every episode to a sampler, with its key: it is the same episode on each, and also if it is sent again.

    Args: engine: the one that the samplers stand for; shared: objects of speakers that every sampler has, by name.
    """

    room = 2**20
    """The samplers limit how many episodes they play; others wait, in order."""

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
        others = list[RemoteEngine]()
        episode = self._written((task, key, tuple(speakers), drawn, sampling), others)
        loaded = [each.loaded for each in others]
        answer = await self.engine.fleet.call("play", self.engine.loaded, episode, loaded, Deadline(deadline))
        turns, step, stop, end, counts = pickle.loads(answer)
        self.engine.count(counts)
        return Played(task=task, speakers=tuple(speakers), turns=turns, step=step, stop=stop, end=end)

    def _written(self, value: Any, others: list[RemoteEngine]) -> bytes:
        """Args: others: takes the engines in it beside the own one."""
        stream = io.BytesIO()
        Writer(stream, self._names, others).dump(value)
        return stream.getvalue()


@dataclass(frozen=True, slots=True)
class Deadline:
    """A monotonic time. It is sent to another process, whose clock differs, as the seconds that are left then."""

    at: float

    def __reduce__(self) -> tuple[Any, ...]:
        return after, (self.at - time.monotonic(),)


def after(seconds: float) -> Deadline:
    """So many seconds from now."""
    return Deadline(time.monotonic() + seconds)


def name_of(number: int) -> str:
    """Of another engine than the one that an episode is played with."""
    return f"engine {number}"


async def played(actor: Actor, episode: bytes, shared: dict[str, Any], deadline: Deadline) -> bytes:
    """Play an episode that `Elsewhere` sent.

    Args: shared: this process's objects of the same names, and its engines that stand for others, by `name_of`.
    """
    task, key, speakers, drawn, sampling = Reader(io.BytesIO(episode), shared | {"engine": actor.engine}).load()
    found = await actor.play(task, key, speakers, drawn=drawn, sampling=sampling, deadline=deadline.at)
    return packed((found.turns, found.step, found.stop, found.end, actor.counts()))


class Writer(cloudpickle.Pickler):  # type: ignore[misc]
    """Writes objects that both sides have by name. Args: others: takes other engines whose samplers these are."""

    def __init__(self, stream: io.BytesIO, names: dict[int, str], others: list[RemoteEngine]) -> None:
        super().__init__(stream)
        self._names, self._others = names, others

    def persistent_id(self, value: Any) -> str | None:
        if isinstance(value, RemoteEngine) and id(value) not in self._names:
            if value not in self._others:
                self._others.append(value)
            return name_of(value.number)
        return self._names.get(id(value))


class Reader(pickle.Unpickler):
    def __init__(self, stream: io.BytesIO, shared: dict[str, Any]) -> None:
        super().__init__(stream)
        self._shared = shared

    def persistent_load(self, name: str) -> Any:
        return self._shared[name]
