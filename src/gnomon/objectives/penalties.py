"""Penalties toward an anchor policy: coefficient of ∇log π per token, from l = log(policy/reference).

Added to a maximised objective with a weight λ > 0, each lowers the probability of tokens that the
policy favours more than the anchor does. Zero where the two agree. `likelihood_of_right` has no anchor: it is a bonus.
"""

from __future__ import annotations

from torch import Tensor

from gnomon.objectives.pairs import companions, first_tokens, ordered_sums
from gnomon.objectives.ratios import LIMIT
from gnomon.objectives.tokens import Reach, Tokens, reaches

__all__ = [
    "capped_drift",
    "centred_k1",
    "drift_of_share",
    "k1_in_return",
    "k2",
    "k3",
    "likelihood_of_right",
    "ratio_weighted_k3",
    "squared_log_ratio",
    "squared_sequence_log_ratio",
]


@reaches(Reach.SEQUENCE)
def k1_in_return(tokens: Tokens) -> Tensor:
    """The log-ratio of the whole rollout, taken off its reward.

    Equation: −Σₛ lₛ, the sum over the rollout.
    Returns: coefficient per token, equal over a rollout; on policy its mean gradient under a sum over tokens is
        −∇KL(policy‖reference) of whole answers, the effect on later states included.
    Source: Schulman 2020, joschu.net/blog/kl-approx.html (the estimate k1); Stiennon et al. 2020, arXiv 2009.01325.
    Differs: the sum runs over the whole rollout instead of from the token on, which has the same mean, and no
        baseline is taken from it.
    """
    return -tokens.per_sequence(tokens.log_divergence)


@reaches(Reach.TOKEN)
def k2(tokens: Tokens) -> Tensor:
    """Half the squared log-ratio, as a penalty.

    Equation: −∂(l²/2)/∂l = −l.
    Returns: coefficient per token; on policy its mean gradient is −∇KL(policy‖reference) of the next token.
    Source: Schulman 2020, joschu.net/blog/kl-approx.html.
    """
    return -tokens.log_divergence


@reaches(Reach.TOKEN)
def k3(tokens: Tokens) -> Tensor:
    """The never-negative KL estimate e⁻ˡ − 1 + l, as a penalty.

    Equation: −∂(e⁻ˡ − 1 + l)/∂l = e⁻ˡ − 1.
    Returns: coefficient per token, > −1; on policy its mean gradient is −∇KL(reference‖policy) of the next
        token: the value estimates one KL, its gradient descends the other.
    Source: Schulman 2020, joschu.net/blog/kl-approx.html; Shao et al. 2024, arXiv 2402.03300.
    """
    return (-tokens.log_divergence).clamp(-LIMIT, LIMIT).expm1()


@reaches(Reach.TOKEN)
def ratio_weighted_k3(tokens: Tokens) -> Tensor:
    """The k3 estimate under the importance ratio of its token, both differentiated.

    Equation: −∂(ρ·(e⁻ˡ − 1 + l))/∂log π = −ρ·l, ρ = policy/behavior.
    Returns: coefficient per token; its mean over actions of behavior is −∇KL(policy‖reference) of the next token,
        at any lag.
    Source: DeepSeek-AI 2025 (DeepSeek-V3.2), arXiv 2512.02556, §3.1.
    """
    ratio = (tokens.logp - tokens.behavior_logp).clamp(-LIMIT, LIMIT).exp()
    return -ratio * tokens.log_divergence.clamp(-LIMIT, LIMIT)


@reaches(Reach.TOKEN)
def squared_log_ratio(tokens: Tokens) -> Tensor:
    """The squared log-ratio to the behavior, as a penalty; it needs no reference.

    Equation: −∂(log(π/μ)²)/∂log π = −2·log(π/μ).
    Returns: coefficient per token, zero on policy.
    Source: prime-rl, the default loss (weight 1e-3).
    """
    return -2 * (tokens.logp - tokens.behavior_logp)


@reaches(Reach.SEQUENCE)
def squared_sequence_log_ratio(tokens: Tokens) -> Tensor:
    """The squared log-ratio of the whole rollout to the behavior, as a penalty; it needs no reference.

    Equation: −∂(Σₛ log(πₛ/μₛ))²/∂log πₜ = −2·Σₛ log(πₛ/μₛ), the sum over the rollout.
    Returns: coefficient per token, equal over a rollout, zero on policy.
    Source: Richemond et al. 2024 (DRO), arXiv 2405.19107.
    """
    return -2 * tokens.per_sequence(tokens.logp - tokens.behavior_logp)


@reaches(Reach.TOKEN)
def capped_drift(tokens: Tokens, *, cap: float) -> Tensor:
    """The ratio to the proximal policy less one, up to a cap, as a penalty; it needs no reference.

    Equation: −min(ρ − 1, c), ρ = π/π_prox.
    Args: cap, c > 0.
    Returns: coefficient per token, −c … 1, zero on policy.
    Source: Liu et al. 2025 (CPGD), arXiv 2505.12504, eq. 2.
    """
    return -(tokens.log_ratio.clamp(-LIMIT, LIMIT).expm1()).clamp(max=cap)


@reaches(Reach.GROUP)
def centred_k1(tokens: Tokens) -> Tensor:
    """The log-ratio of the whole rollout less its mean over the rollouts of the group, taken off its reward.

    Equation: −(Σₛ lₛ − mean_j Σₛ lⱼₛ), the mean over the rollouts of the group that have tokens.
    Returns: coefficient per token, equal over a rollout; sums to zero over the rollouts of a group.
    Source: Bartoldson et al. 2025 (TBA), arXiv 2503.18929.
    """
    whole = tokens.per_sequence(tokens.log_divergence)
    return tokens.per_group(whole) / tokens.per_group(whole.new_ones(whole.shape)) - whole


@reaches(Reach.GROUP)
def drift_of_share(tokens: Tokens) -> Tensor:
    """How much likelier a rollout has become among the answers of its group, as a penalty; it needs no reference.

    Equation: −(pᵢ − pᵢ_prox), p = π(yᵢ)/Σⱼ π(yⱼ) over the rollouts of the group that have tokens: the derivative of
        −log Σⱼ π(yⱼ) in log π(yᵢ), less its value at the proximal policy.
    Returns: coefficient per token, −1 … 1, equal over a rollout, zero on policy.
    Source: Kaddour 2026 (TPO), arXiv 2604.06159, eq. 3.
    """
    first, owner = first_tokens(tokens)
    own, other = companions(tokens.group[first])

    def share(logp: Tensor) -> Tensor:
        whole = tokens.per_sequence(logp)[first]
        top = whole.new_zeros(len(first)).scatter_reduce(0, own, whole[other], "amax", include_self=False)
        return (whole - top).exp() / ordered_sums((whole[other] - top[own]).exp(), own, len(first))

    now, before = share(tokens.logp), share(tokens.logp - tokens.log_ratio)
    # Pair by pair: the difference of two shares near one would cancel all their digits.
    return ordered_sums(before[own] * now[other] - now[own] * before[other], own, len(first))[owner]


@reaches(Reach.TOKEN)
def likelihood_of_right(tokens: Tokens) -> Tensor:
    """The log-likelihood of the rollouts with a reward of at least one, as a bonus; it needs no reference.

    Equation: 1[r ≥ 1].
    Returns: coefficient per token, 0 or 1. Under a sum over tokens its mean gradient is ∇p, p the chance
        of such a reward.
    Raises: ValueError for tokens that do not tell which rollouts are right.
    Source: VAPO 2025, arXiv 2504.05118, §4.3 (positive example LM loss).
    """
    if tokens.right is None:
        raise ValueError("the likelihood of right rollouts needs `right` on the tokens")
    return tokens.right.to(tokens.logp.dtype)


OF_BEHAVIOR = (squared_log_ratio, squared_sequence_log_ratio, capped_drift, drift_of_share, likelihood_of_right)
"""Penalties that look at no reference."""
