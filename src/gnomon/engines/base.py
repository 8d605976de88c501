"""What an engine is."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, Protocol, runtime_checkable

from gnomon.models.weights import WeightsRef
from gnomon.stats import Stats
from gnomon.types import Completion, Request

__all__ = [
    "Counted",
    "Engine",
    "Grouping",
    "Mixing",
    "Playing",
    "Sleeping",
    "Tier",
    "Twinned",
    "Versioned",
    "sample_all",
]


class Tier(StrEnum):
    """How far an engine's log-probabilities agree with the learner's."""

    EXACT = "exact"
    """In every bit, whatever the batch, its order and its lengths. Asserted in every step."""
    MEASURED = "measured"
    """Up to rounding; the difference is measured and shown."""


class Engine(Protocol):
    """Samples completions. It never sees a reward."""

    @property
    def version(self) -> int: ...

    @property
    def tier(self) -> Tier: ...

    async def sample(self, request: Request) -> Completion:
        """The completion of a request. An engine batches what waits; no completion depends on what waits with it."""
        ...

    def load(self, weights: WeightsRef) -> None:
        """Take over the weights and prove it on the probe.

        Raises: NumericsError E201 when the probe's log-probabilities differ from the learner's; ModelError E323 for
            weights of a kind or a base that the engine does not have.
        """
        ...

    def close(self) -> None: ...


@runtime_checkable
class Counted(Protocol):
    """An engine that counts what went wrong, and what its loads have proved."""

    def counts(self) -> Stats:
        """Since the last call, as metrics of a step."""
        ...


@runtime_checkable
class Versioned(Protocol):
    """An engine that has an environment of its own."""

    @property
    def versions(self) -> Mapping[str, str]:
        """Of its Python and its packages, and its device; empty before it was started."""
        ...


@runtime_checkable
class Sleeping(Protocol):
    """An engine that can free the memory of its device until it is needed again."""

    @property
    def sleeps(self) -> bool:
        """Whether it does."""
        ...

    def sleep(self) -> None: ...


@runtime_checkable
class Grouping(Protocol):
    """An engine whose model may be unable to decode rows of any lengths together."""

    @property
    def grouping(self) -> str:
        """What it decodes together instead, as a sentence; empty where it can."""
        ...


@runtime_checkable
class Mixing(Protocol):
    """An engine whose bits may depend on which requests it decodes together, and on nothing else but the requests."""

    @property
    def mixes(self) -> bool:
        """Whether they may."""
        ...


@runtime_checkable
class Twinned(Protocol):
    """An engine beside which there can be others with the same settings and other weights."""

    def twin(self, number: int) -> Engine:
        """Another engine, on the same tier. Args: number: of it, from 1, by which samplers know it."""
        ...


@runtime_checkable
class Playing(Protocol):
    """An engine whose samplers, in other processes, play whole episodes."""

    async def play(self, episode: bytes, others: Sequence[Any], deadline: Any) -> bytes:
        """How an episode ended. Args: others: weights of the other engines in it."""
        ...

    def count(self, stats: Stats) -> None:
        """Add what went wrong in the engine of a sampler."""
        ...

    def opponent(self, *, fixed: bool) -> Engine:
        """The engine of the opponent of this one's policy. Args: fixed: whether its weights are those of a folder."""
        ...


async def sample_all(engine: Engine, requests: Sequence[Request]) -> list[Completion]:
    """The completions of requests that are made together, in order."""
    return list(await asyncio.gather(*map(engine.sample, requests)))
