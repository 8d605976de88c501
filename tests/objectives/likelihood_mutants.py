"""Mutants of the rows without a verifier."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import torch
from objective_cases import CASES
from torch import Tensor

from gnomon.objectives import (
    Credit,
    Noise,
    Objective,
    OffPolicy,
    Rewards,
    Rollouts,
    Singleton,
    answer_likelihood,
    leave_one_out,
    likelihood_on_answer,
    likelihood_throughout,
    mean_centred,
    raw,
    rft,
    successes,
    terminal,
    unclipped,
    unit_advantage,
)

Weight = Callable[[Tensor], Tensor]
NAMES = ("sft", "rft", "verifree", "verifree,baseline_on=all")


def where_answer(rollouts: Rollouts, inside: Tensor, outside: Tensor) -> Tensor:
    assert rollouts.segment is not None
    return torch.where(rollouts.segment > 0, inside, outside)


def reasoning_alone(rollouts: Rollouts, advantage: Weight) -> Tensor:
    found = likelihood_on_answer(rollouts, advantage)
    return where_answer(rollouts, torch.zeros_like(found), found)


def swapped(rollouts: Rollouts, advantage: Weight) -> Tensor:
    """The baseline on the answer and not on the reasoning."""
    likelihood = answer_likelihood(rollouts)
    return where_answer(rollouts, rollouts.spread(advantage(likelihood)), rollouts.spread(likelihood))


def unweighted(rollouts: Rollouts, advantage: Weight) -> Tensor:
    """Weight one on the answer: the gradient of a bound, E log π."""
    found = likelihood_on_answer(rollouts, advantage)
    return where_answer(rollouts, torch.ones_like(found), found)


def no_baseline(rollouts: Rollouts, advantage: Weight) -> Tensor:
    return rollouts.spread(answer_likelihood(rollouts))


def of_everything(rollouts: Rollouts, advantage: Weight) -> Tensor:
    """The likelihood of the reasoning too."""
    assert rollouts.segment is not None
    found = likelihood_on_answer(replace(rollouts, segment=rollouts.segment + 1), advantage)
    return where_answer(rollouts, found, rollouts.spread(advantage(answer_likelihood(rollouts))))


def of_the_last(rollouts: Rollouts, advantage: Weight) -> Tensor:
    """The last segment for the answer."""
    assert rollouts.segment is not None
    return likelihood_on_answer(replace(rollouts, segment=(rollouts.segment - 1).clamp(min=0)), advantage)


def in_logs(rollouts: Rollouts, advantage: Weight) -> Tensor:
    likelihood = answer_likelihood(rollouts).clamp(min=1e-300).log()
    return where_answer(rollouts, rollouts.spread(likelihood), rollouts.spread(advantage(likelihood)))


def by_reward(rollouts: Rollouts, advantage: Weight) -> Tensor:
    return where_answer(rollouts, rollouts.spread(rollouts.rewards), rollouts.spread(advantage(rollouts.rewards)))


def certain_if_missing(rollouts: Rollouts, advantage: Weight) -> Tensor:
    """An answer that never came taken for certain: the empty product."""
    assert rollouts.segment is not None
    owner = torch.zeros(rollouts.rewards.numel(), dtype=torch.bool)
    owner.index_fill_(0, rollouts.sequence[rollouts.segment > 0], True)
    likelihood = torch.where(owner.reshape(rollouts.rewards.shape), answer_likelihood(rollouts), 1.0)
    return where_answer(rollouts, rollouts.spread(likelihood), rollouts.spread(advantage(likelihood)))


CREDITS: dict[str, dict[str, Credit]] = {
    "verifree": {
        "baseline on the answer": likelihood_throughout,
        "baseline swapped": swapped,
        "no baseline": no_baseline,
        "answer unweighted": unweighted,
        "answer left out": reasoning_alone,
        "likelihood of everything": of_everything,
        "likelihood of the last segment": of_the_last,
        "likelihood in logs": in_logs,
        "the reward": by_reward,
        "certain if missing": certain_if_missing,
    },
    "verifree,baseline_on=all": {
        "no baseline on the answer": likelihood_on_answer,
        "no baseline": no_baseline,
        "the reward": terminal,
    },
}


def likelihood_mutants() -> Iterator[tuple[str, str, Objective]]:
    """What is wrong, of which case, and the row."""
    for name, credits in CREDITS.items():
        for what, credit in credits.items():
            yield f"credit: {what}", name, replace(CASES[name].row, credit=credit)
        yield "baseline with itself in it", name, replace(CASES[name].row, advantage=mean_centred)
    for name in NAMES:
        row = CASES[name].row
        yield "ratio added", name, replace(row, ratio=unclipped)
        for noise in (Noise.STILL, Noise.EVEN):
            if (name, noise) != ("rft", Noise.EVEN):  # Rewards of 0 and 1 are never even about zero.
                yield f"{noise.name} under noise claimed", name, replace(row, noise=noise)
        yield "token ratio claimed", name, replace(row, off_policy=OffPolicy.TOKEN)
    for name in ("sft", "fcp"):
        row = CASES[name].row
        yield "rewards weighed", name, replace(row, advantage=raw)
        yield "successes alone", name, replace(row, advantage=successes)
        yield "baseline", name, replace(row, advantage=leave_one_out)
        yield "raw singleton claimed", name, replace(row, singleton=Singleton.RAW)
        yield "rewards claimed", name, replace(row, rewards=Rewards.REAL)
        yield "the target of successes claimed", name, replace(row, target=rft().target)
    row = CASES["rft"].row
    yield "failures too", "rft", replace(row, advantage=unit_advantage)
    yield "failures pushed down", "rft", replace(row, advantage=lambda rewards: 2 * successes(rewards) - 1)
    yield "real rewards let in", "rft", replace(row, advantage=raw)
    yield "all rewards claimed", "rft", replace(row, rewards=Rewards.REAL)
    yield "no rewards claimed", "rft", replace(row, rewards=Rewards.NONE)
    yield "the target of all claimed", "rft", replace(row, target=CASES["sft"].row.target)
