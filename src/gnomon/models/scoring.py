"""Log-probabilities of given tokens: one packed pass, the vocabulary taken in chunks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from gnomon.models.attention import Packed
from gnomon.models.policy import Policy

__all__ = ["logp_of", "packed_logp", "score"]

CHUNK = 2**22
"""Most scores (tokens × vocabulary) held at once."""
Row = tuple[int, tuple[int, ...]]
"""The index of its prompt and the tokens that follow."""


def logp_of(logits: Tensor, temperature: float | Tensor) -> Tensor:
    """Natural log-probabilities of the tempered distribution; the one formula of sampler and learner."""
    return torch.log_softmax(logits / temperature, -1)


def packed_logp(
    policy: Policy, prompts: Sequence[tuple[int, ...]], rows: Sequence[Row], temperature: float = 1.0
) -> tuple[Tensor, Tensor]:
    """Log-probability and entropy of every token of the rows, each [T], rows one after the other.

    Every prompt passes through the model once, however many rows follow it. Rows of a prompt stand
    together and none is empty. The log-probabilities carry gradients, the entropies do not.
    """
    ids = [i for prompt in prompts for i in prompt[:-1]]
    ids += [i for group, row in rows for i in (prompts[group][-1], *row[:-1])]
    target = torch.tensor([i for _, row in rows for i in row])
    layout = Packed([len(p) - 1 for p in prompts], [len(row) for _, row in rows], [group for group, _ in rows])
    hidden = policy.hidden(torch.tensor(ids), layout)[layout.prefix.tokens :]
    return ChunkedLogp.apply(hidden, policy.head, target, policy, temperature)  # type: ignore[no-any-return, no-untyped-call]


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
        for h, y in zip(*chunks(hidden, target, len(head)), strict=True):
            logp = logp_of(policy.logits(h), temperature)
            logps.append(logp.gather(1, y[:, None])[:, 0])
            entropies.append(-(logp.exp() * logp).sum(-1))
        entropy = torch.cat(entropies)
        ctx.mark_non_differentiable(entropy)
        return torch.cat(logps), entropy

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, None, None, None]:
        hidden, head, target = ctx.saved_tensors
        grad_hidden, grad_head = torch.empty_like(hidden), torch.zeros_like(head)
        start = 0
        for h, y, g in zip(*chunks(hidden, target, len(head)), grads[0].split(step_of(len(head))), strict=True):
            with torch.enable_grad():
                leaf, weight = h.detach().requires_grad_(), head.detach().requires_grad_()
                logp = logp_of(ctx.policy.logits(leaf, weight), ctx.temperature).gather(1, y[:, None])[:, 0]
            by_hidden, by_head = torch.autograd.grad(logp, (leaf, weight), g)
            grad_hidden[start : start + len(h)] = by_hidden
            grad_head += by_head
            start += len(h)
        return grad_hidden, grad_head, None, None, None


def step_of(vocabulary: int) -> int:
    """Tokens per chunk; at least 8, so that a short chunk takes the same kernel as a long one."""
    return max(8, CHUNK // vocabulary)


def chunks(hidden: Tensor, target: Tensor, vocabulary: int) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
    step = step_of(vocabulary)
    return hidden.split(step), target.split(step)
