"""Runs episodes in samplers, which are other processes."""

from __future__ import annotations

import io
import pickle
import time
from dataclasses import dataclass, replace
from math import inf
from typing import Any

import cloudpickle

from gnomon.engines.base import Counted, Playing
from gnomon.engines.remote import RemoteEngine
from gnomon.rollout.played import Played
from gnomon.rollout.runner import Episode, LocalRunner
from gnomon.workers import pack_value

__all__ = ["Deadline", "RemoteRunner", "name_of", "run_sent"]


class RemoteRunner:
    """Sends every episode to a sampler, with its key: it is the same episode on each, and also if it is sent again.

    Args: engine: the one that the samplers stand for; shared: objects of speakers that every sampler has, by name.
    """

    room = 2**20
    """The samplers limit how many episodes they run; others wait, in order."""

    def __init__(self, engine: Playing, shared: dict[str, Any]) -> None:
        self.engine = engine
        self._names = {id(value): name for name, value in (shared | {"engine": engine}).items()}

    async def run(self, episode: Episode) -> Played:
        others = list[RemoteEngine]()
        deadline = Deadline(episode.deadline)
        request = self._write(replace(episode, deadline=inf), others)
        loaded = [each.weights for each in others]
        answer = await self.engine.play(request, loaded, deadline)
        end, counts = pickle.loads(answer)
        self.engine.count(counts)
        return Played(task=episode.task, speakers=episode.speakers, **end)

    def _write(self, value: Any, others: list[RemoteEngine]) -> bytes:
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


async def run_sent(runner: LocalRunner, sent: bytes, shared: dict[str, Any], deadline: Deadline) -> bytes:
    """Run an episode that a `RemoteRunner` sent. Returns: what it reads.

    Args: shared: this process's objects of the same names, and its engines that stand for others, by `name_of`.
    """
    engine = runner.engine
    episode: Episode = Reader(io.BytesIO(sent), shared | {"engine": engine}).load()
    played = await runner.run(replace(episode, deadline=deadline.at))
    end = {name: getattr(played, name) for name in ("turns", "step", "stop", "end", "calls")}
    return pack_value((end, engine.counts() if isinstance(engine, Counted) else {}))


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
