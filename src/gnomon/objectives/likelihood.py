"""Credit that asks how likely a text is instead of what it earned."""

from __future__ import annotations

import torch
from torch import Tensor

from gnomon.objectives.advantages import counted, raw
from gnomon.objectives.counts import CountWeight
from gnomon.objectives.credit import Advantage, Rollouts

__all__ = [
    "answer_likelihood",
    "finished_alone",
    "likelihood_on_answer",
    "likelihood_throughout",
    "successes",
    "unit_advantage",
]


def unit_advantage(rewards: Tensor) -> Tensor:
    """One for every rollout, independent of its reward.

    Equation: Aᵢ = 1.
    Returns: advantage per rollout.
    """
    return torch.ones_like(raw(rewards))


def successes(rewards: Tensor) -> Tensor:
    """One for every success, zero for every failure.

    Equation: Aᵢ = rᵢ.
    Returns: advantage per rollout.
    Raises: ValueError for a reward other than 0 and 1.
    """
    return counted(rewards, weight=_unit)


def finished_alone(rollouts: Rollouts, advantage: Advantage) -> Tensor:
    """The advantage of a rollout on each of its tokens, nothing on those of one that the length limit cut off.

    Equation: Aₜ = A·1[finished].
    Returns: [T].
    """
    credit = advantage(rollouts.rewards)
    return rollouts.spread(credit if rollouts.finished is None else credit * rollouts.finished)


def answer_likelihood(rollouts: Rollouts) -> Tensor:
    """How likely the policy finds the answer of each rollout, after its reasoning.

    Equation: Rᵢ = exp Σ_{t: segment > 0} log π(yₜ|y_{<t}).
    Returns: [G, N], 0 … 1; zero for a rollout whose answer never came: nothing of it is likely.
    Raises: ValueError for rollouts without segments or without log-probabilities.
    """
    segment, logp = _parts(rollouts)
    total = torch.zeros(rollouts.rewards.numel(), dtype=logp.dtype)
    inside = segment > 0
    owner = rollouts.sequence[inside]
    total.index_add_(0, owner, logp[inside])
    answered = torch.zeros(len(total), dtype=torch.bool).index_fill_(0, owner, True)
    return torch.where(answered, total.exp(), torch.zeros_like(total)).reshape(rollouts.rewards.shape)


def likelihood_on_answer(rollouts: Rollouts, advantage: Advantage) -> Tensor:
    """The advantage of the answer's likelihood on the reasoning, the likelihood itself on the answer.

    A baseline is free on tokens that the policy chose; the answer was not chosen, so its score does not vanish on
    average and what is taken off there changes the gradient.

    Equation: Aₜ = A(R)ᵢ in segment 0, Rᵢ in the others.
    Returns: [T].
    Raises: ValueError for rollouts without segments or without log-probabilities.
    Source: Zhou et al. 2025 (VeriFree), arXiv 2505.21493.
    """
    likelihood = answer_likelihood(rollouts)
    segment, _ = _parts(rollouts)
    return torch.where(segment > 0, rollouts.spread(likelihood), rollouts.spread(advantage(likelihood)))


def likelihood_throughout(rollouts: Rollouts, advantage: Advantage) -> Tensor:
    """The advantage of the answer's likelihood on every token. Biased by −mean(R)·∇log π(answer): see above.

    Equation: Aₜ = A(R)ᵢ.
    Returns: [T].
    Raises: ValueError for rollouts without segments or without log-probabilities.
    Source: sail-sg/VeriFree, `sft_coef_source = adv`.
    """
    return rollouts.spread(advantage(answer_likelihood(rollouts)))


def _parts(rollouts: Rollouts) -> tuple[Tensor, Tensor]:
    if rollouts.segment is None:
        raise ValueError("answer and reasoning must be marked: segment 0 is reasoning, the others are the answer")
    if rollouts.logp is None:
        raise ValueError("the likelihood of an answer takes log-probabilities under the policy")
    return rollouts.segment, rollouts.logp


def _unit(group: int) -> CountWeight:
    return CountWeight(success=(1.0,) * (group + 1), failure=(0.0,) * (group + 1))
