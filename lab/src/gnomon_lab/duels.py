"""Simulated duels of replies over a linear reward: which pairs to have judged, if every judgement is paid for."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Generator, Tensor

__all__ = ["CHOICES", "PROMPTS", "REPLIES", "SIZE", "fit_posterior", "share_reached"]

SIZE, REPLIES, PROMPTS = 8, 16, 500
"""Features of a reply, replies to a prompt, and prompts without a judgement."""
STEPS = 20
"""Most steps of Newton's method."""


def share_reached(seed: int, choice: str, labels: int) -> float:
    """Reward of the replies that the learned reward prefers, as a share of that of the best ones, on new prompts.

    Every prompt has new replies with normal features. The better reply wins a duel by the law of Bradley and Terry.
    The weights of the true reward are normal, as the prior of the posterior says.
    Args: choice: one of `CHOICES`; labels: duels.
    """
    luck = torch.Generator().manual_seed(seed)
    normal = partial(torch.randn, generator=luck, dtype=torch.float64)
    truth, fresh, pairs = normal(SIZE), normal(PROMPTS, REPLIES, SIZE), torch.zeros(0, SIZE, dtype=torch.float64)
    for _ in range(labels):
        replies = normal(REPLIES, SIZE)
        first, second = CHOICES[choice](replies, *fit_posterior(pairs), luck)
        gap = replies[first] - replies[second]
        won = torch.rand((), generator=luck, dtype=torch.float64) < (gap @ truth).sigmoid()
        pairs = torch.cat([pairs, (gap if won else -gap)[None]])
    rewards, chosen = fresh @ truth, (fresh @ fit_posterior(pairs)[0]).argmax(1, keepdim=True)
    return float(rewards.gather(1, chosen).mean() / rewards.amax(1).mean())


def fit_posterior(pairs: Tensor) -> tuple[Tensor, Tensor]:
    """Mode and covariance of the normal approximation of the posterior at its mode; the prior is N(0, 1).

    Args: pairs: [duels, SIZE] features of the winner less those of the loser.
    """
    mode, eye = torch.zeros(SIZE, dtype=torch.float64), torch.eye(SIZE, dtype=torch.float64)
    for _ in range(STEPS):
        chance = (pairs @ mode).sigmoid()
        curvature = eye + (pairs.T * (chance * (1 - chance))) @ pairs
        step = torch.linalg.solve(curvature, pairs.T @ (1 - chance) - mode)
        mode = mode + step
        if float(step.abs().max()) < 1e-12:
            break
    chance = (pairs @ mode).sigmoid()
    return mode, torch.linalg.inv(eye + (pairs.T * (chance * (1 - chance))) @ pairs)


def at_random(replies: Tensor, mode: Tensor, spread: Tensor, luck: Generator) -> tuple[int, int]:
    """Two different replies."""
    first, second = torch.randperm(len(replies), generator=luck)[:2].tolist()
    return first, second


def uncertain(replies: Tensor, mode: Tensor, spread: Tensor, luck: Generator) -> tuple[int, int]:
    """The pair whose difference in reward has the largest variance."""
    gaps = replies[:, None] - replies
    return divmod(int(((gaps @ spread) * gaps).sum(-1).argmax()), len(replies))


def thompson(replies: Tensor, mode: Tensor, spread: Tensor, luck: Generator) -> tuple[int, int]:
    """The best replies under two samples from the posterior; the second best of the second sample if they are one."""
    noise = torch.randn(2, SIZE, generator=luck, dtype=torch.float64) @ torch.linalg.cholesky(spread).T
    one, other = (replies @ (mode + noise).T).unbind(1)
    first, (second, third) = int(one.argmax()), other.topk(2).indices.tolist()
    return first, second if second != first else third


CHOICES: dict[str, Callable[[Tensor, Tensor, Tensor, Generator], tuple[int, int]]] = {
    "random": at_random,
    "uncertain": uncertain,
    "Thompson": thompson,
}
"""Which two replies to a prompt are judged, by name."""
