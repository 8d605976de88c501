"""From hidden states to log-probabilities, the vocabulary taken in chunks: [tokens, vocabulary] is never held."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import linear, pad

from gnomon.models.attention import MIN_ROWS
from gnomon.models.precision import at_least

__all__ = ["Projection", "chunks", "full_kl", "logp_of", "token_logp"]

CHUNK = 2**22
"""Most scores (tokens × vocabulary) held at once."""


class Projection(NamedTuple):
    """How hidden states become scores over the next token."""

    weight: Tensor
    """[vocabulary, size]."""
    cap: float | None
    """Scores are bent to stay within ±cap."""
    dtype: torch.dtype
    """The coarsest dtype of scores."""

    def scores(self, hidden: Tensor, weight: Tensor | None = None) -> Tensor:
        """[T, vocabulary] of hidden states [T, size]. Args: weight, a stand-in for the projection's own.

        The product is computed in the dtype of its factors; what follows from it is at least `dtype`.
        """
        found = at_least(linear(hidden, self.weight if weight is None else weight), self.dtype)
        return found if self.cap is None else self.cap * torch.tanh(found / self.cap)


def logp_of(scores: Tensor, temperature: float | Tensor) -> Tensor:
    """Natural log-probabilities of the tempered distribution; the one formula of sampler and learner."""
    return torch.log_softmax(scores / temperature, -1)


def token_logp(hidden: Tensor, projection: Projection, target: Tensor, temperature: float) -> tuple[Tensor, Tensor]:
    """[T] log-probabilities of the targets [T], and [T] entropies of the next-token distributions; both in nats."""
    return ChunkedLogp.apply(hidden, projection.weight, target, projection, temperature)  # type: ignore[no-untyped-call,no-any-return]


def full_kl(
    hidden: Tensor, projection: Projection, anchor: Tensor, reference: Projection, temperature: float
) -> Tensor:
    """[T] the divergence of the whole next-token distribution from a reference's, exactly, in nats.

    Equation: KL(π‖ref) = Σ_v π(v)·(log π(v) − log ref(v)), both tempered.
    Args: hidden, anchor: [T, size] of the policy, which carries gradients, and of the reference, which has none.
    """
    return ChunkedKl.apply(hidden, projection.weight, anchor, projection, reference, temperature)  # type: ignore[no-untyped-call,no-any-return]


class ChunkedLogp(torch.autograd.Function):
    """The forward pass keeps nothing of the size of the vocabulary; the backward pass computes each chunk again."""

    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, target: Tensor, projection: Projection, temperature: float
    ) -> tuple[Tensor, Tensor]:
        ctx.save_for_backward(hidden, weight, target)
        ctx.projection, ctx.temperature = projection, temperature
        logps, entropies = [], []
        for h, y in chunks(len(weight), hidden, target):
            logp = logp_of(scores_of_few(projection, h), temperature)
            logps.append(logp.gather(1, y[:, None])[:, 0])
            entropies.append(-(logp.exp() * logp).sum(-1))
        ctx.set_materialize_grads(False)
        return torch.cat(logps), torch.cat(entropies)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor, Tensor, None, None, None]:
        hidden, weight, target = ctx.saved_tensors
        by_logp, by_entropy = grads
        by_hidden, grad_weight = [], torch.zeros_like(at_least(weight))
        if by_logp is None:
            assert by_entropy is not None
            by_logp = torch.zeros_like(by_entropy)
        for h, y, g, e in chunks(len(weight), hidden, target, by_logp, by_logp if by_entropy is None else by_entropy):
            with torch.enable_grad():
                leaf, own = h.detach().requires_grad_(), weight.detach().requires_grad_()
                logp = logp_of(ctx.projection.scores(leaf, own), ctx.temperature)
                outs, weights = [logp.gather(1, y[:, None])[:, 0]], [g]
                if by_entropy is not None:
                    outs, weights = [*outs, -(logp.exp() * logp).sum(-1)], [*weights, e]
            found, of_weight = torch.autograd.grad(outs, (leaf, own), weights)
            by_hidden.append(found)
            grad_weight += of_weight
        return torch.cat(by_hidden), grad_weight.to(weight.dtype), None, None, None


class ChunkedKl(torch.autograd.Function):
    """As `ChunkedLogp`, for the divergence of two policies."""

    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        weight: Tensor,
        anchor: Tensor,
        projection: Projection,
        reference: Projection,
        temperature: float,
    ) -> Tensor:
        ctx.save_for_backward(hidden, weight, anchor)
        ctx.projection, ctx.reference, ctx.temperature = projection, reference, temperature
        pieces = chunks(2 * len(weight), hidden, anchor)
        return torch.cat([divergence(ctx, h, weight, a) for h, a in pieces])

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None, None, None, None]:
        hidden, weight, anchor = ctx.saved_tensors
        by_hidden, grad_weight = [], torch.zeros_like(at_least(weight))
        for h, a, g in chunks(2 * len(weight), hidden, anchor, grad):
            with torch.enable_grad():
                leaf, own = h.detach().requires_grad_(), weight.detach().requires_grad_()
                apart = divergence(ctx, leaf, own, a)
            found, of_weight = torch.autograd.grad(apart, (leaf, own), g)
            by_hidden.append(found)
            grad_weight += of_weight
        return torch.cat(by_hidden), grad_weight.to(weight.dtype), None, None, None, None


def divergence(ctx: Any, hidden: Tensor, weight: Tensor, anchor: Tensor) -> Tensor:
    """[T] KL(policy‖reference) of a chunk."""
    logp = logp_of(ctx.projection.scores(hidden, weight), ctx.temperature)
    with torch.no_grad():
        theirs = logp_of(ctx.reference.scores(anchor), ctx.temperature)
    return (logp.exp() * (logp - theirs)).sum(-1)


def scores_of_few(projection: Projection, hidden: Tensor) -> Tensor:
    """Scores of hidden states, with zero rows under them where they are too few for the usual kernel."""
    missing = max(0, MIN_ROWS - len(hidden))
    return projection.scores(pad(hidden, (0, 0, 0, missing)))[: len(hidden)]


def chunks(vocabulary: int, *tensors: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """The tensors in even pieces of at most `CHUNK` scores."""
    pieces = -(-len(tensors[0]) * vocabulary // CHUNK)
    return zip(*(tensor.tensor_split(pieces) for tensor in tensors), strict=True)
