"""What a row of the table is: six small functions, and what is claimed of them.

Every row has the gradient Σₜ κₜ ∇log π(yₜ), with κ a pure function of detached numbers. A row also declares
what it claims: expected gradient, off-policy behaviour, what a group of one gives. The test suite holds every
row to its claims by enumeration.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

import torch
from torch import Tensor

from gnomon.objectives import penalties
from gnomon.objectives.target import Target
from gnomon.objectives.tokens import Denominators, Tokens

__all__ = [
    "Advantage",
    "Aggregate",
    "Baseline",
    "Correction",
    "Objective",
    "OffPolicy",
    "Penalty",
    "Ratio",
    "Rewards",
    "Singleton",
]

Advantage = Callable[[Tensor], Tensor]
"""Rewards [groups, N] to advantages [groups, N]."""
Ratio = Callable[[Tokens], Tensor]
"""What log(policy/proximal) and the advantage make of a token: a multiplier [T]."""
Correction = Callable[[Tokens], Tensor]
"""What log(proximal/behavior) makes of a token: a multiplier [T]."""
Aggregate = Callable[[Tokens, Denominators], Tensor]
"""A weight per token [T], the division by the whole step included."""
Penalty = Callable[[Tokens], Tensor]
"""What log(policy/reference) makes of a token: a coefficient [T]."""


class OffPolicy(StrEnum):
    """What remains of the target when behavior lags behind the policy, within the clip band."""

    ON_POLICY = "on-policy"
    """Blind to the lag. The error is first order in the lag, even for answers of one token."""
    TOKEN = "token"
    """Each action is corrected, the prefixes that led to it are not: states of behavior, actions of the policy,
    continuations of behavior. Exact for answers of one token, up to a shape frozen at behavior where the target
    is one; first order in the lag for longer ones."""
    SOFT = "soft"
    """As token, up to an error of second order in the lag: the weight fades from the first step on."""
    GEOMETRIC = "geometric"
    """Answers count by μ^(1−1/|y|)·π^(1/|y|): exact for answers of one token, first order in the lag for longer."""
    SEQUENCE = "sequence"
    """Whole answers are corrected: exact at any lag, up to a shape frozen at behavior where the target is one."""


class Singleton(StrEnum):
    """What the advantage of a group of one is."""

    RAW = "raw"
    """The reward itself."""
    SHIFTED = "shifted"
    """The reward less a constant other than zero."""
    ZERO = "zero"
    """Zero: such a group teaches nothing."""
    REFUSED = "refused"
    """Undefined: ValueError, as for every group below `min_group`."""


class Baseline(StrEnum):
    """What a reward is compared with. With any but NONE, a constant added to every reward changes nothing."""

    NONE = "none"
    OTHERS = "a function of the others"
    GROUP = "mean of the group"


class Rewards(StrEnum):
    """Which rewards a row accepts."""

    REAL = "real"
    BINARY = "binary"
    """Zero and one: it counts successes. Others are refused: ValueError."""


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
    """Of a policy that has left proximal and behavior, which agree."""
    mismatch: OffPolicy = OffPolicy.ON_POLICY
    """Of a policy that is the proximal one, with a behavior apart from both: what the correction does."""
    singleton: Singleton
    min_group: int
    """The smallest group that can move the policy."""
    baseline: Baseline
    rewards: Rewards = Rewards.REAL
    equation: str
    source: str

    @property
    def needs_reference(self) -> bool:
        """Whether the tokens must carry `reference_logp`."""
        return self.penalty is not None and self.penalty is not penalties.squared_log_ratio

    @torch.no_grad()
    def coefficients(self, tokens: Tokens, denominators: Denominators) -> Tensor:
        """The coefficient κ of ∇logp of every token.

        Returns: [T], detached, final: the gradient of the *maximised* objective of the step is Σ κ·∇logp over
            all its micro-batches, with no further division.
        Raises: ValueError if the row needs a reference and the tokens have none.
        """
        credit = self.correction(tokens) * tokens.advantage * self.ratio(tokens)
        if self.penalty is not None:
            if self.needs_reference and tokens.reference_logp is None:
                raise ValueError(f"objective {self.name!r} has a penalty and needs reference_logp on its tokens")
            credit = credit + self.penalty_weight * self.penalty(tokens)
        return self.aggregate(tokens, denominators) * credit


def at_least(least: float, /, **options: float) -> None:
    """Raises: ValueError, with its name, for an option that is no number or a smaller one."""
    for option, value in options.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or not value >= least:
            raise ValueError(f"{option} must be a number of at least {least:g}, not {value!r}")


def above(least: float, /, **options: float) -> None:
    """Raises: ValueError, with its name, for an option that is no number or not a larger one."""
    for option, value in options.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or not value > least:
            raise ValueError(f"{option} must be a number above {least:g}, not {value!r}")


def within(least: float, most: float, /, **options: float) -> None:
    """Raises: ValueError, with its name, for an option outside [least, most]."""
    at_least(least, **options)
    for option, value in options.items():
        if not value <= most:
            raise ValueError(f"{option} must be at most {most:g}, not {value!r}")


def whole(least: int, /, **options: int) -> None:
    """Raises: ValueError, with its name, for an option that is no whole number of at least that size."""
    for option, value in options.items():
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise ValueError(f"{option} must be a whole number of at least {least}, not {value!r}")


def finite(**options: float) -> None:
    """Raises: ValueError, with its name, for an option that is no finite number."""
    for option, value in options.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise ValueError(f"{option} must be a finite number, not {value!r}")
