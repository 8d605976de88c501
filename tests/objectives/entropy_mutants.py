"""Mutants of the rows whose credit looks at entropies."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import torch
from objective_cases import CASES
from token_mutants import seeing
from torch import Tensor

from gnomon.objectives import (
    Advantage,
    Baseline,
    Objective,
    OffPolicy,
    Rollouts,
    Singleton,
    mean_centred,
    most_uncertain,
    most_uncertain_alone,
    no_ratio,
    ppo_clip,
    sequence_mean,
    terminal,
    zero_variance,
)


def entropy_of(rollouts: Rollouts) -> Tensor:
    assert rollouts.entropy is not None
    return rollouts.entropy


def least_uncertain(rollouts: Rollouts) -> Rollouts:
    return replace(rollouts, entropy=-entropy_of(rollouts))


def surprise(rollouts: Rollouts) -> Rollouts:
    """How unlikely a token was, in the place of how uncertain the policy was."""
    assert rollouts.logp is not None
    return replace(rollouts, entropy=-rollouts.logp)


def by_rollout(rollouts: Rollouts, advantage: Advantage) -> Tensor:
    """A quantile of every rollout."""
    parts = entropy_of(rollouts).split(rollouts.lengths.flatten().tolist())
    return rollouts.spread(advantage(rollouts.rewards)) * torch.cat([most_uncertain(part, share=0.2) for part in parts])


def by_group(rollouts: Rollouts, advantage: Advantage) -> Tensor:
    """A quantile of every group, as a micro-batch would have it."""
    parts = entropy_of(rollouts).split(rollouts.lengths.sum(dim=1).tolist())
    return rollouts.spread(advantage(rollouts.rewards)) * torch.cat([most_uncertain(part, share=0.2) for part in parts])


def without_ties(rollouts: Rollouts, advantage: Advantage) -> Tensor:
    entropy = entropy_of(rollouts)
    kept = torch.zeros_like(entropy)
    if len(entropy):
        kept[entropy.topk(1 + int(0.2 * (len(entropy) - 1))).indices] = 1
    return rollouts.spread(advantage(rollouts.rewards)) * kept


def weighted(rollouts: Rollouts, advantage: Advantage) -> Tensor:
    return rollouts.spread(advantage(rollouts.rewards)) * entropy_of(rollouts)


def max_of_step(rollouts: Rollouts, advantage: Advantage) -> Tensor:
    """The largest entropy of the step where that of the rollout stood."""
    entropy, found = entropy_of(rollouts), zero_variance(rollouts, advantage, alpha=0.1)
    wrong = rollouts.spread((rollouts.rewards == 0).all(dim=1, keepdim=True).expand_as(rollouts.rewards))
    return torch.where(wrong, 0.1 * (entropy - (entropy.max() if len(entropy) else 0)), found)


def spared(rollouts: Rollouts, advantage: Advantage) -> Tensor:
    """Wrong groups lowered by their entropy, where the uncertain are to be spared."""
    found = zero_variance(rollouts, advantage, alpha=0.1)
    wrong = rollouts.spread((rollouts.rewards == 0).all(dim=1, keepdim=True).expand_as(rollouts.rewards))
    return torch.where(wrong, -0.1 * entropy_of(rollouts), found)


def raised(rollouts: Rollouts, advantage: Advantage) -> Tensor:
    """All wrong raised like all right."""
    found = zero_variance(rollouts, advantage, alpha=0.1)
    return torch.where((rollouts.spread(rollouts.rewards) == 0) & (found < 0), -found, found)


def turned(rollouts: Rollouts, advantage: Advantage) -> Tensor:
    return -zero_variance(rollouts, advantage, alpha=0.1)


def everywhere(rollouts: Rollouts, advantage: Advantage) -> Tensor:
    """By entropy in mixed groups too."""
    found = zero_variance(rollouts, lambda rewards: torch.zeros_like(rewards), alpha=0.1)
    return found + rollouts.spread(advantage(rollouts.rewards)) * (1 + entropy_of(rollouts))


def entropy_mutants() -> Iterator[tuple[str, str, Objective]]:
    """What is wrong, of which case, and the row."""
    mask, none = CASES["entropy_mask"].row, CASES["rl_zvp"].row
    yield "mask missing", "entropy_mask", replace(mask, credit=terminal)
    for wrong in (by_rollout, by_group, without_ties, weighted):
        yield wrong.__name__, "entropy_mask", replace(mask, credit=wrong)
    for change in (least_uncertain, surprise):
        yield change.__name__, "entropy_mask", seeing(mask, change)
    yield "another share", "entropy_mask", replace(mask, credit=partial(most_uncertain_alone, share=0.3))
    yield "deviation missing", "entropy_mask", replace(mask, advantage=mean_centred)
    yield "unmasked claimed", "entropy_mask", replace(mask, target=CASES["dapo"].row.target)
    yield "another alpha", "rl_zvp", replace(none, credit=partial(zero_variance, alpha=0.2))
    yield "nothing for groups without variance", "rl_zvp", replace(none, credit=terminal)
    for wrong in (max_of_step, spared, raised, turned, everywhere):
        yield wrong.__name__, "rl_zvp", replace(none, credit=wrong)
    yield "surprise", "rl_zvp", seeing(none, surprise)
    yield "deviation missing", "rl_zvp", replace(none, advantage=mean_centred)
    yield "dapo claimed", "rl_zvp", replace(none, target=CASES["dapo"].row.target)
    yield "nothing of a group of one claimed", "rl_zvp", replace(none, singleton=Singleton.ZERO)
    for name, row in (("entropy_mask", mask), ("rl_zvp", none)):
        yield "ratio missing", name, replace(row, ratio=no_ratio)
        yield "clip band too narrow", name, replace(row, ratio=partial(ppo_clip, low=0.2, high=0.2))
        yield "mean of means", name, replace(row, aggregate=sequence_mean)
        yield "whole answers claimed", name, replace(row, off_policy=OffPolicy.SEQUENCE)
    yield "no baseline claimed", "entropy_mask", replace(mask, baseline=Baseline.NONE)
