"""Mutants of the rows whose credit looks beyond rewards."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

import torch
from objective_cases import CASES
from torch import Tensor

from gnomon.objectives import (
    FADES,
    Advantage,
    Baseline,
    Noise,
    Objective,
    OffPolicy,
    Rollouts,
    Singleton,
    Tokens,
    brevity,
    centred_k1,
    clipped_or_shaped,
    entropy_weighted,
    greedy_centred,
    k1_in_return,
    k2,
    keep_best,
    leave_one_out,
    mean_centred,
    no_ratio,
    others_entropy_weighted,
    past_centred,
    ppo_clip,
    raw,
    reward_per_token,
    standardise,
    terminal,
    unclipped_or_shaped,
)

LINEAR = {"alpha": 0.5, "fade": FADES["linear"]}


def shannon_weighted(rollouts: Rollouts, advantage: Advantage) -> Tensor:
    """The entropy of the shares, where the mean over distinct answers stood."""
    assert rollouts.answers is not None
    same = rollouts.answers[:, :, None] == rollouts.answers[:, None, :]
    entropy = -same.double().mean(dim=2).log().mean(dim=1)
    weight = 1 - 0.5 * entropy / torch.tensor(float(max(rollouts.answers.shape[1], 2))).log()
    return rollouts.spread(weight[:, None].to(rollouts.rewards.dtype) * advantage(rollouts.rewards))


def whole_step(rollouts: Rollouts, advantage: Advantage) -> Tensor:
    """One entropy for all groups."""
    assert rollouts.answers is not None
    flat = rollouts.answers.reshape(1, -1)
    times = (flat[:, :, None] == flat[:, None, :]).sum(dim=2).double()
    entropy = ((flat.shape[1] / times).log() / times).sum() / (1 / times).sum()
    weight = 1 - 0.5 * entropy / torch.tensor(float(max(flat.shape[1], 2))).log()
    return rollouts.spread(weight.to(rollouts.rewards.dtype) * advantage(rollouts.rewards))


def by_rewards(rollouts: Rollouts, advantage: Advantage) -> Tensor:
    """Rewards taken for answers."""
    return entropy_weighted(replace(rollouts, answers=rollouts.rewards.mul(1000).long()), advantage, **LINEAR)


def rising(uncertainty: Tensor) -> Tensor:
    return 1 + uncertainty


def padded(rollouts: Rollouts, advantage: Advantage, *, score: Callable[[Rollouts], Tensor], keep: int) -> Tensor:
    """Statistics of the whole group, where those of the kept stood."""
    scores = score(rollouts)
    kept = scores >= scores.topk(min(keep, scores.shape[1]), dim=1).values[:, -1:]
    return rollouts.spread(advantage(rollouts.rewards) * kept)


def zeroed(rollouts: Rollouts, advantage: Advantage, *, score: Callable[[Rollouts], Tensor], keep: int) -> Tensor:
    """Dropped rollouts earn nothing, and are compared with."""
    scores = score(rollouts)
    kept = scores >= scores.topk(min(keep, scores.shape[1]), dim=1).values[:, -1:]
    return rollouts.spread(advantage(rollouts.rewards * kept))


def above_bar(rollouts: Rollouts, advantage: Advantage, *, score: Callable[[Rollouts], Tensor], keep: int) -> Tensor:
    """Rollouts level with the first that is dropped are dropped too."""
    scores = score(rollouts)
    if scores.shape[1] <= keep:
        return rollouts.spread(advantage(rollouts.rewards))
    kept = scores > scores.topk(keep + 1, dim=1).values[:, -1:]
    credit = torch.zeros_like(rollouts.rewards)
    for group in range(len(credit)):
        if kept[group].any():
            credit[group, kept[group]] = advantage(rollouts.rewards[group, kept[group]][None])[0]
    return rollouts.spread(credit)


def verbosity(rollouts: Rollouts) -> Tensor:
    return rollouts.lengths


def reward_alone(rollouts: Rollouts) -> Tensor:
    return rollouts.rewards


def context_mutants() -> Iterator[tuple[str, str, Objective]]:
    """What is wrong, of which case, and the row."""
    for name in ("seed_grpo", "seed_grpo,baseline=others"):
        row = CASES[name].row
        yield "weight missing", name, replace(row, credit=terminal)
        yield "entropy of shares", name, replace(row, credit=shannon_weighted)
        yield "entropy of the step", name, replace(row, credit=whole_step)
        yield "entropy of rewards", name, replace(row, credit=by_rewards)
        for fade in ("exponential", "focal"):
            options = {"alpha": 0.5, "fade": FADES[fade]}
            weigh = entropy_weighted if name == "seed_grpo" else others_entropy_weighted
            yield f"{fade} fade", name, replace(row, credit=partial(weigh, **options))
        yield "another alpha", name, replace(row, credit=partial(weigh, alpha=0.4, fade=FADES["linear"]))
        yield "weight rising", name, replace(row, credit=partial(weigh, alpha=0.5, fade=rising))
        yield "baseline missing", name, replace(row, advantage=raw)
        yield "deviation added", name, replace(row, advantage=partial(standardise, epsilon=1e-6))
        yield "ratio missing", name, replace(row, ratio=no_ratio)
        yield "clip band too wide", name, replace(row, ratio=partial(ppo_clip, low=0.2, high=0.28))
        yield "unweighted claimed", name, replace(row, target=CASES["dr_grpo"].row.target)
        yield "no baseline claimed", name, replace(row, baseline=Baseline.NONE)
        yield "raw singleton claimed", name, replace(row, singleton=Singleton.RAW)
    own, others = CASES["seed_grpo"].row, CASES["seed_grpo,baseline=others"].row
    yield "own answer in the weight", "seed_grpo,baseline=others", replace(others, credit=own.credit)
    yield "own reward in the baseline", "seed_grpo,baseline=others", replace(others, advantage=mean_centred)
    yield "own answer out of the weight", "seed_grpo", replace(own, credit=others.credit)
    yield "own reward out of the baseline", "seed_grpo", replace(own, advantage=leave_one_out)
    yield "the exact one claimed", "seed_grpo", replace(own, target=others.target)
    yield "the bent one claimed", "seed_grpo,baseline=others", replace(others, target=own.target)
    yield from filter_mutants()
    yield from past_mutants()
    yield from greedy_mutants()
    yield from value_mutants()
    yield from demonstration_mutants()


def filter_mutants() -> Iterator[tuple[str, str, Objective]]:
    for origin, score in (("gfpo", brevity), ("gfpo,by=efficiency", reward_per_token)):
        for name, keep in ((origin, 4), (f"{origin},keep=2", 2)):
            row = CASES[name].row
            yield "filter missing", name, replace(row, credit=terminal)
            for wrong in (padded, zeroed, above_bar):
                yield wrong.__name__, name, replace(row, credit=partial(wrong, score=score, keep=keep))
            for by in (brevity, reward_per_token, verbosity, reward_alone):
                if by is not score:
                    yield f"kept by {by.__name__}", name, replace(row, credit=partial(keep_best, score=by, keep=keep))
            yield "one more kept", name, replace(row, credit=partial(keep_best, score=score, keep=keep + 1))
            yield "one less kept", name, replace(row, credit=partial(keep_best, score=score, keep=keep - 1))
        row = CASES[f"{origin},keep=2"].row
        yield "deviation missing", f"{origin},keep=2", replace(row, advantage=mean_centred)
        yield "unfiltered claimed", f"{origin},keep=2", replace(row, target=CASES["dapo"].row.target)
        yield (
            "the other neutrality claimed",
            f"{origin},keep=2",
            replace(row, noise=Noise.STILL if row.noise is Noise.MOVES else Noise.MOVES),
        )
        yield "ratio missing", f"{origin},keep=2", replace(row, ratio=no_ratio)
    efficient = CASES["gfpo,by=efficiency,keep=2"].row
    yield "a baseline claimed", "gfpo,by=efficiency,keep=2", replace(efficient, baseline=Baseline.GROUP)


def past_added(rollouts: Rollouts, advantage: Advantage) -> Tensor:
    assert rollouts.baseline is not None
    return past_centred(replace(rollouts, baseline=-rollouts.baseline), advantage)


def past_of_group(rollouts: Rollouts, advantage: Advantage) -> Tensor:
    """One role taken for all."""
    assert rollouts.baseline is not None
    return past_centred(replace(rollouts, baseline=rollouts.baseline[:, :1].expand_as(rollouts.rewards)), advantage)


def updated_first(rollouts: Rollouts, advantage: Advantage) -> Tensor:
    """The mean takes the reward in before it is taken off."""
    assert rollouts.baseline is not None
    return past_centred(replace(rollouts, baseline=0.95 * rollouts.baseline + 0.05 * rollouts.rewards), advantage)


def past_mutants() -> Iterator[tuple[str, str, Objective]]:
    row = CASES["rae"].row
    yield "baseline missing", "rae", replace(row, credit=terminal)
    for wrong in (past_added, past_of_group, updated_first):
        yield wrong.__name__, "rae", replace(row, credit=wrong)
    yield "centred too", "rae", replace(row, advantage=mean_centred)
    yield "baseline of the group claimed", "rae", replace(row, baseline=Baseline.GROUP)
    yield "raw singleton claimed", "rae", replace(row, singleton=Singleton.RAW)
    yield "ratio missing", "rae", replace(row, ratio=no_ratio)
    yield "half the gradient claimed", "rae", replace(row, target=CASES["reinforce_centred"].row.target)


def value_mutants() -> Iterator[tuple[str, str, Objective]]:
    name = "a_star_po,beta=0.7,temperature=0.1"
    row = CASES[name].row
    for what, penalty in {"missing": None, "of tokens": k2, "centred": centred_k1}.items():
        yield f"penalty {what}", name, replace(row, penalty=penalty)
    yield "penalty pushes away", name, replace(row, penalty=lambda tokens: -k1_in_return(tokens))
    yield "half the penalty", name, replace(row, penalty_weight=0.35)
    yield "value missing", name, replace(row, credit=terminal)
    yield "value added", name, replace(row, credit=baseline_added)
    yield "centred too", name, replace(row, advantage=mean_centred)
    yield "no baseline claimed", name, replace(row, baseline=Baseline.GROUP)
    yield "raw singleton claimed", name, replace(row, singleton=Singleton.RAW)
    yield "a clip", name, replace(row, ratio=partial(ppo_clip, low=0.2, high=0.2))


def baseline_added(rollouts: Rollouts, advantage: Advantage) -> Tensor:
    assert rollouts.baseline is not None
    return past_centred(replace(rollouts, baseline=-rollouts.baseline), advantage)


def greedy_added(rollouts: Rollouts, advantage: Advantage) -> Tensor:
    assert rollouts.greedy is not None
    return greedy_centred(replace(rollouts, greedy=-rollouts.greedy), advantage)


def greedy_of_the_step(rollouts: Rollouts, advantage: Advantage) -> Tensor:
    """One greedy answer taken for all tasks."""
    assert rollouts.greedy is not None
    return greedy_centred(replace(rollouts, greedy=rollouts.greedy[:1].expand_as(rollouts.rewards)), advantage)


def above_greedy(rollouts: Rollouts, advantage: Advantage) -> Tensor:
    return greedy_centred(rollouts, advantage).clamp(min=0)


def greedy_mutants() -> Iterator[tuple[str, str, Objective]]:
    row = CASES["remax"].row
    yield "baseline missing", "remax", replace(row, credit=terminal)
    for wrong in (greedy_added, greedy_of_the_step, above_greedy, past_centred):
        yield wrong.__name__, "remax", replace(row, credit=wrong)
    yield "centred too", "remax", replace(row, advantage=mean_centred)
    yield "no baseline claimed", "remax", replace(row, baseline=Baseline.NONE)
    yield "raw singleton claimed", "remax", replace(row, singleton=Singleton.RAW)
    yield "a clip", "remax", replace(row, ratio=partial(ppo_clip, low=0.2, high=0.2))
    yield "half the gradient claimed", "remax", replace(row, target=CASES["reinforce_centred"].row.target)


def shown(tokens: Tokens, weight: Tensor) -> Tensor:
    """LUFFY, with that weight on the tokens of demonstrations."""
    assert tokens.demonstrated is not None
    return torch.where(tokens.demonstrated, weight, ppo_clip(tokens, low=0.2, high=0.2))


def all_shaped(tokens: Tokens) -> Tensor:
    return clipped_or_shaped(replace(tokens, demonstrated=torch.ones_like(tokens.logp).bool()), **SHAPED)


def none_shaped(tokens: Tokens) -> Tensor:
    return clipped_or_shaped(replace(tokens, demonstrated=None), **SHAPED)


def others_shaped(tokens: Tokens) -> Tensor:
    assert tokens.demonstrated is not None
    return clipped_or_shaped(replace(tokens, demonstrated=~tokens.demonstrated), **SHAPED)


def of_ratio(tokens: Tokens) -> Tensor:
    """The ratio to the proximal policy shaped, where the probability stood."""
    ratio = tokens.log_ratio.exp()
    return shown(tokens, 0.1 * ratio / (ratio + 0.1).square())


def shape_itself(tokens: Tokens) -> Tensor:
    return shown(tokens, tokens.logp.exp() / (tokens.logp.exp() + 0.1))


def of_behavior(tokens: Tokens) -> Tensor:
    chance = tokens.behavior_logp.exp()
    return shown(tokens, 0.1 * chance / (chance + 0.1).square())


def likelihood(tokens: Tokens) -> Tensor:
    return shown(tokens, torch.ones_like(tokens.logp))


def unshaped(tokens: Tokens) -> Tensor:
    return shown(tokens, tokens.logp.exp())


def shape_of_answer(tokens: Tokens) -> Tensor:
    chance = tokens.per_sequence(tokens.logp).exp()
    return shown(tokens, 0.1 * chance / (chance + 0.1).square())


def of_sampled(rollouts: Rollouts, advantage: Advantage) -> Tensor:
    """Sampled rollouts compared with each other alone."""
    assert rollouts.demonstrated is not None
    return keep_best(rollouts, advantage, score=lambda seen: -seen.demonstrated.to(seen.rewards.dtype), keep=1)


SHAPED = {"low": 0.2, "high": 0.2, "gamma": 0.1}


def demonstration_mutants() -> Iterator[tuple[str, str, Objective]]:
    yield from released_mutants()
    row = CASES["luffy_paper"].row
    wrong = (all_shaped, none_shaped, others_shaped, of_ratio, shape_itself, of_behavior, likelihood, unshaped)
    for ratio in (*wrong, shape_of_answer, no_ratio):
        yield f"ratio {ratio.__name__}", "luffy_paper", replace(row, ratio=ratio)
    yield "another gamma", "luffy_paper", replace(row, ratio=partial(clipped_or_shaped, low=0.2, high=0.2, gamma=0.2))
    lopsided = CASES["luffy_paper,clip_low=0.1,clip_high=0.3"].row
    swapped = partial(clipped_or_shaped, low=0.3, high=0.1, gamma=0.1)
    yield "clip sides swapped", "luffy_paper,clip_low=0.1,clip_high=0.3", replace(lopsided, ratio=swapped)
    yield "groups of the sampled alone", "luffy_paper", replace(row, credit=of_sampled)
    yield "deviation missing", "luffy_paper", replace(row, advantage=mean_centred)
    yield "no demonstrations claimed", "luffy_paper", replace(row, target=CASES["dapo"].row.target)
    yield "another shape claimed", "luffy_paper", replace(row, target=CASES["luffy_paper,gamma=0.3"].row.target)
    yield "whole answers claimed", "luffy_paper", replace(row, off_policy=OffPolicy.SEQUENCE)


def released_mutants() -> Iterator[tuple[str, str, Objective]]:
    row, paper = CASES["luffy"].row, CASES["luffy_paper"].row
    for ratio in (all_shaped, none_shaped, others_shaped, of_ratio, shape_itself, of_behavior, likelihood, no_ratio):
        yield f"ratio {ratio.__name__}", "luffy", replace(row, ratio=ratio)
    yield "a clip", "luffy", replace(row, ratio=paper.ratio)
    yield "another gamma", "luffy", replace(row, ratio=partial(unclipped_or_shaped, gamma=0.2))
    yield "groups of the sampled alone", "luffy", replace(row, credit=of_sampled)
    yield "deviation added", "luffy", replace(row, advantage=paper.advantage)
    yield "leave-one-out", "luffy", replace(row, advantage=leave_one_out)
    yield "the paper's claimed", "luffy", replace(row, target=paper.target)
    yield "no demonstrations claimed", "luffy", replace(row, target=CASES["dr_grpo"].row.target)
    yield "another shape claimed", "luffy", replace(row, target=CASES["luffy,gamma=0.3"].row.target)
    yield "whole answers claimed", "luffy", replace(row, off_policy=OffPolicy.SEQUENCE)
