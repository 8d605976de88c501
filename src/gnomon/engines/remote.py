"""An engine whose requests are answered by samplers in other processes."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from gnomon.engines.base import Tier
from gnomon.engines.threaded import Thread
from gnomon.models.weights import WeightsRef
from gnomon.stats import Stats, Sum, merge
from gnomon.types import Completion, Request

__all__ = ["Fleet", "Loaded", "RemoteEngine"]


class Fleet(Protocol):
    """Samplers in other processes. Whichever answers a call, the answer is the same."""

    def put(self, weights: WeightsRef) -> Any:
        """A handle by which samplers read a copy of the weights."""
        ...

    async def call(self, verb: str, *arguments: Any) -> Any:
        """What a sampler answers; another one is asked if it dies."""
        ...

    def renew(self, loaded: Loaded) -> None:
        """Have every sampler take over these weights while it samples, and every later one when it starts."""
        ...


@dataclass(frozen=True, slots=True)
class Loaded:
    """The weights that a call is answered with. A sampler loads them when it does not have them."""

    engine: int
    """A sampler has an engine of its own for every number. A negative one is that of an opponent."""
    load: int
    """Number of the load, from 1. A version may be loaded twice, with another between. 0: the engine's own weights."""
    tier: Tier
    handle: Any


class RemoteEngine:
    """Its `load` sends weights to no sampler. Each loads them with its next call, and proves it on the probe then.

    With `in_flight`, `load` has every sampler take over the weights between two tokens of what it samples. It does not
    wait for that, but no call that begins later is answered with older weights.

    Args:
        number: of the engine, among those that use the same samplers.
        fixed: whether it has weights before any are loaded.
    """

    def __init__(self, fleet: Fleet, number: int = 0, tier: Tier = Tier.EXACT, *, fixed: bool = False) -> None:
        self.fleet, self.number, self.tier, self.version, self.fixed = fleet, number, tier, 0, fixed
        self.versions: Mapping[str, str] = {}
        """As in the samplers' engines, after `ask_versions`."""
        self.in_flight = False
        self.thread: Thread | None = None
        self._present: tuple[int, Any] = (0, None)
        """Number of the last load, and handle of its weights. One thread may read it while another loads."""
        self._newest: int | None = None
        """Version that was loaded last in flight."""
        self._counts: deque[Stats] = deque()
        self._zeros: Stats = {}
        """The sums that were counted before."""

    @property
    def weights(self) -> Loaded:
        load, handle = self._present
        if not load and not self.fixed:
            raise RuntimeError("the engine has no weights")
        return Loaded(self.number, load, self.tier, handle)

    async def sample(self, request: Request) -> Completion:
        completion: Completion = await self.fleet.call("sample", self.weights, request)
        return completion

    async def play(self, episode: bytes, others: Sequence[Any], deadline: Any) -> bytes:
        """As in `Playing`; others: their `weights`."""
        played: bytes = await self.fleet.call("play", self.weights, episode, others, deadline)
        return played

    async def measure(self, prompts: Sequence[tuple[int, ...]]) -> float:
        """`Embedded.measure` of a sampler."""
        gap: float = await self.fleet.call("measure", self.weights, prompts)
        return gap

    async def ask_versions(self) -> None:
        """Ask a sampler for the versions of its engine."""
        self.versions = await self.fleet.call("versions", self.weights)

    def count(self, stats: Stats) -> None:
        self._counts.append(stats)  # The threads of two batches may do so at the same time.

    def counts(self) -> Stats:
        """What went wrong in the engines of all samplers since the last call; 0 where no episode has ended since."""
        stats = self._zeros
        for _ in range(len(self._counts)):
            stats = merge(stats, self._counts.popleft())
        self._zeros = {name: Sum(0) for name, stat in stats.items() if isinstance(stat, Sum)}
        return stats

    def load(self, weights: WeightsRef) -> None:
        """Replace the weights. In flight, a version that is not newer than the present one is not loaded."""
        if self._newest is not None and weights.version <= self._newest:
            return
        self._present, self.version = (self._present[0] + 1, self.fleet.put(weights)), weights.version
        if self.in_flight:
            self._newest = weights.version
            self.fleet.renew(self.weights)

    def close(self) -> None:
        """The samplers are not the engine's to end."""

    def twin(self, number: int) -> RemoteEngine:
        return RemoteEngine(self.fleet, number, self.tier)

    def opponent(self, *, fixed: bool) -> RemoteEngine:
        return RemoteEngine(self.fleet, -1 - self.number, self.tier, fixed=fixed)
