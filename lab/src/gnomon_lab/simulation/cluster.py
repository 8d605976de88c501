"""Engines whose requests are shared by servers that only wait."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache

from gnomon.engines.base import Tier
from gnomon.keys import Key
from gnomon.models.weights import WeightsRef
from gnomon.types import Completion, Finish, Request
from gnomon_lab.simulation.head import Head
from gnomon_lab.simulation.server import Failed, Server, Speed
from gnomon_ray.least import Least

__all__ = ["Cluster", "Engine"]

STOPPED = 2**40
"""Added to what a server owes while it decodes nothing: those that decode come first."""


@dataclass(eq=False)
class Cluster:
    """Servers that share the requests: each goes to the one that owes least. Made inside a running loop."""

    servers: int
    speed: Speed
    key: Key
    head: Head = field(default_factory=lambda: Head(asyncio.get_running_loop().time))
    """Counts the requests, their answers and those that wait for a row."""
    members: list[Server] = field(default_factory=list)
    least: Least[Server] = field(default_factory=Least)

    def __post_init__(self) -> None:
        def drawing(number: int) -> Callable[[], float]:
            rng = self.key.at("failures", server=number).random()
            return lambda: rng.expovariate(1 / self.speed.between_failures)

        def noting(number: int) -> Callable[[Server], None]:
            return lambda server: self._note(number, server)

        self._waits = [0] * self.servers
        """Requests that wait for a row of each."""
        aside = self.head.aside
        self.members = [Server(self.speed, drawing(number), noting(number), aside) for number in range(self.servers)]
        for number, server in enumerate(self.members):
            self.least.put(number, 0, server)

    async def decode(self, tokens: int) -> tuple[int, tuple[tuple[int, int], ...]]:
        """Returns: the version of the first token, and where it changed."""
        while True:
            found = self.least.least()
            assert found is not None
            server = found[1]
            self.head.sent += 1
            try:
                row = await server.decode(tokens)
            except Failed:
                self.head.failed += 1
            else:
                self.head.answers += 1
                return server.changes(row)

    def _note(self, number: int, server: Server) -> None:
        """A server owes more or less, or stops or goes on."""
        self.least.put(number, server.requests_left + (0 if server.decodes else STOPPED), server)
        if more := server.waits - self._waits[number]:
            self._waits[number] += more
            self.head.queue.set(self.head.queue.value + more)


class Engine:
    """Samples by waiting for a cluster. Args: length: tokens of the completion of a request."""

    def __init__(self, cluster: Cluster, length: Callable[[Request], int]) -> None:
        self.tier = Tier.MEASURED
        self.cluster, self.length, self.version, self.in_flight = cluster, length, 0, False
        self._loaded = 0.0
        """Time at which the present weights are in place."""

    async def sample(self, request: Request) -> Completion:
        return await self.cluster.head.aside.time_steps(self._sample(request))

    async def _sample(self, request: Request) -> Completion:
        tokens = self.length(request)
        if (left := self._loaded - asyncio.get_running_loop().time()) > 0:
            await asyncio.sleep(left)
        version, changes = await self.cluster.decode(tokens)
        if not self.in_flight:
            version, changes = self.version, ()
        ids, logprobs = blank(tokens)
        return Completion(
            token_ids=ids, logprobs=logprobs, text="", finish=Finish.EOS, version=version, changes=changes
        )

    def load(self, weights: WeightsRef) -> None:
        self.version = weights.version
        self.cluster.head.weights += len(self.cluster.members)
        if self.in_flight:
            for server in self.cluster.members:
                server.renew(weights.version)
        else:
            self._loaded = asyncio.get_running_loop().time() + self.cluster.speed.load

    def close(self) -> None:
        """Nothing."""


@cache
def blank(tokens: int) -> tuple[tuple[int, ...], tuple[float, ...]]:
    """Token ids and log-probabilities of a completion of this length, which nobody reads."""
    return (0,) * tokens, (0.0,) * tokens
