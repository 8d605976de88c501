"""How strongly an objective pushes a prompt, as a function of how often the policy solves it: w(p) in E[g] = w(p)·∇p.

REINFORCE has w = 1 and maximises the success rate p; maximum likelihood has w = 1/p and maximises log p. A row that
looks at a group only through its count of successes has a w that follows from its weights; for any other w is
measured, as the part of its expected gradient that points along ∇p.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from gnomon.objectives.aggregate import constant, sequence_sum
from gnomon.objectives.counts import CountWeight
from gnomon.objectives.credit import terminal
from gnomon.objectives.row import Objective
from gnomon.theory.edge_cases import on_policy
from gnomon.theory.exact import LARGEST, moments
from gnomon.theory.world import World, correct, outcomes, world

__all__ = ["GRID", "Curve", "count_weight", "curve", "equal_lengths", "tilt", "weight_and_cosine"]

GRID = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
"""Success rates that a curve is given at."""
HALF = GRID.index(0.5)
NOTHING = 1e-12
ALONG = 0.5
"""Least cosine with ∇p at which w(p) says anything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """w at the success rates of `GRID`."""

    how: str
    """Where it comes from: derived, or measured and in which world."""
    unit: str
    """What w is counted in: 1; 1/L_max for rows that divide by the length limit; 1/|y| for answers of one length."""
    w: tuple[float, ...]
    relative: tuple[float, ...]
    """w(p)/w(½): its shape, since a learning rate makes up for its size. NaN where E[g], there or at ½, is zero or lies
    more than 60° off ∇p: the row does not maximise p."""
    cosine: tuple[float, ...]
    """Between the expected gradient and ∇p: below one, w is not all of it. NaN where nothing moves."""


def count_weight(row: Objective, group: int) -> CountWeight | None:
    """The count weight that the row is on policy, for rewards 0 and 1. None for a row that is none.

    Such a row gives a rollout one coefficient, which depends on its reward and on the group's count of successes
    alone: nothing of length, place, prefix or wording enters.
    Args: group, rollouts per group; a step is one group.
    Raises: ValueError where the row refuses such groups.
    """
    if row.aggregate not in (sequence_sum, constant):
        return None
    return equal_lengths(row, group)


def equal_lengths(row: Objective, group: int) -> CountWeight | None:
    """`count_weight`, for a world in which every answer has the same length: whatever lengths weigh, they weigh alike.

    Raises: ValueError where the row refuses such groups.
    """
    if row.credit is not terminal:
        return None
    success, failure = [0.0], []
    for count in range(group + 1):
        kappa = group * on_policy(row, [1.0] * count + [0.0] * (group - count), [1] * group, max_tokens=1)
        for part in (kappa[:count], kappa[count:]):
            if len(part) and float(part.max() - part.min()) > 1e-12:
                return None
        if count:
            success.append(float(kappa[0]))
        failure.append(float(kappa[-1]) if count < group else 0.0)
    return CountWeight(success=tuple(success), failure=tuple(failure))


def tilt(space: World, logits: Tensor, p: float) -> Tensor:
    """[prefixes, 3] the policy that succeeds with probability p and is otherwise the one given.

    Right answers keep their chances among right answers, wrong ones among wrong ones.
    Args: p, 0 < p < 1.
    """
    chance = space.chances(logits)
    reward = torch.tensor([correct(answer) for answer in space.answers], dtype=logits.dtype)
    now = float(chance @ reward)
    chance = chance * (reward * (p / now) + (1 - reward) * ((1 - p) / (1 - now)))
    mass = torch.zeros_like(logits)
    mass.index_put_((space.prefix, space.choice), chance[space.answer], accumulate=True)
    return mass.log()


def weight_and_cosine(row: Objective, *, group: int, p: float, max_tokens: int = 2) -> tuple[float, float]:
    """w and cosine from every group of a world, at a policy tilted to p.

    Equation: w = E[g]·∇p / |∇p|².
    Raises: ValueError where the row refuses such groups.
    """
    space = world(max_tokens)
    policy = tilt(space, space.logits(), p)
    possible = outcomes(space, policy, correct)
    gradient = moments(row, space, policy=policy, behavior=policy, possible=possible, group=group).mean
    truth = space.per_answer(space.scores(policy)).T @ (possible.chance * possible.reward)
    along, size, norm = float(gradient @ truth), float(truth.norm()), float(gradient.norm())
    return along / size**2, along / (size * norm) if norm > NOTHING else math.nan


def curve(row: Objective, *, group: int) -> Curve:
    """How strongly the row pushes prompts, by their success rate.

    Args: group, rollouts per group.
    Raises: ValueError for a group that the row refuses, and for one too large to be enumerated where that is needed.
    """
    if weight := count_weight(row, group):
        how = "derived from the weights of the success counts: E[g] = w ∇p exactly, in any world"
        return _derive(weight, how=how, unit="1/L_max" if row.aggregate is constant else "1")
    if group <= LARGEST:
        return _enumerate(row, group)
    if weight := equal_lengths(row, group):
        how = (
            "derived for a world in which all answers have one length |y|; where lengths differ, it is not all of E[g]"
        )
        return _derive(weight, how=how, unit="1/|y|")
    raise ValueError(f"{row.name} has to be enumerated, and only groups of 1 to {LARGEST} can be, not of {group}")


def _derive(weight: CountWeight, *, how: str, unit: str) -> Curve:
    w = tuple(weight.weight_at(p) for p in GRID)
    cosine = tuple(math.nan if abs(value) < NOTHING else math.copysign(1.0, value) for value in w)
    return Curve(how=how, unit=unit, w=w, relative=_relative(w, cosine), cosine=cosine)


def _enumerate(row: Objective, group: int) -> Curve:
    space = world(2)
    points = [weight_and_cosine(row, group=group, p=p, max_tokens=space.max_tokens) for p in GRID]
    by_limit = row.aggregate is constant
    w = tuple(value * (space.max_tokens if by_limit else 1) for value, _ in points)
    how = (
        f"measured: the part of E[g] along ∇p over all groups of a world of {len(space.answers)} answers of up to "
        f"{space.max_tokens} tokens; other policies have other values"
    )
    cosine = tuple(cosine for _, cosine in points)
    return Curve(how=how, unit="1/L_max" if by_limit else "1", w=w, relative=_relative(w, cosine), cosine=cosine)


def _relative(w: tuple[float, ...], cosine: tuple[float, ...]) -> tuple[float, ...]:
    along = [value >= ALONG for value in cosine]
    return tuple(value / w[HALF] if near and along[HALF] else math.nan for value, near in zip(w, along, strict=True))
