"""What the expected gradient of an objective is claimed to be, on policy, at a finite group size.

Every kind of claim says E[g] = Σ_y π(y) h(y) ∇log π(y) for one group, with a shape h that is frozen at the
current policy. They are written in plain numbers and share no code with the formulas they judge.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

__all__ = ["FrozenShape", "Law", "PolicyGradient", "SharedLength", "Target"]

Law = Sequence[tuple[float, int, float]]
"""How rollouts fall: triples of a reward, a length and their chance."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyGradient:
    """E[g] = w · ∇E[r]: the true direction, scaled."""

    weight: Callable[[float, int, int], float]
    """w from the expected reward p, the group size N and the length limit L_max."""
    text: str

    def shape(self, reward: float, length: int, law: Law, group: int, max_tokens: int) -> float:
        """h(y) = w·r(y)."""
        expected = math.fsum(value * chance for value, _, chance in law)
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
        chances: dict[float, float] = {}
        for value, _, chance in law:
            chances[value] = chances.get(value, 0.0) + chance
        expected = math.fsum(
            math.prod(chance for _, chance in others) * self.advantage(reward, [value for value, _ in others])
            for others in itertools.product(chances.items(), repeat=group - 1)
        )
        return expected * self.share(length, max_tokens)


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedLength:
    """E[g] = Σ π(y) h(y) ∇log π(y), h(y) = N · E[f(r(y), rewards of the others) / (|y| + their lengths)].

    For a mean over the tokens of one group: a ratio of two sums, so a rollout is weighed by its company.
    """

    advantage: Callable[[float, Sequence[float]], float]
    """f: advantage of a rollout from its own reward and those of the others."""
    text: str

    def shape(self, reward: float, length: int, law: Law, group: int, max_tokens: int) -> float:
        """h(y), the others drawn independently from `law`. Groups alike up to order are summed once."""
        total = 0.0
        for others in itertools.combinations_with_replacement(law, group - 1):
            repeats = math.prod(math.factorial(len(list(same))) for _, same in itertools.groupby(others))
            chance = math.factorial(group - 1) / repeats * math.prod(share for _, _, share in others)
            tokens = length + sum(other for _, other, _ in others)
            total += chance * self.advantage(reward, [value for value, _, _ in others]) / tokens
        return group * total


Target = PolicyGradient | FrozenShape | SharedLength
