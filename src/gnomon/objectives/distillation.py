"""Credit by a teacher: the log-ratios of the teacher's probabilities of the tokens to the policy's."""

from __future__ import annotations

from torch import Tensor

from gnomon.objectives.credit import Rollouts
from gnomon.objectives.row import Advantage
from gnomon.objectives.token_credit import discounted, places_of, table_of

__all__ = ["toward_reference"]


def toward_reference(rollouts: Rollouts, advantage: Advantage, *, gamma: float) -> Tensor:
    """The discounted sum of log π_ref/π over each token and those after it, times the advantage of the rollout.

    Equation: Aₜ = A·Σ_{s≥t} γ^{s−t}·log(π_ref(yₛ)/π(yₛ)).
    Args: gamma, γ, discount per token, 0 … 1.
    Returns: [T], in nats where A is one. For A = 1 and a sum over tokens, the expected gradient is
        −Σ_s P(s)·∇KL(π(·|s)‖π_ref(·|s)) with γ = 0, where the probabilities P(s) of the states s count as constants;
        with γ = 1 it is −∇KL(π‖π_ref) of whole answers.
    Raises: ValueError for rollouts without `logp` or `reference_logp`.
    Source: Lu & Thinking Machines 2025, thinkingmachines.ai/blog/on-policy-distillation, for γ = 0; Gu et al. 2023
        (MiniLLM), arXiv 2306.08543, for γ = 1.
    """
    if rollouts.logp is None or rollouts.reference_logp is None:
        raise ValueError("credit by a teacher needs logp and reference_logp on every token")
    place = places_of(rollouts)
    ahead = table_of(rollouts, rollouts.reference_logp - rollouts.logp, place)
    return rollouts.spread(advantage(rollouts.rewards)) * discounted(ahead, gamma)[place]
