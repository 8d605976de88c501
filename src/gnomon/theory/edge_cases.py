"""What a row does with edge cases of groups, found by calling it."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from gnomon.objectives.credit import Rollouts
from gnomon.objectives.row import Objective
from gnomon.objectives.tokens import Denominators, Tokens

__all__ = ["edges", "on_policy"]

LIMIT = 3
"""Length limit of the groups looked at."""
SAME = 1e-4
"""Relative difference below which credit counts as unchanged: an ε of 1e-6 in a divisor stays below it."""


@torch.no_grad()
def on_policy(row: Objective, rewards: Sequence[float], lengths: Sequence[int], *, max_tokens: int = LIMIT) -> Tensor:
    """The coefficients of one group, sampled by the very policy that is trained, as a step of its own.

    Every rollout gave an answer of its own and is one segment; a critic expects nothing, and neither does the run's
    past; the greedy rollout earned nothing, and every token was drawn from e equally likely ones.
    Args: rewards, lengths, one of each per rollout; max_tokens, length limit.
    Returns: [T] κ per token, rollout after rollout.
    Raises: ValueError where the row refuses such a group.
    """
    reward = torch.tensor([rewards], dtype=torch.float64)
    count = torch.tensor([lengths])
    total = int(count.sum())
    nothing = torch.zeros(total, dtype=torch.float64)
    rollouts = Rollouts(
        rewards=reward,
        lengths=count,
        answers=torch.arange(len(rewards))[None],
        baseline=torch.zeros_like(reward),
        greedy=torch.zeros_like(reward),
        parts=reward[..., None],
        part_weights=torch.ones_like(reward)[..., None],
        segment=nothing.long(),
        observation=nothing.long(),
        segment_rewards=reward[..., None],
        values=nothing,
        logp=nothing - 1,
        reference_logp=nothing - 1,
        entropy=nothing + 1,
        collision=nothing + math.exp(-1),
    )
    tokens = Tokens(
        logp=nothing - 1,
        behavior_logp=nothing - 1,
        reference_logp=nothing - 1,
        advantage=row.credits(rollouts),
        sequence=rollouts.sequence,
        group=nothing.long(),
        right=rollouts.rewards.flatten()[rollouts.sequence] >= 1,
    )
    sizes = Denominators(groups=1, sequences=len(rewards), tokens=total, max_tokens=max_tokens, group_tokens=(total,))
    return row.coefficients(tokens, sizes)


def edges(row: Objective, *, group: int) -> dict[str, str]:
    """What the row makes of each edge, in a line of words.

    Args: group, rollouts per group, wherever an edge leaves it open.
    Returns: the edge, then what happens there. Coefficients are per token and of one group alone in its step.
    """
    right, wrong = [1.0] * group, [0.0] * group
    short, full = [2] * group, [LIMIT] * group
    return {
        "none correct": _describe(row, wrong, short),
        "all correct": _describe(row, right, short),
        "a group of one": _alone(row),
        "all cut off": _cut(row, wrong, short, full),
        "an empty answer": _empty(row, group),
        "real rewards": _real(row, group),
    }


def _describe(row: Objective, rewards: Sequence[float], lengths: Sequence[int]) -> str:
    try:
        return _move(on_policy(row, rewards, lengths))
    except ValueError as reason:
        return f"refused: {reason}"


def _move(kappa: Tensor) -> str:
    """How coefficients push, in words."""
    if not len(kappa):
        return "no token, nothing moves"
    if not kappa.isfinite().all():
        return "not finite"
    least, most = float(kappa.min()), float(kappa.max())
    if max(-least, most) < 1e-12:
        return "nothing moves"
    if most - least < 1e-12:
        return f"every token is pushed {'up' if most > 0 else 'down'} alike, κ = {most:.3g}"
    way = "up" if least >= 0 else "down" if most <= 0 else "up or down"
    return f"tokens are pushed {way}, κ from {least:.3g} to {most:.3g}"


def _alone(row: Objective) -> str:
    try:
        success, failure = (float(on_policy(row, [reward], [1], max_tokens=1)[0]) for reward in (1.0, 0.0))
    except ValueError as reason:
        return f"refused: {reason}"
    if success == failure == 0:
        return "nothing moves"
    return f"a success weighs κ = {success:.3g}, a failure {failure:.3g}"


def _cut(row: Objective, rewards: Sequence[float], short: Sequence[int], full: Sequence[int]) -> str:
    """All at the length limit and without reward; a row does not know that they were truncated, only their length."""
    cut, ended = _describe(row, rewards, full), _describe(row, rewards, short)
    return f"as any group where none is correct: {cut}" if cut == ended else cut


def _empty(row: Objective, group: int) -> str:
    """An empty answer in a mixed group: whether the others notice what it earned."""
    if group == 1:
        return _describe(row, [1.0], [0])
    lengths = [0, *[2] * (group - 1)]
    others = [float(index % 2 == 0) for index in range(group - 1)]
    try:
        if_failed, if_passed = (on_policy(row, [own, *others], lengths) for own in (0.0, 1.0))
    except ValueError as reason:
        return f"refused: {reason}"
    if not (if_failed.isfinite().all() and if_passed.isfinite().all()):
        return "not finite"
    noticed = not torch.allclose(if_failed, if_passed, rtol=SAME, atol=1e-12)
    return "no token of its own to move; " + (
        "its reward still counts in the credit of the others" if noticed else "the credit of the others stays as it is"
    )


def _real(row: Objective, group: int) -> str:
    """Whether rewards other than 0 and 1 are accepted, and what a shift and a doubling of them do."""
    rewards = [(0.3, 1.0, -0.5, 0.7, 0.1)[index % 5] for index in range(group)]
    lengths = [2] * group
    try:
        plain, shifted, doubled = (
            on_policy(row, changed, lengths)
            for changed in (rewards, [r + 1 for r in rewards], [2 * r for r in rewards])
        )
    except ValueError as reason:
        return f"refused: {reason}"
    size = float(plain.abs().max())
    if size < 1e-12:
        return "accepted, and nothing moves"

    def near(actual: Tensor, expected: Tensor) -> bool:
        return float((actual - expected).abs().max()) <= SAME * size

    shift = "changes nothing" if near(shifted, plain) else "changes the coefficients"
    scale = "stay" if near(doubled, plain) else "double" if near(doubled, 2 * plain) else "neither stay nor double"
    return f"accepted; a constant added to all {shift}; with all doubled the coefficients {scale}"
