"""From hidden states to log-probabilities, the vocabulary taken in chunks: [tokens, vocabulary] is never held."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import linear, pad

from gnomon.models.attention import MIN_ROWS
from gnomon.models.kernels import compile_kernel
from gnomon.models.precision import at_least

__all__ = [
    "WHOLE",
    "Projection",
    "Truncation",
    "chunks",
    "entropy_of",
    "full_kl",
    "logp_of",
    "most_scores",
    "token_collision",
    "token_logp",
]

CHUNK = 2**22
"""Most scores (tokens × vocabulary) held at once on a CPU, where they are those of more than `FEW` tokens."""
DEVICE_CHUNK = 2**26
"""As `CHUNK`, on another device: 256 MiB in float32. A device needs many tokens at once to be used to the full, and the
sum of the gradient of the weights is read and written for each chunk."""
FUSED_CHUNK = 2**27
"""As `DEVICE_CHUNK`, where the scores are held in the dtype of the product alone: 256 MiB in bfloat16."""
FEW = 64
"""Tokens of a chunk of a large vocabulary. With fewer, reading the weights and the gradient takes most of the time."""

ONE = 2**40
"""A probability of 1 as an integer: sums of integers are the same in every order."""
PARTS = 4
"""Scores are ranked in this many pieces of those held at once: ranks and sums in int64 are several times larger."""
NOTHING = -1e30
"""Score of a token without probability: finite, so that 0·log 0 and its gradient are 0."""


class Truncation(NamedTuple):
    """Which tokens of a next-token distribution are kept, with `top_k` before `top_p`. They share all probability.

    A token with the score of the last one kept is kept too, so the scores alone decide.
    """

    top_p: float = 1.0
    """The likeliest tokens are kept, as few as have this probability together. 1: all."""
    top_k: int = 0
    """Number of likeliest tokens that are kept. 0: all."""

    def scores(self, scores: Tensor) -> Tensor:
        """The tempered scores [T, vocabulary], those of tokens that are not kept at `NOTHING`."""
        if self == WHOLE:
            return scores
        few = max(1, most_scores(scores.device.type) // PARTS // scores.shape[1])
        least = [self._least(some) for some in torch.split(scores.detach(), few)]
        return scores.masked_fill(scores < torch.cat(least), NOTHING)

    def _least(self, scores: Tensor) -> Tensor:
        """[T, 1] the lowest score that is kept."""
        ranked = ascending(scores)[:, -self.top_k :]  # All of them where top_k is 0.
        if self.top_p == 1:
            return ranked[:, :1]
        mass = (torch.softmax(ranked, -1) * ONE).long().cumsum(-1)
        dropped = (mass <= mass[:, -1:] - int(self.top_p * ONE)).sum(-1, keepdim=True)
        return ranked.gather(1, dropped.clamp_max(ranked.shape[1] - 1))


WHOLE = Truncation()


class Projection(NamedTuple):
    """How hidden states become scores over the next token."""

    weight: Tensor
    """[vocabulary, size]."""
    cap: float | None
    """Scores are bent to stay within ±cap."""
    dtype: torch.dtype
    """The coarsest dtype of scores."""
    most: int = 0
    """Scores held at once; 0: as many as suit the device."""
    fused: bool = False
    """Whether what becomes of a product is computed in one kernel, which may round otherwise than the sampler. Never
    with a bias or a scale."""
    bias: Tensor | None = None
    """[vocabulary]."""
    scale: float = 1.0
    """Scores are multiplied by it before they are bent."""

    def scores(self, hidden: Tensor) -> Tensor:
        """[T, vocabulary] of hidden states [T, size].

        The product is computed in the dtype of its factors; what follows from it is at least `dtype`.
        """
        return self.bound(linear(hidden, self.weight, self.bias))

    def bound(self, product: Tensor) -> Tensor:
        """The scores of a product of hidden states and weights, with its bias."""
        return bound(product, self.cap, self.dtype, self.scale)

    def slope(self, scores: Tensor) -> Tensor | float:
        """The derivative of scores by their product."""
        return self.scale if self.cap is None else self.scale * (1 - (scores / self.cap).square())


def bound(product: Tensor, cap: float | None, dtype: torch.dtype, scale: float = 1.0) -> Tensor:
    """As `Projection.bound`."""
    scores = at_least(product, dtype)
    scores = scores if scale == 1.0 else scores * scale
    return scores if cap is None else cap * torch.tanh(scores / cap)


def ascending(scores: Tensor) -> Tensor:
    """Every row of scores in ascending order. NumPy sorts without the places, many times faster than torch."""
    return torch.from_numpy(np.sort(scores.numpy())) if scores.device.type == "cpu" else scores.sort().values


def logp_of(scores: Tensor, temperature: float | Tensor, truncation: Truncation = WHOLE) -> Tensor:
    """Natural log-probabilities of the tempered and truncated distribution; the one formula of sampler and learner.

    A division by 1 changes no bit and is left out, since its result is as large as the scores.
    """
    tempered = scores if isinstance(temperature, float) and temperature == 1.0 else scores / temperature
    return torch.log_softmax(truncation.scores(tempered), -1)


def entropy_of(logp: Tensor) -> Tensor:
    """[B] entropies in nats of rows of log-probabilities [B, vocabulary], in float64.

    A row has the same bits in any company: a single one would be summed in another order by several threads, so it is
    never summed alone.
    """
    entropies = []
    for rows in torch.split(logp, max(1, CHUNK // logp.shape[1])):
        several = rows.expand(2, -1) if len(rows) == 1 else rows
        entropies.append(-(several.exp() * several).sum(-1, dtype=torch.float64)[: len(rows)])
    return torch.cat(entropies)


def token_logp(
    hidden: Tensor, projection: Projection, target: Tensor, temperature: float, truncation: Truncation = WHOLE
) -> tuple[Tensor, Tensor]:
    """[T] log-probabilities of the targets [T], and [T] entropies of the next-token distributions; both in nats."""
    return ChunkedLogp.apply(hidden, projection.weight, projection.bias, target, projection, temperature, truncation)  # type: ignore[no-untyped-call,no-any-return]


def token_collision(
    hidden: Tensor, projection: Projection, temperature: float, truncation: Truncation = WHOLE
) -> Tensor:
    """[T] Σ_v π(v)² of the next-token distributions: the chance that two draws are the same token. No gradients."""
    pieces = chunks(projection, hidden)
    return torch.cat(
        [(2 * logp_of(scores_of_few(projection, h), temperature, truncation)).exp().sum(-1) for (h,) in pieces]
    )


def full_kl(
    hidden: Tensor, projection: Projection, anchor: Tensor, reference: Projection, temperature: float
) -> Tensor:
    """[T] the divergence of the whole next-token distribution from a reference's, exactly, in nats.

    Equation: KL(π‖ref) = Σ_v π(v)·(log π(v) − log ref(v)), both tempered.
    Args: hidden, anchor: [T, size] of the policy, which carries gradients, and of the reference, which has none.
    """
    return ChunkedKl.apply(hidden, projection.weight, projection.bias, anchor, projection, reference, temperature)  # type: ignore[no-untyped-call,no-any-return]


class ChunkedLogp(torch.autograd.Function):
    """The forward pass keeps nothing of the size of the vocabulary; the backward pass computes each chunk again."""

    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        target: Tensor,
        projection: Projection,
        temperature: float,
        truncation: Truncation,
    ) -> tuple[Tensor, Tensor]:
        ctx.save_for_backward(hidden, weight, bias, target)
        ctx.projection, ctx.temperature, ctx.truncation = projection, temperature, truncation
        ctx.fused = projection.fused and truncation == WHOLE
        logps, entropies = [], []
        for h, y in chunks(projection, hidden, target, most=FUSED_CHUNK if ctx.fused else 0):
            if ctx.fused:
                product = linear(h, projection.weight)
                outputs = compile_kernel(read)(product, y, projection.cap, projection.dtype, temperature)
                logps.append(outputs[0])
                entropies.append(outputs[1])
                continue
            logp = logp_of(scores_of_few(projection, h), temperature, truncation)
            logps.append(logp.gather(1, y[:, None])[:, 0])
            entropies.append(-logp.exp().mul_(logp).sum(-1))
        ctx.set_materialize_grads(False)
        return torch.cat(logps), torch.cat(entropies)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        hidden, weight, bias, target = ctx.saved_tensors
        by_logp, by_entropy = grads
        gradients = Gradients(*needed_gradients(ctx, weight, bias))
        if by_logp is None:
            assert by_entropy is not None
            by_logp = torch.zeros_like(by_entropy)
        grads = (by_logp, by_logp if by_entropy is None else by_entropy)
        most = FUSED_CHUNK if ctx.fused else 0
        for h, y, g, e in chunks(ctx.projection, hidden, target, *grads, most=most):
            if ctx.fused:
                product, form = linear(h, weight, bias), (ctx.projection.cap, ctx.projection.dtype, ctx.temperature)
                slope = compile_kernel(slopes)(product, y, g, None if by_entropy is None else e, *form)
                gradients.add(slope, h, weight)
                continue
            # A truncation keeps the tokens of the forward pass: it needs scores with the same bits.
            product = linear(h if ctx.truncation == WHOLE else enough(h), weight, bias)[: len(h)].requires_grad_()
            with torch.enable_grad():
                logp = logp_of(ctx.projection.bound(product), ctx.temperature, ctx.truncation)
                outs, weights = [logp.gather(1, y[:, None])[:, 0]], [g]
                if by_entropy is not None:
                    outs, weights = [*outs, -(logp.exp() * logp).sum(-1)], [*weights, e]
            (by_product,) = torch.autograd.grad(outs, product, weights)
            gradients.add(by_product, h, weight)
        return gradients.by_hidden, gradients.by_weight, gradients.by_bias, None, None, None, None


def read(
    product: Tensor, target: Tensor, cap: float | None, dtype: torch.dtype, temperature: float
) -> tuple[Tensor, Tensor]:
    """[T] log-probabilities of the targets and [T] entropies, of a product [T, vocabulary]."""
    logp = logp_of(bound(product, cap, dtype), temperature)
    return logp.gather(1, target[:, None])[:, 0], -(logp.exp() * logp).sum(-1)


def slopes(
    product: Tensor,
    target: Tensor,
    by_logp: Tensor,
    by_entropy: Tensor | None,
    cap: float | None,
    dtype: torch.dtype,
    temperature: float,
) -> Tensor:
    """[T, vocabulary] the gradient of the product, in its dtype, from those of what `read` returns.

    Equations: ∂log π(y)/∂z(v) = 1[v = y] − π(v) and ∂H/∂z(v) = −π(v)·(log π(v) + H), of tempered scores z.
    """
    scores = bound(product, cap, dtype)
    logp = logp_of(scores, temperature)
    chance = logp.exp()
    hit = torch.arange(product.shape[1], device=product.device) == target[:, None]
    slope = by_logp[:, None] * (hit.to(chance.dtype) - chance)
    if by_entropy is not None:
        entropy = -(chance * logp).sum(-1, keepdim=True)
        slope = slope - by_entropy[:, None] * chance * (logp + entropy)
    if cap is not None:
        slope = slope * (1 - (scores / cap) ** 2)
    return (slope / temperature).to(product.dtype)


class ChunkedKl(torch.autograd.Function):
    """As `ChunkedLogp`, for the divergence of two policies."""

    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        anchor: Tensor,
        projection: Projection,
        reference: Projection,
        temperature: float,
    ) -> Tensor:
        ctx.save_for_backward(hidden, weight, bias, anchor)
        ctx.projection, ctx.reference, ctx.temperature = projection, reference, temperature
        pieces = chunks(projection, hidden, anchor, models=2)
        return torch.cat([divergence(ctx, linear(h, weight, bias), a) for h, a in pieces])

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        hidden, weight, bias, anchor = ctx.saved_tensors
        gradients = Gradients(*needed_gradients(ctx, weight, bias))
        for h, a, g in chunks(ctx.projection, hidden, anchor, grad, models=2):
            product = linear(h, weight, bias).requires_grad_()
            with torch.enable_grad():
                apart = divergence(ctx, product, a)
            (by_product,) = torch.autograd.grad(apart, product, g)
            gradients.add(by_product, h, weight)
        return gradients.by_hidden, gradients.by_weight, gradients.by_bias, None, None, None, None


def needed_gradients(ctx: Any, *parameters: Tensor | None) -> list[Tensor | None]:
    """Weight and bias, each None where it needs no gradient."""
    return [value if grad else None for value, grad in zip(parameters, ctx.needs_input_grad[1:3], strict=True)]


def divergence(ctx: Any, product: Tensor, anchor: Tensor) -> Tensor:
    """[T] KL(policy‖reference) of a chunk. Args: product: of the policy's hidden states and weights."""
    logp = logp_of(ctx.projection.bound(product), ctx.temperature)
    with torch.no_grad():
        theirs = logp_of(ctx.reference.scores(anchor), ctx.temperature)
    return (logp.exp() * (logp - theirs)).sum(-1)


class Gradients:
    """Gradients of a projection, summed over chunks: of the weights in one buffer of at least float32.

    Args: weight: [vocabulary, size]; bias: [vocabulary]; None where it is not trained and needs no gradient.
    """

    def __init__(self, weight: Tensor | None, bias: Tensor | None) -> None:
        self._weight, self._bias = weight, bias
        self._by_hidden: list[Tensor] = []
        self._total: Tensor | None = None
        self._bias_total = None if bias is None else torch.zeros_like(at_least(bias))

    def add(self, by_product: Tensor, hidden: Tensor, weight: Tensor) -> None:
        """Add a chunk. Args: by_product: [T, vocabulary] the gradient of the product of `hidden` and `weight`."""
        self._by_hidden.append(by_product @ weight)
        if self._bias_total is not None:
            self._bias_total += by_product.sum(0, dtype=self._bias_total.dtype)
        if self._weight is None:
            return
        left, right = by_product.t(), hidden
        if self._total is None:
            self._total = product_of(left, right)
        elif right.dtype == self._total.dtype:
            self._total.addmm_(left, right)
        elif right.is_cuda:
            torch.addmm(self._total, left, right, out_dtype=torch.float32, out=self._total)
        else:
            self._total += product_of(left, right)

    @property
    def by_hidden(self) -> Tensor:
        return torch.cat(self._by_hidden)

    @property
    def by_bias(self) -> Tensor | None:
        return None if self._bias is None or self._bias_total is None else self._bias_total.to(self._bias.dtype)

    @property
    def by_weight(self) -> Tensor | None:
        return None if self._weight is None or self._total is None else self._total.to(self._weight.dtype)


def product_of(left: Tensor, right: Tensor) -> Tensor:
    """left @ right in at least float32."""
    if at_least(right) is right:
        return left @ right
    if right.is_cuda:
        return torch.mm(left, right, out_dtype=torch.float32)
    return left.float() @ right.float()


def enough(hidden: Tensor) -> Tensor:
    """Hidden states, with zero rows under them where they are too few for the usual kernel."""
    return pad(hidden, (0, 0, 0, max(0, MIN_ROWS - len(hidden))))


def scores_of_few(projection: Projection, hidden: Tensor) -> Tensor:
    """Scores of hidden states, by the usual kernel."""
    return projection.scores(enough(hidden))[: len(hidden)]


def most_scores(device: str) -> int:
    """How many scores are held at once on a type of device."""
    return CHUNK if device == "cpu" else DEVICE_CHUNK


def chunks(projection: Projection, *tensors: Tensor, models: int = 1, most: int = 0) -> Iterator[tuple[Tensor, ...]]:
    """The tensors in even pieces: of as many scores as are held at once, or of `FEW` tokens.

    Args: models: how many have scores for every token; most: scores held at once, 0 for as many as suit the device.
    """
    vocabulary = models * len(projection.weight)
    most = projection.most or most or most_scores(projection.weight.device.type)
    pieces = -(-len(tensors[0]) * vocabulary // max(most, FEW * vocabulary))
    return zip(*(tensor.tensor_split(pieces) for tensor in tensors), strict=True)
