"""What the expected gradient of an objective is claimed to be, on policy, at a finite group size.

Both kinds of claim say E[g] = Σ_y π(y) h(y) ∇log π(y) for one group, with a shape h that is frozen at the
current policy. They are written in plain numbers and share no code with the formulas they judge.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

__all__ = ["FrozenShape", "Law", "PolicyGradient", "Target"]

Law = Sequence[tuple[float, float]]
"""How rewards fall: pairs of a reward and its chance."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyGradient:
    """E[g] = w · ∇E[r]: the true direction, scaled."""

    weight: Callable[[float, int, int], float]
    """w from the expected reward p, the group size N and the length limit L_max."""
    text: str

    def shape(self, reward: float, length: int, law: Law, group: int, max_tokens: int) -> float:
        """h(y) = w·r(y)."""
        expected = math.fsum(value * chance for value, chance in law)
        return self.weight(expected, group, max_tokens) * reward


@dataclass(frozen=True, slots=True, kw_only=True)
class FrozenShape:
    """E[g] = Σ π(y) h(y) ∇log π(y), h(y) = n(|y|) · E[f(r(y), rewards of the others)].

    The gradient of E[h] with h held still: in general the gradient of no fixed quantity.
    """

    advantage: Callable[[float, Sequence[float]], float]
    """f: advantage of a rollout from its own reward and those of the others."""
    share: Callable[[int, int], float]
    """n: weight of a rollout from its length and the length limit."""
    text: str

    def shape(self, reward: float, length: int, law: Law, group: int, max_tokens: int) -> float:
        """h(y), the others drawn independently from `law`."""
        expected = math.fsum(
            math.prod(chance for _, chance in others) * self.advantage(reward, [value for value, _ in others])
            for others in itertools.product(law, repeat=group - 1)
        )
        return expected * self.share(length, max_tokens)


Target = PolicyGradient | FrozenShape
