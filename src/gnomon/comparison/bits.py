"""How much the rewards of a run can say: their entropy, in bits per episode."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import groupby

from gnomon.store import RunReader
from gnomon.types import Status

__all__ = ["StepBits", "entropy_bits", "reward_bits", "shortfall"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StepBits:
    """The rewards of a step."""

    step: int
    episodes: int
    """Judged rollouts; of a game, one for each player."""
    tokens: int
    bits: float
    """Entropy of their rewards per episode, over all tasks, as they occurred."""
    bias: float
    """By how much `bits` is below the entropy of the distribution that the rewards were drawn from; an estimate."""


def reward_bits(reader: RunReader) -> list[StepBits]:
    """The entropy of the rewards of every step. Verdicts that failed count for nothing."""
    rows = (row for row in reader.rollout_rows() if row.status not in (Status.FAILED, Status.UNJUDGED))
    result = []
    for step, some in groupby(rows, lambda row: row.step):
        steps = list(some)
        rewards = [row.reward for row in steps]
        result.append(
            StepBits(
                step=step or 0,
                episodes=len(rewards),
                tokens=sum(row.tokens or 0 for row in steps),
                bits=entropy_bits(rewards),
                bias=shortfall(rewards),
            )
        )
    return result


def entropy_bits(values: Sequence[Hashable]) -> float:
    """Entropy of the observed frequencies, in bits: at most log₂ of the number of different values."""
    total = len(values)
    return -math.fsum(n / total * math.log2(n / total) for n in Counter(values).values()) if total else 0.0


def shortfall(values: Sequence[Hashable]) -> float:
    """What the entropy of observed frequencies lacks on average, in bits, to first order.

    Equation: (m − 1) / (2·n·ln 2), m different values among n.
    Source: Miller 1955, Note on the bias of information estimates.
    """
    return (len(set(values)) - 1) / (2 * len(values) * math.log(2)) if values else 0.0
