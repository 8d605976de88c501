"""How far the scores of successes scatter: what choosing between REINFORCE and maximum likelihood turns on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import linear

from gnomon.learners.batch import Batch
from gnomon.models.policy import Policy
from gnomon.models.precision import at_least
from gnomon.stats import Mean, Stats, merge

__all__ = ["SuccessScatter"]

ROWS = 2048
"""Tokens of the vocabulary whose scores are held at once."""


class Piece(NamedTuple):
    """The trainable tokens of a sequence."""

    hidden: Tensor
    """[T, size] before each of them."""
    tokens: Tensor
    """[T]."""
    logp: Tensor
    """[T] of each, under the tempered distribution."""


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
        self.missing = Counter(sequence.group for sequence in batch.sequences if self.rewards[sequence.rollout] > 0)
        """Sequences of successes yet to come, by group."""
        self.pieces: dict[int, dict[int, list[Piece]]] = {}
        """Of the rollouts of a group that has not come whole."""

    @torch.no_grad()
    def add(self, hidden: Tensor, logp: Tensor, batch: Batch) -> Stats:
        """Take in a micro-batch. Args: hidden, [T, size] the state before every trainable token; logp, [T] of it.

        Returns: `score_signal` and `score_scatter`, means over the groups that are whole with it and have at
            least two successes, both unbiased; τ of `gnomon tune-objective` is their ratio. Nothing where there is no
            such group.
        """
        stats: Stats = {}
        lengths = [len(sequence) for sequence in batch.sequences]
        parts = zip(batch.sequences, torch.split(hidden, lengths), torch.split(logp, lengths), strict=True)
        for sequence, states, coefficients in parts:
            rollout, group = sequence.rollout, sequence.group
            if self.rewards[rollout] <= 0:
                continue
            piece = Piece(states.detach(), sequence.targets.to(states.device), coefficients.detach())
            self.pieces.setdefault(group, {}).setdefault(rollout, []).append(piece)
            self.missing[group] -= 1
            if not self.missing[group]:
                stats = merge(stats, moments(self.policy, list(self.pieces.pop(group).values()), self.temperature))
        return stats


def moments(policy: Policy, successes: Sequence[Sequence[Piece]], temperature: float) -> Stats:
    """The two moments of the scores of one group. No score is held whole: each is [vocabulary, size]."""
    count = len(successes)
    if count < 2:
        return {}
    joined = [Piece(*map(torch.cat, zip(*pieces, strict=True))) for pieces in successes]
    squares = whole = 0.0
    for start in range(0, policy.vocabulary, ROWS):
        rows = [score_rows(policy, piece, slice(start, start + ROWS), temperature) for piece in joined]
        squares += sum(float(score.square().sum()) for score in rows)
        whole += float(torch.stack(rows).sum(0).square().sum())
    signal = (whole - squares) / (count * (count - 1))
    return {"score_signal": Mean(signal), "score_scatter": Mean(squares / count - signal)}


def score_rows(policy: Policy, piece: Piece, rows: slice, temperature: float) -> Tensor:
    """[rows, size] the gradient of Σ log π of these tokens in rows of the projection.

    The log-probability of a token and its score give the normaliser of its distribution, so these rows are enough.
    """
    projection = policy.projection
    weight, bias = projection.weight.detach(), projection.bias
    own = (at_least(piece.hidden) * at_least(weight[piece.tokens])).sum(-1).to(weight.dtype)
    own = projection.bound(own if bias is None else own + bias.detach()[piece.tokens]) / temperature
    scores = projection.bound(linear(piece.hidden, weight[rows], None if bias is None else bias.detach()[rows]))
    by_score = -(scores / temperature - (own - piece.logp)[:, None]).exp()
    offset = piece.tokens - rows.start
    here = ((offset >= 0) & (offset < by_score.shape[1])).nonzero().flatten()
    by_score[here, offset[here]] += 1
    by_score *= projection.slope(scores)
    return (by_score / temperature).t() @ at_least(piece.hidden)
