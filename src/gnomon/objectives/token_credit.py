"""Credit that differs from token to token: rollouts of a whole step in, an advantage per token [T] out.

Every function takes the rollouts and the advantage of the row (rewards [G, N] to [G, N]), which the terminal
reward passes through first. Beyond the last token of a rollout nothing is expected, unless a `Beyond` says so.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from gnomon.objectives.credit import Ended, Rollouts
from gnomon.objectives.row import Advantage

__all__ = [
    "after_cut_replies",
    "after_limits",
    "gae",
    "gae_returns",
    "length_gae",
    "places_of",
    "reward_to_go",
    "scaled",
    "table_of",
    "whitened",
    "whitened_gae",
    "whitened_reward_to_go",
]


Beyond = Callable[[Rollouts], Tensor]
"""[G, N] what is expected after the last token of every rollout."""


def nothing(rollouts: Rollouts) -> Tensor:
    """Every rollout ends with its last token."""
    return torch.zeros_like(rollouts.rewards)


def after_cut_replies(rollouts: Rollouts) -> Tensor:
    """The critic's value where the token limit of the last reply ended the rollout, else 0.

    Raises: ValueError for rollouts without `beyond`, if any was ended so.
    """
    return _after(rollouts, (Ended.REPLY,))


def after_limits(rollouts: Rollouts) -> Tensor:
    """The critic's value where any limit ended the rollout, else 0.

    Raises: ValueError for rollouts without `beyond`, if any was ended so.
    """
    return _after(rollouts, (Ended.REPLY, Ended.BETWEEN))


BEYOND: dict[str, Beyond] = {"none": nothing, "reply": after_cut_replies, "limit": after_limits}
"""What is expected after the last token, by the value of the option `bootstrap`."""


def _after(rollouts: Rollouts, causes: tuple[Ended, ...]) -> Tensor:
    ended = torch.zeros_like(rollouts.lengths) if rollouts.ended is None else rollouts.ended
    cut = torch.isin(ended, torch.tensor(causes))
    if rollouts.beyond is None:
        if bool(cut.any()):
            raise ValueError("a critic's value after a rollout that a limit ended needs `beyond`")
        return nothing(rollouts)
    return torch.where(cut, rollouts.beyond, 0.0)


def gae(rollouts: Rollouts, advantage: Advantage, *, gamma: float, lam: float, beyond: Beyond = nothing) -> Tensor:
    """Generalised advantage estimates over tokens, the reward at the last one.

    Equation: Aₜ = Σ_{l≥0} (γλ)ˡ δ_{t+l}, δₜ = rₜ + γV_{t+1} − Vₜ, V = `beyond` after the last token.
    Args: gamma, discount per token, 0 … 1; lam, λ, 0 … 1: at 0 the critic's word for all that follows, at 1 none of it.
    Returns: [T], in units of reward; γ = λ = 1 gives r + V after the last token − Vₜ.
    Raises: ValueError for rollouts without values.
    Source: Schulman et al. 2016, arXiv 1506.02438; values at limits as in Pardo et al. 2018, arXiv 1712.00378.
    """
    values, rewards, place = _over_a_critic(rollouts, advantage, gamma, beyond)
    return smoothed(rewards, values, gamma=gamma, lam=lam)[place]


def length_gae(rollouts: Rollouts, advantage: Advantage, *, alpha: float, beyond: Beyond = nothing) -> Tensor:
    """`gae` of γ = 1, with a λ that is nearer to one the longer the rollout: what happens at the end of a long rollout
    reaches its beginning.

    Equation: λ = max(0, 1 − 1/(α·|o|)), so that Σ_k λᵏ = α·|o| where α·|o| ≥ 1.
    Args: alpha, α > 0.
    Returns: [T], in units of reward.
    Raises: ValueError for rollouts without values.
    Source: VAPO 2025, arXiv 2504.05118, §4.2.
    Differs: λ is never negative, as it would be below 1/α tokens.
    """
    values, rewards, place = _over_a_critic(rollouts, advantage, 1.0, beyond)
    lengths = rollouts.lengths.flatten().clamp(min=1).to(values.dtype)
    return smoothed(rewards, values, gamma=1.0, lam=(1 - 1 / (alpha * lengths)).clamp(min=0))[place]


def gae_returns(
    rollouts: Rollouts, advantage: Advantage, *, gamma: float, lam: float, beyond: Beyond = nothing
) -> Tensor:
    """What the critic should have expected before each token: `gae` and its own value.

    Equation: Rₜ = Aₜ + Vₜ.
    Returns: [T], in units of reward.
    Raises: ValueError for rollouts without values.
    """
    values, rewards, place = _over_a_critic(rollouts, advantage, gamma, beyond)
    return (smoothed(rewards, values, gamma=gamma, lam=lam) + values)[place]


def whitened_gae(rollouts: Rollouts, advantage: Advantage, *, gamma: float, lam: float, epsilon: float) -> Tensor:
    """`gae`, `whitened` over the tokens of the whole step."""
    return whitened(gae(rollouts, advantage, gamma=gamma, lam=lam), epsilon=epsilon)


def reward_to_go(rollouts: Rollouts, advantage: Advantage, *, beta: float) -> Tensor:
    """The reward less what the rest of the rollout strays from the reference, from each token on.

    Equation: Aₜ = A − β Σ_{s≥t} log(π(yₛ)/π_ref(yₛ)).
    Args: beta, β, reward per nat, ≥ 0; at 0 nothing but the reward is looked at.
    Returns: [T], in units of reward; summed over tokens its mean gradient is ∇E[r] − β∇KL(policy‖reference) of whole
        answers, where A has it ∇E[r].
    Raises: ValueError for a β above 0 and rollouts without `logp` or `reference_logp`.
    Source: Hu et al. 2025 (REINFORCE++), arXiv 2501.03262.
    """
    credit = rollouts.spread(advantage(rollouts.rewards))
    if not beta:
        return credit
    if rollouts.logp is None or rollouts.reference_logp is None:
        raise ValueError("a penalty in the return needs logp and reference_logp on every token")
    place = places_of(rollouts)
    strayed = table_of(rollouts, rollouts.logp - rollouts.reference_logp, place)
    return credit - beta * discounted(strayed, 1.0)[place]


def whitened_reward_to_go(rollouts: Rollouts, advantage: Advantage, *, beta: float, epsilon: float) -> Tensor:
    """`reward_to_go`, `whitened` over the tokens of the whole step: long rollouts weigh more in its mean."""
    return whitened(reward_to_go(rollouts, advantage, beta=beta), epsilon=epsilon)


def scaled(rollouts: Rollouts, advantage: Advantage, *, beta: float, scale: float) -> Tensor:
    """`reward_to_go` over a scale that no rollout of this step has a say in.

    Args: scale, in units of reward, > 0: a standing estimate of the deviation, such as a mean over past steps.
    """
    return reward_to_go(rollouts, advantage, beta=beta) / scale


def whitened(values: Tensor, *, epsilon: float) -> Tensor:
    """Values less their mean, over their sample deviation.

    Equation: (x − x̄)/√(s² + ε), s² = Σ(x − x̄)²/(T − 1).
    Args: values, [T]; epsilon, added to the variance, ≥ 0.
    Returns: [T]; exactly zero where all values are equal, or where there is but one.
    Source: verl, masked_whiten (ε = 1e-8).
    Differs: there a single token is an error.
    """
    if len(values) < 2 or bool((values == values[0]).all()):
        return torch.zeros_like(values)
    centred = values - values.mean()
    return centred / (centred.square().sum() / (len(values) - 1) + epsilon).sqrt()


def smoothed(rewards: Tensor, values: Tensor, *, gamma: float, lam: float | Tensor) -> Tensor:
    """[rows, K] generalised advantage estimates of rewards and values [rows, K], zero past the end of a row.

    Args: lam, λ of all rows, or [rows].
    """
    ahead = torch.cat([values[:, 1:], torch.zeros_like(values[:, :1])], dim=1)
    return discounted(rewards + gamma * ahead - values, gamma * lam)


def discounted(values: Tensor, factor: float | Tensor) -> Tensor:
    """[…, K] Σ_{l≥0} factorˡ x_{k+l}. Args: factor, one for all, or […]."""
    total = values.clone()
    for place in range(values.shape[-1] - 2, -1, -1):
        total[..., place] += factor * total[..., place + 1]
    return total


def places_of(rollouts: Rollouts) -> tuple[Tensor, Tensor]:
    """[T] row and [T] column of every token in a table of a row per rollout."""
    sequence, lengths = rollouts.sequence, rollouts.lengths.flatten()
    start = lengths.cumsum(0) - lengths
    return sequence, torch.arange(len(sequence)) - start[sequence]


def table_of(rollouts: Rollouts, values: Tensor, place: tuple[Tensor, Tensor]) -> Tensor:
    """[G·N, K] values of tokens [T] in a table of a row per rollout, zero past the end of a row."""
    longest = max(1, int(rollouts.lengths.max()))
    table = torch.zeros(rollouts.rewards.numel(), longest, dtype=values.dtype)
    table[place] = values
    return table


def _over_a_critic(
    rollouts: Rollouts, advantage: Advantage, gamma: float, beyond: Beyond
) -> tuple[Tensor, Tensor, tuple[Tensor, Tensor]]:
    """Values and rewards in tables of a row per rollout, and the place of every token there.

    The last reward of a row has with it what is expected after it, discounted.
    """
    if rollouts.values is None:
        raise ValueError("an advantage over a critic needs its values on every token")
    place = places_of(rollouts)
    values = table_of(rollouts, rollouts.values, place)
    rewards, lengths = torch.zeros_like(values), rollouts.lengths.flatten()
    spoke = lengths.nonzero().squeeze(1)
    last = advantage(rollouts.rewards) + gamma * beyond(rollouts)
    rewards[spoke, lengths[spoke] - 1] = last.flatten()[spoke].to(values.dtype)
    return values, rewards, place
