"""Mutants of the rows that weigh outcomes, lengths or the whole step."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

from objective_cases import CASES
from torch import Tensor

from gnomon.objectives import (
    Advantage,
    Baseline,
    Objective,
    OffPolicy,
    PolicyGradient,
    Rollouts,
    Singleton,
    by_part,
    capped,
    count_advantage,
    leave_one_out,
    length_centred,
    mean_centred,
    no_ratio,
    others_length_centred,
    outcome_weight,
    over_deciding_groups,
    over_nonzero_rewards,
    over_spread_of_rewards,
    ppo_clip,
    raw,
    rejected_weight,
    relative_exponential,
    relative_exponential_leave_one_out,
    sample_standardised,
    scaled_by_step,
    standardise,
    terminal,
)

CLIPPED = (
    "w_reinforce,success=1.0,failure=0.0",
    "w_reinforce",
    "raft_pp",
    "reinforce_rej",
    "tilted",
    "tilted,baseline=others",
)
LOPSIDED = "w_reinforce,success=1.0,failure=0.0,clip_low=0.1,clip_high=0.3"


def weighed(success: float, failure: float) -> Advantage:
    return partial(count_advantage, weight=partial(outcome_weight, success=success, failure=failure))


def kept(success: float, failure: float) -> Advantage:
    return partial(count_advantage, weight=partial(rejected_weight, success=success, failure=failure))


def seeing(change: Callable[[Rollouts], Rollouts]) -> Objective:
    """GDPO with what its credit sees changed."""
    row = CASES["gdpo"].row
    return replace(row, credit=lambda rollouts, advantage: row.credit(change(rollouts), advantage))


def summed_first(rollouts: Rollouts) -> Rollouts:
    """The parts summed before they are compared, as GRPO does."""
    assert rollouts.parts is not None and rollouts.part_weights is not None
    whole = (rollouts.parts * rollouts.part_weights).sum(2, keepdim=True)
    return replace(rollouts, parts=whole, part_weights=whole.new_ones(whole.shape))


def weighed_alike(rollouts: Rollouts) -> Rollouts:
    assert rollouts.part_weights is not None
    return replace(rollouts, part_weights=rollouts.part_weights.new_ones(rollouts.part_weights.shape))


def first_part(rollouts: Rollouts) -> Rollouts:
    assert rollouts.parts is not None and rollouts.part_weights is not None
    return replace(rollouts, parts=rollouts.parts[..., :1], part_weights=rollouts.part_weights[..., :1])


def part_mutants() -> Iterator[tuple[str, str, Objective]]:
    row = CASES["gdpo"].row
    yield "parts missing", "gdpo", replace(row, credit=terminal)
    for change in (summed_first, weighed_alike, first_part):
        yield change.__name__, "gdpo", seeing(change)
    yield "deviation of parts missing", "gdpo", replace(row, advantage=mean_centred)
    yield "population deviation", "gdpo", replace(row, advantage=partial(standardise, epsilon=1e-4))
    yield "another epsilon", "gdpo", replace(row, credit=partial(by_part, epsilon=1e-2))
    yield "ratio missing", "gdpo", replace(row, ratio=no_ratio)
    yield "more room above", "gdpo", replace(row, ratio=partial(ppo_clip, low=0.2, high=0.28))
    yield "whole rewards claimed", "gdpo", replace(row, target=CASES["lite_ppo"].row.target)
    yield "whole answers claimed", "gdpo", replace(row, off_policy=OffPolicy.SEQUENCE)


def absolute(rewards: Tensor) -> Tensor:
    return rewards.abs()


def unscaled(rewards: Tensor) -> Tensor:
    return relative_exponential(rewards, beta=2.0) * 2.0


def risk_averse(rewards: Tensor) -> Tensor:
    return -relative_exponential(-rewards, beta=2.0)


def by_step(rewards: Tensor) -> Tensor:
    """One mean for the whole step."""
    return relative_exponential(rewards.reshape(1, -1), beta=2.0).reshape(rewards.shape)


ADVANTAGES: dict[str, dict[str, Advantage]] = {
    "w_reinforce,success=1.0,failure=0.0": {
        "of failures": weighed(0.0, -1.0),
        "of both": weighed(1.0, -1.0),
        "centred": mean_centred,
    },
    "w_reinforce,success=0.0": {
        "of successes": weighed(1.0, 0.0),
        "of both": weighed(1.0, -1.0),
        "lowered half": weighed(0.0, -0.5),
    },
    "w_reinforce": {"weights equal": weighed(1.0, -1.0), "weights swapped": weighed(1.0, -0.1)},
    "w_reinforce,success=0.5": {"the usual weight": weighed(0.1, -1.0)},
    "raft_pp": {"the plain reward": raw, "its size": absolute, "centred": mean_centred},
    "reinforce_rej": {"failures ignored": kept(1.0, 0.0), "no group left out": weighed(1.0, -1.0)},
    "reinforce_rej,failure=0.0": {"failures lowered": kept(1.0, -1.0), "no group left out": weighed(1.0, 0.0)},
    "tilted": {
        "not divided by β": unscaled,
        "another β": partial(relative_exponential, beta=1.0),
        "risk-averse": risk_averse,
        "of the others": partial(relative_exponential_leave_one_out, beta=2.0),
        "over the step": by_step,
        "plain": mean_centred,
    },
    "tilted,baseline=others": {
        "with itself": partial(relative_exponential, beta=2.0),
        "another β": partial(relative_exponential_leave_one_out, beta=1.0),
        "plain": leave_one_out,
    },
}


def by_rollouts(rollouts: Rollouts, advantage: Advantage) -> Tensor:
    """The plain mean of the group, where lengths should weigh."""
    return rollouts.spread(mean_centred(rollouts.rewards))


def by_tokens_of_the_step(rollouts: Rollouts, advantage: Advantage) -> Tensor:
    lengths = rollouts.lengths.to(rollouts.rewards.dtype)
    return rollouts.spread(rollouts.rewards - (rollouts.rewards * lengths).sum() / lengths.sum().clamp(min=1))


def by_brevity(rollouts: Rollouts, advantage: Advantage) -> Tensor:
    """Short rollouts weigh more in the mean."""
    weight = 1 / rollouts.lengths.clamp(min=1).to(rollouts.rewards.dtype)
    return rollouts.spread(
        rollouts.rewards - (rollouts.rewards * weight).sum(1, keepdim=True) / weight.sum(1, keepdim=True)
    )


def population_spread(rollouts: Rollouts, advantage: Advantage) -> Tensor:
    deviation = rollouts.rewards.std(correction=0)
    return rollouts.spread(advantage(rollouts.rewards) / (deviation + 1e-4) * (deviation > 0))


def in_each_group(score: Callable[[Tensor], Tensor]) -> Callable[[Rollouts, Advantage], Tensor]:
    return lambda rollouts, advantage: rollouts.spread(score(rollouts.rewards))


CREDITS: dict[str, dict[str, Callable[[Rollouts, Advantage], Tensor]]] = {
    "opo": {
        "plain mean": by_rollouts,
        "without itself": others_length_centred,
        "over the step": by_tokens_of_the_step,
        "short ones weigh more": by_brevity,
    },
    "opo,baseline=others": {"with itself": length_centred, "plain mean": by_rollouts},
    "gpg": {"every group counted": terminal, "as verl": over_nonzero_rewards},
    "gpg_verl": {"as the paper": over_deciding_groups, "not divided": terminal},
    "lite_ppo": {
        "of each group": in_each_group(partial(sample_standardised, epsilon=1e-4)),
        "population": population_spread,
        "of the advantages": partial(scaled_by_step, epsilon=1e-4),
        "not divided": terminal,
        "another ε": partial(over_spread_of_rewards, epsilon=1e-2),
    },
    "magistral": {
        "of each group": in_each_group(partial(standardise, epsilon=1e-6)),
        "of the rewards": partial(over_spread_of_rewards, epsilon=1e-6),
        "not divided": terminal,
    },
}


def outcome_mutants() -> Iterator[tuple[str, str, Objective]]:
    """What is wrong, of which case, and the row."""
    yield from part_mutants()
    for name, advantages in ADVANTAGES.items():
        for what, advantage in advantages.items():
            yield f"advantage: {what}", name, replace(CASES[name].row, advantage=advantage)
    for name, credits in CREDITS.items():
        for what, credit in credits.items():
            yield f"credit: {what}", name, replace(CASES[name].row, credit=credit)
    for name in (*CLIPPED, "lite_ppo", "magistral"):
        row = CASES[name].row
        yield "ratio missing", name, replace(row, ratio=no_ratio)
        yield "a ceiling for the clip", name, replace(row, ratio=partial(capped, cap=1.2))
        yield "blindness claimed", name, replace(row, off_policy=OffPolicy.ON_POLICY)
    yield "clip sides swapped", LOPSIDED, replace(CASES[LOPSIDED].row, ratio=partial(ppo_clip, low=0.3, high=0.1))
    yield "clip symmetric", "magistral", replace(CASES["magistral"].row, ratio=partial(ppo_clip, low=0.2, high=0.2))
    for name in ("opo", "gpg", "gpg_verl"):
        yield "ratio added", name, replace(CASES[name].row, ratio=partial(ppo_clip, low=0.2, high=0.2))
    for name in ("opo", "tilted", "lite_ppo"):
        yield "no baseline claimed", name, replace(CASES[name].row, baseline=Baseline.NONE)
    kinds = {
        "w_reinforce,success=0.0": Singleton.RAW,
        "w_reinforce": Singleton.SHIFTED,
        "w_reinforce,success=1.0,failure=0.0": Singleton.AFFINE,
    }
    for name, kind in kinds.items():
        yield f"{kind} singleton claimed", name, replace(CASES[name].row, singleton=kind)
    plain = PolicyGradient(weight=lambda *_: 1.0, text="∇p")
    for name in ("w_reinforce", "reinforce_rej", "tilted", "opo", "gpg_verl"):
        yield "∇p claimed", name, replace(CASES[name].row, target=plain)
