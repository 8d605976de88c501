"""The voice: what an engine is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

from gnomon.types import Completion, Request

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["Engine", "Tier", "Weights"]


class Tier(StrEnum):
    """How far an engine's log-probabilities agree with the learner's."""

    EXACT = "exact"
    """In every bit, whatever the batch, its order and its lengths. Asserted in every step."""
    MEASURED = "measured"
    """Up to rounding; the difference is measured and shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """A version of the policy, with what a holder of it must be able to reproduce."""

    version: int
    state: Mapping[str, Tensor]
    probe: tuple[int, ...]
    """A short token sequence."""
    probe_logp: tuple[float, ...]
    """The learner's natural log-probability of every probe token but the first."""


class Engine(Protocol):
    """Samples completions. It never sees a reward."""

    @property
    def version(self) -> int: ...

    @property
    def tier(self) -> Tier: ...

    async def sample(self, requests: Sequence[Request]) -> list[Completion]:
        """One completion per request, in order."""
        ...

    def load(self, weights: Weights) -> None:
        """Take over the weights and prove it on the probe.

        Raises: NumericsError E201 when the probe's log-probabilities differ from the learner's.
        """
        ...

    def close(self) -> None: ...
