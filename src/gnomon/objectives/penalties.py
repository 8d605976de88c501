"""Pull towards the reference: coefficient of ∇log π per token, from the [T] log-ratio l = log(policy/reference).

Added to a maximised objective with a weight λ > 0, each lowers the probability of tokens that the
policy favours more than the reference does. Zero where the two agree.
"""

from __future__ import annotations

from torch import Tensor

from gnomon.objectives.ratios import LIMIT

__all__ = ["k2", "k3"]


def k2(log_ratio: Tensor) -> Tensor:
    """Half the squared log-ratio, as a penalty.

    Equation: −∂(l²/2)/∂l = −l.
    Returns: coefficient per token; on policy its mean gradient is −∇KL(policy‖reference) of the next token.
    Source: Schulman 2020, joschu.net/blog/kl-approx.html.
    """
    return -log_ratio


def k3(log_ratio: Tensor) -> Tensor:
    """The never-negative KL estimate e⁻ˡ − 1 + l, as a penalty.

    Equation: −∂(e⁻ˡ − 1 + l)/∂l = e⁻ˡ − 1.
    Returns: coefficient per token, > −1; on policy its mean gradient is −∇KL(reference‖policy) of the next
        token: the value estimates one KL, its gradient descends the other.
    Source: Schulman 2020, joschu.net/blog/kl-approx.html; Shao et al. 2024, arXiv 2402.03300, eq. 4.
    """
    return (-log_ratio).clamp(-LIMIT, LIMIT).expm1()
