"""Rows with one thing wrong that still claim to be right. Each keeps the target and the textbook loss of its origin."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from functools import partial

import torch
from context_mutants import context_mutants
from distillation_mutants import distillation_mutants
from entropy_mutants import entropy_mutants
from likelihood_mutants import likelihood_mutants
from objective_cases import CASES, FORMS, Case
from off_policy_mutants import off_policy_mutants
from outcome_mutants import outcome_mutants
from position_mutants import position_mutants
from preference_mutants import STEEP, preference_mutants
from ratio_mutants import ratio_mutants, turned, whole_group
from state_mutants import state_mutants
from token_mutants import token_mutants
from torch import Tensor
from trust_region_mutants import trust_region_mutants
from turn_mutants import turn_mutants

from gnomon.objectives import (
    Baseline,
    CountWeight,
    Denominators,
    Objective,
    OffPolicy,
    PolicyGradient,
    Reach,
    Rewards,
    Singleton,
    Tokens,
    analytic_weight,
    best_of,
    best_of_less_others,
    best_of_marginal,
    centred_pass_weight,
    constant,
    control_weight,
    count_advantage,
    direct_weight,
    family_weight,
    k1_in_return,
    k2,
    k3,
    leave_one_out,
    mean_centred,
    no_correction,
    no_ratio,
    ppo_clip,
    ratio_weighted_k3,
    raw,
    reach_of,
    reaches,
    released_weight,
    sequence_mean,
    sequence_sum,
    squared_log_ratio,
    standardise,
    sub_weight,
    token_mean,
    truncated,
    unclipped,
    without_failures,
)

LOPSIDED = ("grpo,clip_low=0.1,clip_high=0.3", "dr_grpo,clip_low=0.1,clip_high=0.3")
CLIPPED = ("grpo", "dr_grpo")
ANCHORED = "grpo k3"
TRUNCATED = "dr_grpo truncated"


def of_advantage(row: Objective, change: Callable[[Tensor], Tensor]) -> Objective:
    return replace(row, advantage=lambda rewards: change(row.advantage(rewards)))


def of_weights(row: Objective, change: Callable[[Tensor, Tokens, Denominators], Tensor]) -> Objective:
    return replace(row, aggregate=lambda tokens, sizes: change(row.aggregate(tokens, sizes), tokens, sizes))


def sample_deviation(rewards: Tensor) -> Tensor:
    if rewards.shape[1] == 1:
        return torch.zeros_like(rewards)
    return mean_centred(rewards) / (rewards.std(dim=1, keepdim=True) + 1e-6)


def unguarded(rewards: Tensor) -> Tensor:
    centred = rewards - rewards.mean(dim=1, keepdim=True)
    return centred / centred.square().mean(dim=1, keepdim=True).sqrt()


def whole_batch(rewards: Tensor) -> Tensor:
    return rewards - rewards.mean()


def first_of_group(rewards: Tensor) -> Tensor:
    return rewards - rewards[:, :1]


def lenient_leave_one_out(rewards: Tensor) -> Tensor:
    return leave_one_out(rewards) if rewards.shape[1] > 1 else rewards.clone()


def both_sides(tokens: Tokens) -> Tensor:
    ratio = tokens.log_ratio.exp()
    return torch.where((ratio > 1.2) | (ratio < 0.8), torch.zeros_like(ratio), ratio)


def clamped(tokens: Tokens) -> Tensor:
    return tokens.log_ratio.exp().clamp(0.8, 1.2)


def wrong_sign(tokens: Tokens) -> Tensor:
    return ppo_clip(replace(tokens, advantage=-tokens.advantage), low=0.2, high=0.2)


def inverted(tokens: Tokens) -> Tensor:
    return ppo_clip(turned(tokens), low=0.2, high=0.2)


def overflowing(tokens: Tokens) -> Tensor:
    square = (2 * tokens.log_ratio).exp()
    return ppo_clip(tokens, low=0.2, high=0.2) * square / square


def inverse_truncated(tokens: Tokens) -> Tensor:
    return truncated(turned(tokens), cap=2.0)


def never_truncated(tokens: Tokens) -> Tensor:
    return tokens.log_mismatch.exp()


def floored(tokens: Tokens) -> Tensor:
    return tokens.log_mismatch.exp().clamp(min=2.0)


def micro_batch(row: Objective) -> Objective:
    @reaches(Reach.TOKEN)
    def local(tokens: Tokens, sizes: Denominators) -> Tensor:
        present = max(len(tokens.sequence.unique()), 1)
        here = Denominators(groups=1, sequences=present, tokens=len(tokens), max_tokens=sizes.max_tokens)
        return row.aggregate(tokens, here)

    return replace(row, aggregate=local)


def weighted_but_held(tokens: Tokens) -> Tensor:
    """The gradient of sg(ρ)·k3: it descends the other divergence."""
    return (tokens.logp - tokens.behavior_logp).clamp(-80, 80).exp() * k3(tokens).clamp(max=1e3)


def of_rollouts_with_tokens(weights: Tensor, tokens: Tokens, sizes: Denominators) -> Tensor:
    return weights * sizes.sequences / max(len(tokens.sequence.unique()), 1)


def per_group_length(tokens: Tokens, sizes: Denominators) -> Tensor:
    return 1 / (sizes.sequences * torch.bincount(tokens.group)[tokens.group]).to(tokens.logp.dtype)


@reaches(Reach.TOKEN)
def group_here(tokens: Tokens, sizes: Denominators) -> Tensor:
    return 1 / (sizes.groups * torch.bincount(tokens.group)[tokens.group]).to(tokens.logp.dtype)


def longest_here(tokens: Tokens, sizes: Denominators) -> Tensor:
    longest = max(torch.bincount(tokens.sequence).tolist(), default=1)
    return torch.full_like(tokens.logp, 1 / (sizes.sequences * longest))


def nearer(row: Objective) -> Objective:
    """The row with its farthest parts said to depend on less: on tokens of a rollout, or rollouts of a group, alone."""

    def claimed(part: Callable[..., Tensor]) -> Callable[..., Tensor]:
        if reach_of(part) < row.reach:
            return part
        return reaches(Reach(row.reach - 1))(lambda *seen: part(*seen))

    penalty = None if row.penalty is None else claimed(row.penalty)
    ratio, correction, aggregate = map(claimed, (row.ratio, row.correction, row.aggregate))
    return replace(row, ratio=ratio, correction=correction, aggregate=aggregate, penalty=penalty)


class Attached(Objective):
    """A row that forgets to detach."""

    def coefficients(self, tokens: Tokens, denominators: Denominators) -> Tensor:
        return Objective.coefficients.__wrapped__(self, tokens, denominators)  # type: ignore[attr-defined]


def attached(row: Objective) -> Objective:
    return Attached(**{field.name: getattr(row, field.name) for field in fields(row)})


NEARER = "a nearer reach claimed"
KINDS = (
    ratio_mutants,
    off_policy_mutants,
    outcome_mutants,
    trust_region_mutants,
    context_mutants,
    distillation_mutants,
    entropy_mutants,
    position_mutants,
    state_mutants,
    token_mutants,
    turn_mutants,
    likelihood_mutants,
)


def mutants() -> dict[str, Case]:
    """Every mutant by name."""
    found: dict[str, Case] = {}

    def add(what: str, name: str, row: Objective) -> None:
        found[f"{name}: {what}"] = replace(CASES[name], row=row)

    for name in FORMS:
        row = CASES[name].row
        add("sign flipped", name, of_advantage(row, lambda a: -a))
        if row.reach < Reach.STEP:  # A step that must stay whole is its own micro-batch.
            add("denominators of the micro-batch", name, micro_batch(row))
        if row.reach > Reach.TOKEN:
            held = STEEP if name == "online_dpo,loss=hinge" else name
            add(NEARER, held, nearer(CASES[held].row))
        add("divided by groups", name, of_weights(row, lambda w, t, d: w * d.sequences / d.groups))
        add("divided by the rollouts that have tokens", name, of_weights(row, of_rollouts_with_tokens))
        for aggregate in (sequence_sum, constant, sequence_mean, token_mean):
            if aggregate is not row.aggregate:
                add(f"aggregated by {aggregate.__name__}", name, replace(row, aggregate=aggregate))
    for name in ("rloo", *CLIPPED):
        add("baseline missing", name, replace(CASES[name].row, advantage=raw))
        add("baseline over the whole batch", name, replace(CASES[name].row, advantage=whole_batch))
        add("first rollout as baseline", name, replace(CASES[name].row, advantage=first_of_group))
    for name in ("reinforce", "rloo"):
        add("ratio added", name, replace(CASES[name].row, ratio=unclipped))
        add("baseline with itself in it", name, replace(CASES[name].row, advantage=mean_centred))
        add("token ratio claimed", name, replace(CASES[name].row, off_policy=OffPolicy.TOKEN))
    for name in CLIPPED:
        row = CASES[name].row
        for ratio in (no_ratio, unclipped, both_sides, clamped, wrong_sign, inverted, overflowing):
            add(f"ratio {ratio.__name__}", name, replace(row, ratio=ratio))
        add("blindness claimed", name, replace(row, off_policy=OffPolicy.ON_POLICY))
        add("singleton raw claimed", name, replace(row, singleton=Singleton.RAW))
        add("no baseline claimed", name, replace(row, baseline=Baseline.NONE))
        add("groups of one said to move it", name, replace(row, min_group=1))
        add("κ attached", name, attached(row))
        add("clip band too wide", name, replace(row, ratio=partial(ppo_clip, low=0.2, high=0.28)))
    for name in LOPSIDED:
        add("clip sides swapped", name, replace(CASES[name].row, ratio=partial(ppo_clip, low=0.3, high=0.1)))
    grpo, dr_grpo, rloo = CASES["grpo"].row, CASES["dr_grpo"].row, CASES["rloo"].row
    add("deviation missing", "grpo", replace(grpo, advantage=mean_centred))
    add("sample deviation", "grpo", replace(grpo, advantage=sample_deviation))
    add("epsilon too large", "grpo", replace(grpo, advantage=partial(standardise, epsilon=1e-4)))
    add("zero over zero", "grpo,epsilon=0.0", replace(CASES["grpo,epsilon=0.0"].row, advantage=unguarded))
    add("length of the group", "grpo", replace(grpo, aggregate=per_group_length))
    add("deviation missing", "echo", replace(CASES["echo"].row, advantage=mean_centred))
    add("unbiased claimed", "grpo", replace(grpo, target=dr_grpo.target))
    add("deviation added", "dr_grpo", replace(dr_grpo, advantage=partial(standardise, epsilon=1e-6)))
    add("leave-one-out", "dr_grpo", replace(dr_grpo, advantage=leave_one_out))
    add("longest rollout for the limit", "dr_grpo", replace(dr_grpo, aggregate=longest_here))
    add("unit weight claimed", "dr_grpo", replace(dr_grpo, target=PolicyGradient(weight=lambda *_: 1.0, text="∇p")))
    add("group of one keeps its reward", "rloo", replace(rloo, advantage=lenient_leave_one_out))
    anchored = CASES[ANCHORED].row
    add("penalty pushes away", ANCHORED, replace(anchored, penalty_weight=-anchored.penalty_weight))
    add("penalty dropped", ANCHORED, replace(anchored, penalty=None))
    add("k2 for k3", ANCHORED, replace(anchored, penalty=k2))
    add("penalty reversed", ANCHORED, replace(anchored, penalty=lambda tokens: -k3(turned(tokens))))
    cut = CASES[TRUNCATED].row
    add("correction missing", TRUNCATED, replace(cut, correction=no_correction))
    add(
        "correction inverted",
        TRUNCATED,
        replace(cut, correction=inverse_truncated),
    )
    add("correction never truncated", TRUNCATED, replace(cut, correction=never_truncated))
    add(
        "correction truncated from below",
        TRUNCATED,
        replace(cut, correction=floored),
    )
    for name in ("dr_grpo k1_in_return", "dr_grpo k2", "dr_grpo ratio_weighted_k3"):
        row = CASES[name].row
        add("penalty dropped", name, replace(row, penalty=None))
        add("penalty pushes away", name, replace(row, penalty_weight=-row.penalty_weight))
        for penalty in (k1_in_return, k2, k3, ratio_weighted_k3, squared_log_ratio):
            if penalty is not row.penalty:
                add(f"penalty {penalty.__name__}", name, replace(row, penalty=penalty))
    row = CASES["dr_grpo k1_in_return"].row
    add("penalty of the group", "dr_grpo k1_in_return", replace(row, penalty=lambda t: k1_in_return(whole_group(t))))
    row = CASES["dr_grpo ratio_weighted_k3"].row
    add("weight not differentiated", "dr_grpo ratio_weighted_k3", replace(row, penalty=weighted_but_held))
    row = CASES["dapo by prompt"].row
    for aggregate in (token_mean, sequence_mean, sequence_sum):
        add(f"aggregated by {aggregate.__name__}", "dapo by prompt", replace(row, aggregate=aggregate))
    add("tokens of the group that are here", "dapo by prompt", replace(row, aggregate=group_here))
    for name, row in counting_mutants():
        what, _, origin = name.rpartition(" of ")
        add(what, origin, row)
    for what, origin, row in itertools.chain.from_iterable(kind() for kind in (*KINDS, preference_mutants)):
        add(what, origin, row)
    return found


def counting_mutants() -> Iterator[tuple[str, Objective]]:
    """Of the rows that count successes or look at the best, named "what is wrong of ROW"."""

    def counted_by(name: str, weight: Callable[[int], CountWeight]) -> Objective:
        return replace(CASES[name].row, advantage=partial(count_advantage, weight=weight))

    for name in ("maxrl", "maxrl_control", "maxrl_released", "maxrl_sub", "rl2ml", "pass_at_k_analytic"):
        row = CASES[name].row
        yield f"first rollout as baseline of {name}", of_advantage(row, lambda a: a - a[:, :1])
        yield f"real rewards let in of {name}", replace(row, advantage=partial(rounded, row=row))
        yield f"all rewards claimed of {name}", replace(row, rewards=Rewards.REAL)
    for name in ("maxrl", "maxrl_control", "rl2ml"):
        for k in (0, 1):
            dropped = partial(without_group, weight=CASES[name].row.advantage.keywords["weight"], count=k)  # type: ignore[attr-defined]
            if name == "maxrl_control" or k:
                yield f"groups with {k} successes dropped of {name}", counted_by(name, dropped)
    yield "order N−1 claimed of maxrl", replace(CASES["maxrl"].row, target=CASES["maxrl_released"].row.target)
    yield "order N claimed of maxrl_released", replace(CASES["maxrl_released"].row, target=CASES["maxrl"].row.target)
    yield "all-fail groups kept of maxrl_released", counted_by("maxrl_released", control_weight)
    yield "epsilon too large of maxrl_released", counted_by("maxrl_released", partial(released_weight, epsilon=1e-4))
    yield "another order of maxrl_sub", counted_by("maxrl_sub", partial(sub_weight, order=1))
    yield "order N of maxrl_sub,order=3", counted_by("maxrl_sub,order=3", direct_weight)
    for other in "BCD":
        weight = partial(family_weight, family=other, parameter=0.5)
        yield f"family {other} of rl2ml", counted_by("rl2ml", weight)
        back = partial(family_weight, family="A", parameter=0.5)
        yield f"family A of rl2ml,family={other}", counted_by(f"rl2ml,family={other}", back)
    yield (
        "baseline on the successes alone of rl2ml,baseline=1.0",
        counted_by(
            "rl2ml,baseline=1.0",
            lambda n: without_failures([x - 1 for x in family_weight(n, family="A", parameter=0.5).beta]),
        ),
    )
    yield (
        "raw singleton claimed of rl2ml,baseline=1.0",
        replace(CASES["rl2ml,baseline=1.0"].row, singleton=Singleton.RAW),
    )
    for name in ("pkpo", "pkpo_loo", "pkpo_marginal"):
        row = CASES[name].row
        yield f"k = 3 of {name}", replace(row, advantage=partial(best_of, k=3))
        yield f"plain reward of {name}", replace(row, advantage=raw)
        yield f"smaller groups claimed of {name}", replace(row, min_group=row.min_group - 1)
    yield "another baseline of pkpo_loo", replace(CASES["pkpo_loo"].row, advantage=partial(best_of_marginal, k=2))
    yield (
        "another baseline of pkpo_marginal",
        replace(CASES["pkpo_marginal"].row, advantage=partial(best_of_less_others, k=2)),
    )
    yield "baseline missing of pkpo_loo", replace(CASES["pkpo_loo"].row, advantage=partial(best_of, k=2))
    yield "baseline claimed of pkpo", replace(CASES["pkpo"].row, baseline=Baseline.OTHERS)
    yield "times N of pass_at_all", of_advantage(CASES["pass_at_all"].row, lambda a: a * a.shape[1])
    yield "compared with the mean of pass_at_all", replace(CASES["pass_at_all"].row, advantage=mean_centred)
    yield "not divided of pass_at_k_analytic", counted_by("pass_at_k_analytic", partial(centred_pass_weight, k=2))
    yield (
        "divided of pass_at_k_analytic,scale=none",
        counted_by("pass_at_k_analytic,scale=none", partial(analytic_weight, k=2)),
    )
    yield (
        "k = 1 of pass_at_k_analytic,scale=none",
        counted_by("pass_at_k_analytic,scale=none", partial(centred_pass_weight, k=1)),
    )
    yield (
        "population deviation of grpo,deviation=sample",
        replace(CASES["grpo,deviation=sample"].row, advantage=CASES["grpo"].row.advantage),
    )
    yield "leave-one-out of reinforce_centred", replace(CASES["reinforce_centred"].row, advantage=leave_one_out)
    yield "baseline missing of reinforce_centred", replace(CASES["reinforce_centred"].row, advantage=raw)
    yield (
        "unit weight claimed of reinforce_centred",
        replace(CASES["reinforce_centred"].row, target=CASES["rloo"].row.target),
    )


def lowered_successes(group: int) -> CountWeight:
    return without_failures([a - 1 for a in family_weight(group, family="A", parameter=0.5).beta])


def rounded(rewards: Tensor, *, row: Objective) -> Tensor:
    return row.advantage((rewards > 0.5).to(rewards.dtype))


def without_group(group: int, *, weight: Callable[[int], CountWeight], count: int) -> CountWeight:
    """Groups with that many successes get no gradient."""
    found = weight(group)
    return CountWeight(
        success=tuple(a * (k != count) for k, a in enumerate(found.success)),
        failure=tuple(b * (k != count) for k, b in enumerate(found.failure)),
    )
