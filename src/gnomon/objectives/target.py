"""What the expected gradient of an objective is claimed to be, on policy, at a finite group size.

Every kind of claim says E[g] = Σ_y π(y) h(y) ∇log π(y) for one group, with a shape h that is frozen at the
current policy and may differ from token to token. A `PolicyGradient` and a `ClosedForm` say what h is, from the law of
one rollout. The other three say only that h is the mean of the row's own credit over the rest of the group, which is so
for any credit: each carries a closed form beside it. All are written in plain numbers and share no code with the
formulas they judge.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

__all__ = [
    "Chances",
    "ClosedForm",
    "FrozenShape",
    "Law",
    "PolicyGradient",
    "Seen",
    "Shape",
    "SharedLength",
    "Target",
    "TokenShape",
]

Law = Sequence[tuple[float, int, float]]
"""How rollouts fall: triples of a reward, a length and their chance."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """One rollout in plain numbers: all that credit may look at."""

    reward: float
    length: int
    answer: int
    """Equal numbers are equal answers."""
    early: tuple[float, ...]
    """The reward that arrives as each segment ends."""
    values: tuple[float, ...]
    """What the critic expects before each token."""
    logp: tuple[float, ...]
    """Of each token under the policy that sampled, demonstrations too."""
    reference: tuple[float, ...]
    """Of each token under the reference."""
    entropy: tuple[float, ...] = ()
    """Of the sampling policy's next-token distribution before each token."""
    collision: tuple[float, ...] = ()
    """Σ_v π(v)² of that distribution."""
    observations: tuple[int, ...] = ()
    """Before each segment; equal numbers are equal observations."""
    parts: tuple[float, ...] = ()
    """Of the reward, unweighted."""
    part_weights: tuple[float, ...] = ()
    baseline: float = 0.0
    """What the run's past expects of the rollout."""
    ended: int = 0
    """What ended it: 0 itself, 1 the token limit of its last reply, 2 a limit between two turns."""
    beyond: float = 0.0
    """What the critic expects after its last token."""
    demonstrated: bool = False
    """Whether it was given rather than sampled."""


Chances = Sequence[tuple[Seen, float]]
"""How rollouts fall: everything that one can turn out to be, with its chance."""
Shape = Callable[[Seen], Sequence[float]]
"""h of every token of a rollout."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClosedForm:
    """E[g] = Σ_y π(y) Σₜ hₜ(y) ∇log π(yₜ|y_{<t}), with h from the law of one rollout, N and L_max alone.

    No group is formed and no credit is taken of one, so a row with another credit misses it.
    """

    shape: Callable[[Chances, int, int], Shape | None]
    """h from the law, the group size and the length limit; None for a size with no closed form."""
    text: str
    binary: bool = False
    """Whether it holds for rewards 0 and 1 alone."""
    one_token: bool = False
    """Whether it holds for answers of one token alone."""


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
    closed: ClosedForm | None = None

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
    closed: ClosedForm | None = None

    def shape(self, reward: float, length: int, law: Law, group: int, max_tokens: int) -> float:
        """h(y), the others drawn independently from `law`. Groups alike up to order are summed once."""
        total = 0.0
        for others in itertools.combinations_with_replacement(law, group - 1):
            repeats = math.prod(math.factorial(len(list(same))) for _, same in itertools.groupby(others))
            chance = math.factorial(group - 1) / repeats * math.prod(share for _, _, share in others)
            tokens = length + sum(other for _, other, _ in others)
            total += chance * self.advantage(reward, [value for value, _, _ in others]) / tokens
        return group * total


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenShape:
    """E[g] = Σ_y π(y) Σₜ hₜ(y) ∇log π(yₜ|y_{<t}), h(y) = N · E[f(y, the others)].

    For credit that differs from token to token, or looks at more than rewards. A step is one group.
    """

    credit: Callable[[Seen, Sequence[Seen], int], Sequence[float]]
    """f: from a rollout, the others and the length limit to the weighed credit of each of its tokens in the step."""
    text: str
    closed: ClosedForm | None = None

    def shape(self, own: Seen, law: Sequence[tuple[Seen, float]], group: int, max_tokens: int) -> list[float]:
        """h(y), the others drawn independently from `law`. Groups alike up to order are summed once."""
        total = [0.0] * own.length
        for members in itertools.combinations_with_replacement(range(len(law)), group - 1):
            repeats = math.prod(math.factorial(len(list(same))) for _, same in itertools.groupby(members))
            chance = math.factorial(group - 1) / repeats * math.prod(law[member][1] for member in members)
            credit = self.credit(own, [law[member][0] for member in members], max_tokens)
            total = [sum_ + chance * value for sum_, value in zip(total, credit, strict=True)]
        return [group * value for value in total]


Target = PolicyGradient | ClosedForm | FrozenShape | SharedLength | TokenShape
