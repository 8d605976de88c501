"""How far a step moves the chance of success of a prompt, from the scores of one group of rollouts.

With the score S = ∇log π(y) of a rollout and p its chance of success, ∇log p = E[S | success] and −∇log(1−p) =
−E[S | failure], so

    ℓ = |∇log p|²,   t = tr Cov(S | success),   Λ = |∇log(p/(1−p))|² = ℓ/(1−p)²,   |∇p|² = p²·ℓ.

Each estimate here has that mean over groups with as many successes as it asks for, whatever p is. Chance may make it
negative; means over groups take it as it is.

Source: derived; unbiased by the independence of the rollouts of a group.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch import Tensor

__all__ = ["Scores", "local_sensitivity", "odds_sensitivity", "slope_square", "success_scatter"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scores:
    """What the scores Sᵢ of a group of n rollouts add up to, K of them successes."""

    successes: int
    """K."""
    failures: int
    """n − K."""
    won_whole: float
    """|Σ Sᵢ|² over the successes."""
    won_squares: float
    """Σ |Sᵢ|² over the successes."""
    lost_whole: float
    """|Σ Sᵢ|² over the failures."""
    lost_squares: float
    """Σ |Sᵢ|² over the failures."""
    across: float
    """Σ₊Sᵢ · Σ₋Sⱼ, the sum over the successes times that over the failures."""

    @classmethod
    def of(cls, scores: Tensor, rewards: Tensor) -> Scores:
        """The sums of a group. Args: scores: [n, parameters]; rewards: [n], 0 or 1."""
        won, lost = scores[rewards == 1], scores[rewards == 0]
        up, down = won.sum(dim=0), lost.sum(dim=0)
        return cls(
            successes=len(won),
            failures=len(lost),
            won_whole=float(up @ up),
            won_squares=float(won.square().sum()),
            lost_whole=float(down @ down),
            lost_squares=float(lost.square().sum()),
            across=float(up @ down),
        )


def local_sensitivity(scores: Scores) -> float:
    """An estimate of ℓ = |∇log p|².

    Equation: ℓ̂ = (|ΣS|² − Σ|S|²)/(K(K−1)) over the successes.
    Returns: NaN for fewer than two successes.
    """
    return _pairs(scores.won_whole, scores.won_squares, scores.successes)


def success_scatter(scores: Scores) -> float:
    """An estimate of t, the trace of the covariance of the score of a success.

    Equation: t̂ = Σ|S|²/K − ℓ̂.
    Returns: NaN for fewer than two successes.
    """
    return scores.won_squares / max(scores.successes, 1) - local_sensitivity(scores)


def odds_sensitivity(scores: Scores) -> float:
    """An estimate of Λ = |∇log(p/(1−p))|², which needs no factor (1−p)².

    Equation: Λ̂ = ℓ̂₊ + ℓ̂₋ − 2·S̄₊·S̄₋, ℓ̂₋ as ℓ̂ over the failures, S̄ the mean scores.
    Returns: NaN for fewer than two successes or two failures.
    """
    lost = _pairs(scores.lost_whole, scores.lost_squares, scores.failures)
    across = scores.across / max(scores.successes * scores.failures, 1)
    return local_sensitivity(scores) + lost - 2 * across


def slope_square(scores: Scores) -> float:
    """An estimate of |∇p|², from groups with any number of successes.

    Equation: Σ_{i≠j} (rᵢ − b)(rⱼ − b)·Sᵢ·Sⱼ/(n(n−1)), b the mean reward of the others without i and j.
    Returns: NaN for groups of fewer than three.
    """
    count = scores.successes + scores.failures
    if count < 3:
        return math.nan
    both, none, one = (won / (count - 2) for won in (scores.successes - 2, scores.successes, scores.successes - 1))
    total = (1 - both) ** 2 * (scores.won_whole - scores.won_squares)
    total += none**2 * (scores.lost_whole - scores.lost_squares)
    return (total - 2 * one * (1 - one) * scores.across) / (count * (count - 1))


def _pairs(whole: float, squares: float, count: int) -> float:
    """The mean of Sᵢ·Sⱼ over the pairs i ≠ j."""
    return (whole - squares) / (count * (count - 1)) if count > 1 else math.nan
