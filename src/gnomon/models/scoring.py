"""Log-probabilities of given tokens: one packed pass, the vocabulary taken in chunks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.nn.functional import pad

from gnomon.models.attention import MIN_ROWS, Packed
from gnomon.models.policy import Policy, at_least_float32

__all__ = [
    "full_kl",
    "logp_of",
    "packed_hidden",
    "packed_logp",
    "score",
    "target_logp",
    "text_hidden",
    "text_logp",
    "token_logp",
]

CHUNK = 2**22
"""Most scores (tokens × vocabulary) held at once."""
Row = tuple[int, tuple[int, ...]]
"""The index of its prompt and the tokens that follow."""


class Text(Protocol):
    """Tokens of which some are asked for."""

    @property
    def token_ids(self) -> Tensor:
        """[L] int64."""
        ...

    @property
    def trainable(self) -> Tensor:
        """[L] bool, never the first."""
        ...


def logp_of(logits: Tensor, temperature: float | Tensor) -> Tensor:
    """Natural log-probabilities of the tempered distribution; the one formula of sampler and learner."""
    return torch.log_softmax(logits / temperature, -1)


def packed_logp(
    policy: Policy, prompts: Sequence[tuple[int, ...]], rows: Sequence[Row], temperature: float = 1.0
) -> tuple[Tensor, Tensor]:
    """Log-probability and entropy of every token of the rows, each [T], rows one after the other.

    Every prompt passes through the model once, however many rows follow it. Rows of a prompt stand
    together and none is empty. Both carry gradients.
    """
    return token_logp(policy, packed_hidden(policy, prompts, rows), rows, temperature)


def token_logp(policy: Policy, hidden: Tensor, rows: Sequence[Row], temperature: float = 1.0) -> tuple[Tensor, Tensor]:
    """`packed_logp` from the hidden states of the rows."""
    return target_logp(policy, hidden, torch.tensor([i for _, row in rows for i in row]), temperature)


def target_logp(policy: Policy, hidden: Tensor, target: Tensor, temperature: float = 1.0) -> tuple[Tensor, Tensor]:
    """[T] log-probability of every target [T] after its hidden state, and [T] entropy. Both carry gradients."""
    logp, entropy = ChunkedLogp.apply(hidden, policy.head, target, policy, temperature)  # type: ignore[no-untyped-call]
    return logp, entropy


def full_kl(policy: Policy, hidden: Tensor, reference: Policy, anchor: Tensor, temperature: float = 1.0) -> Tensor:
    """[T] the divergence of the whole next-token distribution from a reference's, exactly, in nats.

    Equation: KL(π‖ref) = Σ_v π(v)·(log π(v) − log ref(v)), both tempered.
    Args: hidden, anchor: [T, size] of the policy, which carries gradients, and of the reference, which has none.
    """
    return ChunkedKl.apply(hidden, policy.head, anchor, policy, reference, temperature)  # type: ignore[no-untyped-call,no-any-return]


def packed_hidden(policy: Policy, prompts: Sequence[tuple[int, ...]], rows: Sequence[Row]) -> Tensor:
    """[T, size] last hidden state before every token of the rows, rows one after the other.

    Rows that are equal pass through the model once.
    """
    distinct = list(dict.fromkeys(rows))
    if len(distinct) < len(rows):
        return packed_hidden(policy, prompts, distinct).index_select(0, tokens_among(distinct, rows))
    count = sum(len(row) for _, row in rows)
    short = MIN_ROWS - count - sum(len(prompt) - 1 for prompt in prompts)
    rows = [*rows, *[rows[-1]] * -(-max(0, short) // len(rows[-1][1]))]
    ids = [i for prompt in prompts for i in prompt[:-1]]
    ids += [i for group, row in rows for i in (prompts[group][-1], *row[:-1])]
    layout = Packed([len(p) - 1 for p in prompts], [len(row) for _, row in rows], [group for group, _ in rows])
    return policy.hidden(torch.tensor(ids), layout)[layout.prefix.tokens :][:count]


def tokens_among(distinct: Sequence[Row], rows: Sequence[Row]) -> Tensor:
    """Where the tokens of the rows stand among those of the distinct ones, both end to end."""
    starts = accumulate((len(row) for _, row in distinct), initial=0)
    start = dict(zip(distinct, starts, strict=False))
    return torch.tensor([start[row] + place for row in rows for place in range(len(row[1]))])


def text_hidden(policy: Policy, texts: Sequence[Text]) -> Tensor:
    """[T, size] last hidden state before every trainable token of the texts, end to end."""
    found = [(text.token_ids[:start], text.token_ids[start:end]) for text in texts for start, end in runs(text)]
    known = [(tuple(prompt.tolist()), tuple(row.tolist())) for prompt, row in found]
    prompts = list(dict.fromkeys(prompt for prompt, _ in known))
    place = {prompt: at for at, prompt in enumerate(prompts)}
    order = sorted(range(len(known)), key=lambda at: place[known[at][0]])
    hidden = packed_hidden(policy, prompts, [(place[known[at][0]], known[at][1]) for at in order])
    parts = dict(zip(order, torch.split(hidden, [len(known[at][1]) for at in order]), strict=True))
    return torch.cat([parts[at] for at in range(len(known))])


def runs(text: Text) -> list[tuple[int, int]]:
    """Where its trainable tokens begin and end."""
    steps = torch.diff(text.trainable.int(), prepend=torch.zeros(1), append=torch.zeros(1))
    return list(zip((steps > 0).nonzero()[:, 0].tolist(), (steps < 0).nonzero()[:, 0].tolist(), strict=True))


@torch.inference_mode()
def text_logp(policy: Policy, texts: Sequence[Text], temperature: float = 1.0) -> Tensor:
    """[T] log-probability of every trainable token of the texts, end to end, without gradients."""
    target = torch.cat([text.token_ids[text.trainable] for text in texts])
    return target_logp(policy, text_hidden(policy, texts), target, temperature)[0]


@torch.inference_mode()
def score(policy: Policy, prompts: Sequence[tuple[int, ...]], rows: Sequence[Row], temperature: float = 1.0) -> Tensor:
    """`packed_logp` without gradients: [T]."""
    return packed_logp(policy, prompts, rows, temperature)[0]


class ChunkedLogp(torch.autograd.Function):
    """Hidden states to token log-probabilities without ever holding [tokens, vocabulary].

    The forward pass keeps nothing of that size; the backward pass computes each chunk's scores again.
    """

    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, head: Tensor, target: Tensor, policy: Policy, temperature: float
    ) -> tuple[Tensor, Tensor]:
        ctx.save_for_backward(hidden, head, target)
        ctx.policy, ctx.temperature = policy, temperature
        logps, entropies = [], []
        for h, y in chunks(len(head), hidden, target):
            logp = logp_of(at_least(h, policy.logits), temperature)
            logps.append(logp.gather(1, y[:, None])[:, 0])
            entropies.append(-(logp.exp() * logp).sum(-1))
        ctx.set_materialize_grads(False)
        return torch.cat(logps), torch.cat(entropies)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor, Tensor, None, None, None]:
        hidden, head, target = ctx.saved_tensors
        by_logp, by_entropy = grads
        by_hidden, grad_head = [], torch.zeros_like(at_least_float32(head))
        if by_logp is None:
            assert by_entropy is not None
            by_logp = torch.zeros_like(by_entropy)
        for h, y, g, e in chunks(len(head), hidden, target, by_logp, by_logp if by_entropy is None else by_entropy):
            with torch.enable_grad():
                leaf, weight = h.detach().requires_grad_(), head.detach().requires_grad_()
                logp = logp_of(ctx.policy.logits(leaf, weight), ctx.temperature)
                outs, weights = [logp.gather(1, y[:, None])[:, 0]], [g]
                if by_entropy is not None:
                    outs, weights = [*outs, -(logp.exp() * logp).sum(-1)], [*weights, e]
            grad_hidden, grad_weight = torch.autograd.grad(outs, (leaf, weight), weights)
            by_hidden.append(grad_hidden)
            grad_head += grad_weight
        return torch.cat(by_hidden), grad_head.to(head.dtype), None, None, None


class ChunkedKl(torch.autograd.Function):
    """Hidden states of two policies to their divergence token by token, without ever holding [tokens, vocabulary]."""

    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, head: Tensor, anchor: Tensor, policy: Policy, reference: Policy, temperature: float
    ) -> Tensor:
        ctx.save_for_backward(hidden, head, anchor)
        ctx.policy, ctx.reference, ctx.temperature = policy, reference, temperature
        pieces = chunks(2 * len(head), hidden, anchor)
        return torch.cat([divergence(ctx, h, head, a) for h, a in pieces])

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None, None, None, None]:
        hidden, head, anchor = ctx.saved_tensors
        by_hidden, grad_head = [], torch.zeros_like(at_least_float32(head))
        for h, a, g in chunks(2 * len(head), hidden, anchor, grad):
            with torch.enable_grad():
                leaf, weight = h.detach().requires_grad_(), head.detach().requires_grad_()
                apart = divergence(ctx, leaf, weight, a)
            grad_hidden, grad_weight = torch.autograd.grad(apart, (leaf, weight), g)
            by_hidden.append(grad_hidden)
            grad_head += grad_weight
        return torch.cat(by_hidden), grad_head.to(head.dtype), None, None, None, None


def divergence(ctx: Any, hidden: Tensor, head: Tensor, anchor: Tensor) -> Tensor:
    """[T] KL(policy‖reference) of a chunk."""
    logp = logp_of(ctx.policy.logits(hidden, head), ctx.temperature)
    with torch.no_grad():
        theirs = logp_of(ctx.reference.logits(anchor), ctx.temperature)
    return (logp.exp() * (logp - theirs)).sum(-1)


def at_least(hidden: Tensor, logits: Callable[[Tensor], Tensor]) -> Tensor:
    """Scores of hidden states, with zero rows under them where they are too few for the usual kernel."""
    missing = max(0, MIN_ROWS - len(hidden))
    return logits(pad(hidden, (0, 0, 0, missing)))[: len(hidden)]


def chunks(vocabulary: int, *tensors: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """The tensors in even pieces of at most `CHUNK` scores."""
    pieces = -(-len(tensors[0]) * vocabulary // CHUNK)
    return zip(*(tensor.tensor_split(pieces) for tensor in tensors), strict=True)
