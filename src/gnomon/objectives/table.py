"""The table of objectives: a named algorithm is a function that returns one row.

Every row has the gradient Σₜ κₜ ∇log π(yₜ), with κ a pure function of detached numbers. A row also declares
what it claims: expected gradient, off-policy behaviour, what a group of one gives. The test suite holds every
row to its claims by enumeration.
"""

from __future__ import annotations

import difflib
import inspect
import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial

import torch
from torch import Tensor

from gnomon.objectives import advantages, aggregate, penalties, ratios
from gnomon.objectives.target import FrozenShape, PolicyGradient, Target
from gnomon.objectives.tokens import Denominators, Tokens

__all__ = [
    "TABLE",
    "Advantage",
    "Aggregate",
    "Baseline",
    "Correction",
    "Objective",
    "OffPolicy",
    "Penalty",
    "Ratio",
    "Singleton",
    "dr_grpo",
    "grpo",
    "objective",
    "reinforce",
    "rloo",
]

Advantage = Callable[[Tensor], Tensor]
"""Rewards [groups, N] to advantages [groups, N]."""
Ratio = Callable[[Tensor, Tensor], Tensor]
"""log(policy/proximal) [T] and advantage [T] to a multiplier [T]."""
Correction = Callable[[Tensor], Tensor]
"""log(proximal/behavior) [T] to a multiplier [T]."""
Aggregate = Callable[[Tokens, Denominators], Tensor]
"""A weight per token [T], the division by the whole step included."""
Penalty = Callable[[Tensor], Tensor]
"""log(policy/reference) [T] to a coefficient [T]."""


class OffPolicy(StrEnum):
    """What remains of the target when behavior lags behind the policy, within the clip band."""

    ON_POLICY = "on-policy"
    """Blind to the lag. The error is first order in the lag, even for answers of one token."""
    TOKEN = "token"
    """Each action is corrected, the prefixes that led to it are not: states of behavior, actions of the policy,
    continuations of behavior. Exact for answers of one token, up to a shape frozen at behavior where the target
    is one; first order in the lag for longer ones."""


class Singleton(StrEnum):
    """What the advantage of a group of one is."""

    RAW = "raw"
    """The reward itself."""
    ZERO = "zero"
    """Zero: such a group teaches nothing."""
    REFUSED = "refused"
    """Undefined: ValueError."""


class Baseline(StrEnum):
    """What a reward is compared with. With any but NONE, a constant added to every reward changes nothing."""

    NONE = "none"
    OTHERS = "mean of the others"
    GROUP = "mean of the group"


@dataclass(frozen=True, slots=True, kw_only=True)
class Objective:
    """A row: six small functions, and what is claimed of them.

    Equation: κ = aggregate · (correction(proximal/behavior) · ratio(policy/proximal; A) · A
        + λ · penalty(policy/reference)).
    """

    name: str
    advantage: Advantage
    ratio: Ratio
    correction: Correction
    aggregate: Aggregate
    penalty: Penalty | None = None
    penalty_weight: float = 0.0
    """λ, per token and before the aggregate, ≥ 0."""
    target: Target
    """Expected gradient of one group, on policy, where policy and reference agree."""
    off_policy: OffPolicy
    singleton: Singleton
    min_group: int
    """The smallest group that can move the policy."""
    baseline: Baseline
    equation: str
    source: str

    @property
    def needs_reference(self) -> bool:
        """Whether the tokens must carry `reference_logp`."""
        return self.penalty is not None

    @torch.no_grad()
    def coefficients(self, tokens: Tokens, denominators: Denominators) -> Tensor:
        """The coefficient κ of ∇logp of every token.

        Returns: [T], detached, final: the gradient of the *maximised* objective of the step is Σ κ·∇logp over
            all its micro-batches, with no further division.
        Raises: ValueError if the row has a penalty and the tokens no reference.
        """
        proximal = tokens.behavior_logp if tokens.proximal_logp is None else tokens.proximal_logp
        credit = self.correction(proximal - tokens.behavior_logp) * tokens.advantage
        credit = credit * self.ratio(tokens.logp - proximal, tokens.advantage)
        if self.penalty is not None:
            if tokens.reference_logp is None:
                raise ValueError(f"objective {self.name!r} has a penalty and needs reference_logp on its tokens")
            credit = credit + self.penalty_weight * self.penalty(tokens.logp - tokens.reference_logp)
        return self.aggregate(tokens, denominators) * credit


def reinforce() -> Objective:
    """REINFORCE: the score function times the reward."""
    return Objective(
        name="reinforce",
        advantage=advantages.raw,
        ratio=ratios.no_ratio,
        correction=ratios.no_correction,
        aggregate=aggregate.sequence_sum,
        target=PolicyGradient(weight=_one, text="∇p"),
        off_policy=OffPolicy.ON_POLICY,
        singleton=Singleton.RAW,
        min_group=1,
        baseline=Baseline.NONE,
        equation="κ = rᵢ / S",
        source="Williams 1992, doi 10.1007/BF00992696",
    )


def rloo() -> Objective:
    """RLOO: REINFORCE with the mean of the other rollouts for a baseline."""
    return Objective(
        name="rloo",
        advantage=advantages.leave_one_out,
        ratio=ratios.no_ratio,
        correction=ratios.no_correction,
        aggregate=aggregate.sequence_sum,
        target=PolicyGradient(weight=_one, text="∇p"),
        off_policy=OffPolicy.ON_POLICY,
        singleton=Singleton.REFUSED,
        min_group=2,
        baseline=Baseline.OTHERS,
        equation="κ = (rᵢ − mean_{j≠i} rⱼ) / S",
        source="Ahmadian et al. 2024, arXiv 2402.14740",
    )


def grpo(
    clip_low: float = 0.2, clip_high: float = 0.2, epsilon: float = 1e-6, reference_weight: float = 0.0
) -> Objective:
    """GRPO: standardised rewards, clipped token ratios, mean over the tokens of each rollout.

    Args: clip_low, clip_high, the band of the ratio, ≥ 0; epsilon, added to the standard deviation, ≥ 0;
        reference_weight, λ of the k3 penalty, ≥ 0 (0: no penalty and no reference).
    Raises: ValueError for an option out of range.
    Differs: the paper has λ = 0.04; here the penalty is off unless asked for.
    """
    _not_negative(clip_low=clip_low, clip_high=clip_high, epsilon=epsilon, reference_weight=reference_weight)
    return Objective(
        name="grpo",
        advantage=partial(advantages.standardised, epsilon=epsilon),
        ratio=partial(ratios.ppo_clip, low=clip_low, high=clip_high),
        correction=ratios.no_correction,
        aggregate=aggregate.sequence_mean,
        penalty=penalties.k3 if reference_weight else None,
        penalty_weight=reference_weight,
        target=FrozenShape(
            advantage=partial(_standard_score, epsilon=epsilon),
            share=_own_length,
            text="Σ π h ∇log π, h = E[(r − r̄)/(σ + ε)] / |y|",
        ),
        off_policy=OffPolicy.TOKEN,
        singleton=Singleton.ZERO,
        min_group=2,
        baseline=Baseline.GROUP,
        equation="κ = (clip(ρ; A)·A + λ(π_ref/π − 1)) / (S·|oᵢ|), A = (rᵢ − r̄)/(σ + ε)",
        source="Shao et al. 2024, arXiv 2402.03300, eq. 3",
    )


def dr_grpo(clip_low: float = 0.2, clip_high: float = 0.2) -> Objective:
    """Dr. GRPO: GRPO without the two divisions that bend the gradient, by deviation and by own length.

    Args: clip_low, clip_high, the band of the ratio, ≥ 0.
    Raises: ValueError for an option out of range.
    """
    _not_negative(clip_low=clip_low, clip_high=clip_high)
    return Objective(
        name="dr_grpo",
        advantage=advantages.mean_centred,
        ratio=partial(ratios.ppo_clip, low=clip_low, high=clip_high),
        correction=ratios.no_correction,
        aggregate=aggregate.constant,
        target=PolicyGradient(weight=_centred_share, text="(N−1)/(N·L_max) ∇p"),
        off_policy=OffPolicy.TOKEN,
        singleton=Singleton.ZERO,
        min_group=2,
        baseline=Baseline.GROUP,
        equation="κ = clip(ρ; A)·A / (S·L_max), A = rᵢ − r̄",
        source="Liu et al. 2025, arXiv 2503.20783",
    )


TABLE: dict[str, Callable[..., Objective]] = {
    "dr_grpo": dr_grpo,
    "grpo": grpo,
    "reinforce": reinforce,
    "rloo": rloo,
}


def objective(name: str, **options: float) -> Objective:
    """The row of that name, with its options set.

    Raises: ValueError for an unknown name or option, with the nearest one that exists, and for an option
        out of range.
    """
    if name not in TABLE:
        raise ValueError(f"no objective is called {name!r}{_nearest(name, TABLE)}")
    known = list(inspect.signature(TABLE[name]).parameters)
    for option in options:
        if option not in known:
            raise ValueError(f"objective {name!r} has no option {option!r}{_nearest(option, known)}")
    return TABLE[name](**options)


def _nearest(word: str, known: Sequence[str] | dict[str, Callable[..., Objective]]) -> str:
    close = difflib.get_close_matches(word, known, n=1)
    return f"; did you mean {close[0]!r}?" if close else f"; known: {', '.join(sorted(known)) or 'none'}"


def _not_negative(**options: float) -> None:
    for option, value in options.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
            raise ValueError(f"{option} must be a number of at least 0, not {value!r}")


def _one(p: float, group: int, max_tokens: int) -> float:
    return 1.0


def _centred_share(p: float, group: int, max_tokens: int) -> float:
    return (group - 1) / (group * max_tokens)


def _own_length(length: int, max_tokens: int) -> float:
    return 1 / length


def _standard_score(reward: float, others: Sequence[float], *, epsilon: float) -> float:
    rewards = [reward, *others]
    if min(rewards) == max(rewards):
        return 0.0
    mean = math.fsum(rewards) / len(rewards)
    return (reward - mean) / (statistics.pstdev(rewards) + epsilon)
