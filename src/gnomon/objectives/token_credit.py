"""Credit that differs from token to token: rollouts of a whole step in, an advantage per token [T] out.

Every function takes the rollouts and the advantage of the row (rewards [G, N] to [G, N]), which the terminal
reward passes through first. Beyond the last token of a rollout nothing is expected, unless a `Beyond` says so.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from gnomon.objectives.credit import Advantage, Ended, Rollouts

__all__ = [
    "after_cut_replies",
    "after_limits",
    "gae",
    "gae_returns",
    "length_gae",
    "most_uncertain",
    "most_uncertain_alone",
    "optimally_centred",
    "others_optimally_centred",
    "places_of",
    "reward_to_go",
    "reward_to_go_over",
    "table_of",
    "toward_reference",
    "whiten",
    "whitened_gae",
    "whitened_reward_to_go",
    "zero_variance",
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
    values, rewards, index = _over_a_critic(rollouts, advantage, gamma, beyond)
    return advantage_estimates(rewards, values, gamma=gamma, lam=lam)[index]


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
    values, rewards, index = _over_a_critic(rollouts, advantage, 1.0, beyond)
    lengths = rollouts.lengths.flatten().clamp(min=1).to(values.dtype)
    return advantage_estimates(rewards, values, gamma=1.0, lam=(1 - 1 / (alpha * lengths)).clamp(min=0))[index]


def gae_returns(
    rollouts: Rollouts, advantage: Advantage, *, gamma: float, lam: float, beyond: Beyond = nothing
) -> Tensor:
    """What the critic should have expected before each token: `gae` and its own value.

    Equation: Rₜ = Aₜ + Vₜ.
    Returns: [T], in units of reward.
    Raises: ValueError for rollouts without values.
    """
    values, rewards, index = _over_a_critic(rollouts, advantage, gamma, beyond)
    return (advantage_estimates(rewards, values, gamma=gamma, lam=lam) + values)[index]


def whitened_gae(rollouts: Rollouts, advantage: Advantage, *, gamma: float, lam: float, epsilon: float) -> Tensor:
    """`gae`, `whiten` over the tokens of the whole step."""
    return whiten(gae(rollouts, advantage, gamma=gamma, lam=lam), epsilon=epsilon)


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
    index = places_of(rollouts)
    strayed = table_of(rollouts, rollouts.logp - rollouts.reference_logp, index)
    return credit - beta * discount(strayed, 1.0)[index]


def whitened_reward_to_go(rollouts: Rollouts, advantage: Advantage, *, beta: float, epsilon: float) -> Tensor:
    """`reward_to_go`, `whiten` over the tokens of the whole step: long rollouts weigh more in its mean."""
    return whiten(reward_to_go(rollouts, advantage, beta=beta), epsilon=epsilon)


def reward_to_go_over(rollouts: Rollouts, advantage: Advantage, *, beta: float, scale: float) -> Tensor:
    """`reward_to_go` over a scale that no rollout of this step has a say in.

    Args: scale, in units of reward, > 0: a standing estimate of the deviation, such as a mean over past steps.
    """
    return reward_to_go(rollouts, advantage, beta=beta) / scale


def whiten(values: Tensor, *, epsilon: float) -> Tensor:
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


def advantage_estimates(rewards: Tensor, values: Tensor, *, gamma: float, lam: float | Tensor) -> Tensor:
    """[rows, K] generalised advantage estimates of rewards and values [rows, K], zero past the end of a row.

    Args: lam, λ of all rows, or [rows].
    """
    ahead = torch.cat([values[:, 1:], torch.zeros_like(values[:, :1])], dim=1)
    return discount(rewards + gamma * ahead - values, gamma * lam)


def discount(values: Tensor, factor: float | Tensor) -> Tensor:
    """[…, K] Σ_{l≥0} factorˡ x_{k+l}. Args: factor, one for all, or […]."""
    total = values.clone()
    for position in range(values.shape[-1] - 2, -1, -1):
        total[..., position] += factor * total[..., position + 1]
    return total


def places_of(rollouts: Rollouts) -> tuple[Tensor, Tensor]:
    """[T] row and [T] column of every token in a table of a row per rollout."""
    sequence, lengths = rollouts.sequence, rollouts.lengths.flatten()
    start = lengths.cumsum(0) - lengths
    return sequence, torch.arange(len(sequence)) - start[sequence]


def table_of(rollouts: Rollouts, values: Tensor, index: tuple[Tensor, Tensor]) -> Tensor:
    """[G·N, K] values of tokens [T] in a table of a row per rollout, zero past the end of a row."""
    longest = max(1, int(rollouts.lengths.max()))
    table = torch.zeros(rollouts.rewards.numel(), longest, dtype=values.dtype)
    table[index] = values
    return table


def _over_a_critic(
    rollouts: Rollouts, advantage: Advantage, gamma: float, beyond: Beyond
) -> tuple[Tensor, Tensor, tuple[Tensor, Tensor]]:
    """Values and rewards in tables of a row per rollout, and the place of every token there.

    The last reward of a row has with it what is expected after it, discounted.
    """
    if rollouts.values is None:
        raise ValueError("an advantage over a critic needs its values on every token")
    index = places_of(rollouts)
    values = table_of(rollouts, rollouts.values, index)
    rewards, lengths = torch.zeros_like(values), rollouts.lengths.flatten()
    spoke = lengths.nonzero().squeeze(1)
    last = advantage(rollouts.rewards) + gamma * beyond(rollouts)
    rewards[spoke, lengths[spoke] - 1] = last.flatten()[spoke].to(values.dtype)
    return values, rewards, index


def most_uncertain(entropy: Tensor, *, share: float) -> Tensor:
    """Which tokens have the highest entropies.

    Equation: Hₜ ≥ the (1 − share) quantile of H, interpolated: the 1 + ⌊share·(T−1)⌋ highest, and those level with the
        last of them.
    Args: entropy, [T] nats; share, 0 < share ≤ 1.
    Returns: [T] bool.
    Source: Wang et al. 2025, arXiv 2506.01939; TRL, top_entropy_quantile.
    """
    if not len(entropy):
        return entropy.new_zeros(0, dtype=torch.bool)
    count = 1 + int(share * (len(entropy) - 1) + 1e-9)  # A product just below an integer is that integer.
    return entropy >= entropy.topk(count).values[-1]


def most_uncertain_alone(rollouts: Rollouts, advantage: Advantage, *, share: float) -> Tensor:
    """The advantage on the tokens of the step whose entropies are the highest, nothing on the others.

    Equation: A·1[Hₜ ≥ the (1 − share) quantile of the step].
    Args: share, of all tokens of the step, 0 < share ≤ 1.
    Returns: [T].
    Raises: ValueError for rollouts without entropies.
    Source: Wang et al. 2025, arXiv 2506.01939.
    """
    return rollouts.spread(advantage(rollouts.rewards)) * most_uncertain(_entropy(rollouts), share=share)


def zero_variance(rollouts: Rollouts, advantage: Advantage, *, alpha: float) -> Tensor:
    """The advantage where the rewards of a group differ; where they do not, uncertain tokens are raised in right
    rollouts and spared in wrong ones.

    Equation: A where 0 < K < N; α·Hₜ where K = N; −α·(max_s H_s − Hₜ) where K = 0, the maximum over the rollout.
    Args: alpha, α, advantage per nat, ≥ 0.
    Returns: [T].
    Raises: ValueError for rewards other than 0 and 1, and for rollouts without entropies.
    Source: Le et al. 2025 (RL-ZVP), arXiv 2509.21880, eq. 5.
    """
    rewards, entropy, owner = rollouts.rewards, _entropy(rollouts), rollouts.sequence
    if not bool(((rewards == 0) | (rewards == 1)).all()):
        raise ValueError("a group without variance is all right or all wrong: rewards must be 0 or 1")
    largest = entropy.new_zeros(rewards.numel()).scatter_reduce(0, owner, entropy, "amax")[owner]
    alike = rollouts.spread((rewards == rewards[:, :1]).all(dim=1, keepdim=True).expand_as(rewards))
    push = torch.where(rollouts.spread(rewards) == 1, entropy, entropy - largest)
    return torch.where(alike, alpha * push, rollouts.spread(advantage(rewards)))


def _entropy(rollouts: Rollouts) -> Tensor:
    if rollouts.entropy is None:
        raise ValueError("this objective looks at the policy's entropy, and these rollouts have none")
    return rollouts.entropy


def optimally_centred(rollouts: Rollouts, advantage: Advantage) -> Tensor:
    """The advantage less its mean over the rollouts that reach the position, each by the squared score so far.

    Equation: Aᵢ − Bₜ, Bₜ = Σⱼ Aⱼ W_jt / Σⱼ W_jt, W_t = Σ_{s≤t} (1 − 2π(yₛ) + Σ_v π(v)²), over the rollouts of the
        group with a token at t; Bₜ = 0 where there is no other. In brackets: ‖∇log π(yₛ)‖² in the logits.
    Returns: [T].
    Raises: ValueError for rollouts without log-probabilities or collision probabilities.
    Source: verl, compute_multi_turn_optimal_token_baseline_advantage; for one turn the same as
        compute_optimal_token_baseline_advantage.
    Differs: without its ε of 1e-8 in the divisor.
    """
    return _less_mean(rollouts, advantage(rollouts.rewards), torch.ones)


def others_optimally_centred(rollouts: Rollouts, advantage: Advantage) -> Tensor:
    """`optimally_centred` with the rollout itself left out of the mean, which no longer depends on its tokens.

    Equation: Aᵢ − Σ_{j≠i} Aⱼ W_jt / Σ_{j≠i} W_jt.
    Returns: [T].
    Raises: ValueError for rollouts without log-probabilities or collision probabilities.
    """
    return _less_mean(rollouts, advantage(rollouts.rewards), lambda *size: 1 - torch.eye(*size))


def _less_mean(rollouts: Rollouts, plain: Tensor, peers: Callable[[int, int], Tensor]) -> Tensor:
    """Args: peers: [N, N] one where the second rollout is in the mean of the first."""
    if rollouts.logp is None or rollouts.collision is None:
        raise ValueError("the optimal baseline needs logp and collision on every token")
    index, (groups, size) = places_of(rollouts), plain.shape
    squared = (1 - 2 * rollouts.logp.exp() + rollouts.collision).clamp(min=0)
    here = table_of(rollouts, torch.ones_like(squared), index)
    weight = (table_of(rollouts, squared, index).cumsum(1) * here).reshape(groups, size, -1).to(plain.dtype)
    here = here.reshape(groups, size, -1)
    least = plain.amin(dim=1)[:, None, None]  # Taken off first: where all earn the same the mean is exactly that.
    included = peers(size, size).to(plain)
    total = torch.einsum("ij,gjt->git", included, weight)
    mean = torch.einsum("ij,gjt->git", included, weight * (plain[..., None] - least)) / total.clamp(min=1e-300)
    met = (here.sum(dim=1, keepdim=True) > here) & (total > 0)
    baseline = torch.where(met, least + mean, 0.0)
    return rollouts.spread(plain) - baseline.flatten(0, 1)[index]


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
    index = places_of(rollouts)
    ahead = table_of(rollouts, rollouts.reference_logp - rollouts.logp, index)
    return rollouts.spread(advantage(rollouts.rewards)) * discount(ahead, gamma)[index]
