"""How far the scores of successes scatter: what choosing between REINFORCE and maximum likelihood turns on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import torch
from torch import Tensor

from gnomon.learners.batch import Batch
from gnomon.models.policy import Policy
from gnomon.models.precision import at_least
from gnomon.models.projection import chunks, logp_of
from gnomon.stats import Mean, Stats, merge

__all__ = ["SuccessScatter"]


class SuccessScatter:
    """First two moments of the scores of successes, in the weights of the vocabulary projection alone.

    Equation: with S the score ∇log π(y) of a success and S̄ their mean over a group, |S̄|² less what chance adds to
        it, Σ_{i≠j} Sᵢ·Sⱼ/(K(K−1)), and tr Cov(S) = Σ |Sᵢ|²/K less that.
    Args: batch, all that is going to be added; a rollout with a reward above zero is a success.
    Differs: the other weights are left out, whose scores would cost a backward pass for every rollout.
    """

    def __init__(self, policy: Policy, batch: Batch) -> None:
        self.policy, self.temperature = policy, batch.temperature
        self.rewards: list[float] = batch.rollouts.rewards.flatten().tolist()
        self.missing = Counter(found.group for found in batch.sequences if self.rewards[found.rollout] > 0)
        """Sequences of successes yet to come, by group."""
        self.scores: dict[int, dict[int, Tensor]] = {}
        """Of the rollouts of a group that has not come whole."""

    @torch.no_grad()
    def add(self, hidden: Tensor, batch: Batch) -> Stats:
        """Take in a micro-batch. Args: hidden, [T, size] the state before every trainable token.

        Returns: `score_signal` and `score_scatter`, means over the groups that are whole with it and have at
            least two successes, both unbiased; τ of `gnomon tune-objective` is their ratio. Nothing where there is no
            such group.
        """
        stats: Stats = {}
        parts = torch.split(hidden, [len(sequence) for sequence in batch.sequences])
        for sequence, part in zip(batch.sequences, parts, strict=True):
            rollout, group = sequence.rollout, sequence.group
            if self.rewards[rollout] <= 0:
                continue
            of_group = self.scores.setdefault(group, {})
            score = projection_score(self.policy, part, sequence.targets, self.temperature)
            of_group[rollout] = of_group[rollout] + score if rollout in of_group else score
            self.missing[group] -= 1
            if not self.missing[group]:
                stats = merge(stats, moments(list(self.scores.pop(group).values())))
        return stats


def moments(scores: Sequence[Tensor]) -> Stats:
    """The two moments of the scores of one group."""
    count = len(scores)
    if count < 2:
        return {}
    squares = sum(float(score.square().sum()) for score in scores)
    whole = float(torch.stack(list(scores)).sum(0).square().sum())
    signal = (whole - squares) / (count * (count - 1))
    return {"score_signal": Mean(signal), "score_scatter": Mean(squares / count - signal)}


def projection_score(policy: Policy, hidden: Tensor, tokens: Tensor, temperature: float) -> Tensor:
    """[vocabulary, size] the gradient of Σ log π of these tokens in the projection, the vocabulary in chunks."""
    projection = policy.projection
    score = torch.zeros_like(at_least(projection.weight.detach()))
    for part, chosen in chunks(policy.vocabulary, hidden.detach(), tokens.to(hidden.device)):
        with torch.enable_grad():
            weight = projection.weight.detach().requires_grad_()
            logp = logp_of(projection.scores(part, weight), temperature)
            (found,) = torch.autograd.grad(logp.gather(1, chosen[:, None]).sum(), weight)
        score += found
    return score
