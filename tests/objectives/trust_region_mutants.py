"""Mutants of the rows that differ in their trust region."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

import torch
from objective_cases import CASES
from ratio_mutants import centred, other_sign, turned, whole_group
from torch import Tensor

from gnomon.objectives import (
    Advantage,
    Credit,
    Objective,
    OffPolicy,
    Penalty,
    PolicyGradient,
    Ratio,
    Rollouts,
    Tokens,
    balanced_clip,
    blended_over_visits,
    capped_drift,
    centred_k1,
    clip_by_likelihood,
    clip_mask,
    covariance_clip,
    divergence_clip,
    drift_of_share,
    dual_clip,
    future_weighted_clip,
    geometric_clip,
    group_expectation_clip,
    held_clip,
    inverted_for_gains,
    k1_in_return,
    k2,
    kernel_of_sequence,
    mean_centred,
    no_ratio,
    ppo_clip,
    probability_clip,
    probability_mask,
    raw,
    second_moment_mask,
    sequence_mean,
    sequence_ratio,
    share_of_labels,
    target_less_share,
    terminal,
    unclipped,
    without_drifted_failures,
)

SIGNED = (
    "aspo",
    "bapo",
    "clip_cov",
    "cpgd",
    "dcpo",
    "dppo,by=divergence,clip_low=0.05,clip_high=0.05",
    "fipo",
    "gepo",
    "gppo",
    "luspo",
    "mini_rl",
    "opsm",
    "vespo",
)
RATIOS = (*SIGNED, "m2po", "prime_ipo", "real")
FUTURE = {"low": 0.2, "high": 0.28, "half_life": 32.0, "most": 1.2}
KERNEL = {"gain_power": 2.0, "gain_decay": 3.0, "loss_power": 3.0, "loss_decay": 2.0}


def capped_by_none(tokens: Tokens) -> Tensor:
    return capped_drift(tokens, cap=math.inf)


def around_behavior(tokens: Tokens) -> Tokens:
    return replace(tokens, proximal_logp=None)


def either_way(tokens: Tokens) -> Tensor:
    """Failures and successes alike."""
    drift = tokens.per_sequence(tokens.behavior_logp - tokens.logp) / tokens.lengths
    return torch.where(drift > 0.5, 0.0, 1.0) * ppo_clip(tokens, low=0.2, high=0.2)


def by_own_likelihood(tokens: Tokens) -> Tensor:
    """GSPO: the sampler's own likelihood of the rollout for the group's."""
    return geometric_clip(around_behavior(tokens), low=0.2, high=0.2)


def by_mean_likelihood(tokens: Tokens) -> Tensor:
    """The plain mean over the group."""
    theirs = (tokens.per_sequence(tokens.behavior_logp) / tokens.lengths).exp()
    mean = tokens.per_group(theirs) / tokens.per_group(torch.ones_like(theirs))
    weight = (tokens.per_sequence(tokens.logp) / tokens.lengths).exp() / mean
    spent = ((tokens.advantage > 0) & (weight > 1.2)) | ((tokens.advantage < 0) & (weight < 0.8))
    return torch.where(spent, 0.0, weight)


def without_the_one(tokens: Tokens) -> Tensor:
    share = share_of_labels(tokens, temperature=1.0)
    return share / (1 - share).clamp(min=1e-3)


def of_both_sides(tokens: Tokens) -> Tensor:
    mean = tokens.per_sequence(tokens.log_ratio) / tokens.lengths
    weight = torch.where(tokens.advantage > 0, -mean, mean).clamp(-80, 80).exp()
    return weight / (1 + tokens.per_group(weight))


MUTANTS: dict[str, dict[str, Ratio]] = {
    "aspo": {
        "not turned over": partial(ppo_clip, low=0.2, high=0.2),
        "without a cap": partial(inverted_for_gains, low=0.2, high=0.2, cap=math.inf),
        "not clipped": partial(inverted_for_gains, low=math.inf, high=math.inf, cap=3.0),
    },
    "aspo,clip_low=0.1,clip_high=0.3,cap=1.7": {
        "clip sides swapped": partial(inverted_for_gains, low=0.3, high=0.1, cap=1.7)
    },
    "bapo": {
        "first band": partial(dual_clip, low=0.4, high=0.2, ceiling=3.0),
        "last band": partial(dual_clip, low=0.2, high=1.0, ceiling=3.0),
        "top first": partial(balanced_clip, floor=0.6, floor_end=0.6, top=1.2, top_end=2.0, stride=0.05, ceiling=3.0),
        "one clip": partial(
            balanced_clip, floor=0.6, floor_end=0.8, top=1.2, top_end=2.0, stride=0.05, ceiling=math.inf
        ),
    },
    "clip_cov": {
        "nothing lost": partial(ppo_clip, low=0.2, high=0.2),
        "all of the band lost": partial(covariance_clip, low=0.2, high=0.2, share=1.0, least=1.0, most=5.0),
        "a lower band": partial(covariance_clip, low=0.2, high=0.2, share=2e-4, least=0.2, most=5.0),
        "of the sampler": lambda tokens: covariance_clip(
            replace(tokens, logp=tokens.behavior_logp, proximal_logp=tokens.behavior_logp - tokens.log_ratio),
            low=0.2,
            high=0.2,
            share=2e-4,
            least=1.0,
            most=5.0,
        ),
    },
    "clip_cov,share=0.3,least=0.2,most=1.0": {
        "no upper end": partial(covariance_clip, low=0.2, high=0.2, share=0.3, least=0.2, most=math.inf),
        "one token": partial(covariance_clip, low=0.2, high=0.2, share=2e-4, least=0.2, most=1.0),
    },
    "cpgd": {"with the ratio": partial(ppo_clip, low=0.2, high=0.2)},
    "dppo,by=divergence,clip_low=0.05,clip_high=0.05": {
        "by difference": partial(probability_clip, low=0.05, high=0.05, cap=20.0),
        "without a cap": partial(divergence_clip, low=0.05, high=0.05, cap=math.inf),
        "not clipped": partial(divergence_clip, low=math.inf, high=math.inf, cap=20.0),
        "around the proximal policy": lambda tokens: divergence_clip(centred(tokens), low=0.05, high=0.05, cap=20.0),
    },
    "dppo,by=divergence,clip_low=0.01,clip_high=0.3,cap=1.2": {
        "clip sides swapped": partial(divergence_clip, low=0.3, high=0.01, cap=1.2)
    },
    "gepo": {
        "its own": by_own_likelihood,
        "the plain mean": by_mean_likelihood,
        "a clip": partial(ppo_clip, low=0.2, high=0.2),
    },
    "dcpo": {
        "one band for all": partial(ppo_clip, low=0.2, high=0.28),
        "without a ceiling": partial(clip_by_likelihood, low=0.2, high=0.28, ceiling=math.inf),
        "clip sides swapped": partial(clip_by_likelihood, low=0.28, high=0.2, ceiling=10.0),
        "by the probability now": lambda tokens: clip_by_likelihood(
            replace(tokens, proximal_logp=tokens.logp), low=0.2, high=0.28, ceiling=10.0
        ),
    },
    "m2po": {
        "nothing masked": unclipped,
        "another limit": partial(second_moment_mask, limit=0.08),
        "of each group": lambda tokens: torch.stack(
            [
                second_moment_mask(
                    replace(tokens, behavior_logp=torch.where(tokens.group == g, tokens.behavior_logp, tokens.logp)),
                    limit=0.04,
                )
                for g in range(int(tokens.group.max()) + 1 if len(tokens) else 1)
            ]
        ).amin(0),
        "a clip": partial(ppo_clip, low=0.2, high=0.28),
        "around the proximal policy": lambda tokens: second_moment_mask(centred(tokens), limit=0.04),
        "ratio to the proximal policy": lambda tokens: unclipped(tokens) * (second_moment_mask(tokens, limit=0.04) > 0),
    },
    "fipo": {
        "the past": lambda tokens: future_weighted_clip(
            replace(tokens, position=tokens.lengths - 1 - tokens.positions), **FUTURE
        ),
        "of the group": lambda tokens: future_weighted_clip(
            replace(tokens, sequence=tokens.group, position=None), **FUTURE
        ),
        "every token alike": partial(ppo_clip, low=0.2, high=0.28),
        "another half-life": partial(future_weighted_clip, **FUTURE | {"half_life": 2.0}),
        "without a ceiling": partial(future_weighted_clip, **FUTURE | {"most": math.inf}),
        "no clip": partial(future_weighted_clip, **FUTURE | {"low": math.inf, "high": math.inf}),
    },
    "gppo": {
        "clipped to nothing": partial(ppo_clip, low=0.2, high=0.28),
        "without a ceiling": partial(held_clip, low=0.2, high=0.28, ceiling=math.inf),
        "clip symmetric": partial(held_clip, low=0.2, high=0.2, ceiling=3.0),
    },
    "luspo": {
        "product without a root": sequence_ratio,
        "clip sides swapped": partial(geometric_clip, low=2.5e-3, high=2e-3),
    },
    "mini_rl": {"clip symmetric": partial(ppo_clip, low=0.2, high=0.2)},
    "opsm": {
        "nothing masked": partial(ppo_clip, low=0.2, high=0.2),
        "successes too": either_way,
        "around the proximal policy": lambda tokens: without_drifted_failures(
            centred(tokens), low=0.2, high=0.2, limit=0.5
        ),
    },
    "prime_ipo": {
        "one-sided": partial(probability_clip, low=0.1, high=0.1, cap=math.inf),
        "not masked": lambda tokens: unclipped(around_behavior(tokens)),
        "around the proximal policy": lambda tokens: probability_mask(centred(tokens), width=0.1),
    },
    "real": {
        "without the one": without_the_one,
        "both sides as one": of_both_sides,
        "of the product": lambda tokens: share_of_labels(
            replace(tokens, length=torch.ones_like(tokens.group)), temperature=1.0
        ),
        "another temperature": partial(share_of_labels, temperature=0.5),
    },
    "vespo": {
        "kernels swapped": lambda tokens: kernel_of_sequence(other_sign(tokens), **KERNEL),
        "the plain ratio": sequence_ratio,
        "of the group": lambda tokens: kernel_of_sequence(whole_group(tokens), **KERNEL),
        "around the proximal policy": lambda tokens: kernel_of_sequence(centred(tokens), **KERNEL),
    },
}

PENALTIES: dict[str, dict[str, Penalty | None]] = {
    "cpgd": {
        "missing": None,
        "pushes away": lambda tokens: -capped_drift(tokens, cap=5.0),
        "without a cap": partial(capped_drift, cap=math.inf),
        "from the sampler": lambda tokens: capped_drift(around_behavior(tokens), cap=5.0),
    },
    "tpo": {
        "missing": None,
        "pushes away": lambda tokens: -drift_of_share(tokens),
        "from the sampler": lambda tokens: drift_of_share(around_behavior(tokens)),
        "of the step": lambda tokens: drift_of_share(replace(tokens, group=torch.zeros_like(tokens.group))),
        "per token": capped_by_none,
    },
    "tba": {
        "missing": None,
        "not centred": k1_in_return,
        "of tokens": k2,
        "pushes away": lambda tokens: -centred_k1(tokens),
        "of the step": lambda tokens: centred_k1(replace(tokens, group=torch.zeros_like(tokens.group))),
    },
}


def trust_region_mutants() -> Iterator[tuple[str, str, Objective]]:
    """What is wrong, of which case, and the row."""
    for name, found in MUTANTS.items():
        for what, ratio in found.items():
            yield f"ratio: {what}", name, replace(CASES[name].row, ratio=ratio)
    for name, pulls in PENALTIES.items():
        for what, penalty in pulls.items():
            yield f"penalty: {what}", name, replace(CASES[name].row, penalty=penalty)
    for name in RATIOS:
        row = CASES[name].row
        ratio = row.ratio
        yield "ratio missing", name, replace(row, ratio=no_ratio)
        yield "ratio inverted", name, replace(row, ratio=lambda tokens, ratio=ratio: ratio(turned(tokens)))
        if name in SIGNED:
            yield "sign of A mistaken", name, replace(row, ratio=lambda tokens, ratio=ratio: ratio(other_sign(tokens)))
        for kind in OffPolicy:
            if kind is not row.off_policy and {kind, row.off_policy} != {OffPolicy.TOKEN, OffPolicy.SOFT}:
                yield f"{kind} claimed", name, replace(row, off_policy=kind)
            if kind is not row.mismatch and {kind, row.mismatch} != {OffPolicy.TOKEN, OffPolicy.SOFT}:
                yield f"{kind} claimed of the sampler", name, replace(row, mismatch=kind)
    for name in (
        "aspo",
        "cpgd",
        "dppo,by=divergence,clip_low=0.05,clip_high=0.05",
        "opsm",
        "prime_ipo",
        "tba",
        "vespo",
    ):
        yield "baseline missing", name, replace(CASES[name].row, advantage=raw)
    for name in ("dcpo", "fipo", "gepo", "gppo", "luspo", "m2po"):
        yield "deviation missing", name, replace(CASES[name].row, advantage=mean_centred)
    for name in ("gepo", "luspo", "real", "vespo"):
        yield "∇p claimed", name, replace(CASES[name].row, target=PolicyGradient(weight=lambda *_: 1.0, text="∇p"))
    dcpo = CASES["dcpo"].row
    blends: dict[str, Credit] = {
        "visits forgotten": terminal,
        "a visit more than there were": at_visits(dcpo, lambda past: past + torch.tensor([1.0, 0.0, 0.0])),
        "another mean of the visits": at_visits(dcpo, lambda past: past + torch.tensor([0.0, 0.2, 0.0])),
        "deviation for variance": at_visits(dcpo, lambda past: past * past.new_tensor([1, 1, 0]) + deviations(past)),
        "epsilon left out": partial(blended_over_visits, epsilon=0.1),
        "blended the wrong way": lambda seen, advantage: dcpo.credit(seen, lambda rewards: -advantage(rewards)),
    }
    for what, credit in blends.items():
        yield what, "dcpo", replace(dcpo, credit=credit)
    tpo = CASES["tpo"].row
    for what, credit in {
        "another temperature": partial(target_less_share, temperature=0.5),
        "the scores alone": terminal,
        "the target alone": lambda seen, advantage: target_less_share(seen, advantage, temperature=1.0).clamp(min=0),
    }.items():
        yield what, "tpo", replace(tpo, credit=credit)
    yield "deviation missing", "tpo", replace(tpo, advantage=mean_centred)
    yield "mean over own tokens", "tpo", replace(tpo, aggregate=sequence_mean)
    yield "importance ratio", "tpo", replace(tpo, ratio=unclipped)
    yield "blind to the lag claimed", "tpo", replace(tpo, off_policy=OffPolicy.ON_POLICY)
    yield "mask of clip", "opsm", replace(CASES["opsm"].row, ratio=partial(clip_mask, low=0.2, high=0.2))
    yield (
        "clip of the group",
        "gepo",
        replace(CASES["gepo"].row, ratio=lambda tokens: group_expectation_clip(whole_group(tokens), low=0.2, high=0.2)),
    )


def at_visits(row: Objective, change: Callable[[Tensor], Tensor]) -> Credit:
    """The credit of a row with the earlier visits of tasks changed, where there are any."""

    def changed(rollouts: Rollouts, advantage: Advantage) -> Tensor:
        visits = rollouts.visits
        if visits is not None:
            visits = torch.where(visits[..., :1] > 0, change(visits).to(visits.dtype), visits)
        return row.credit(replace(rollouts, visits=visits), advantage)

    return changed


def deviations(visits: Tensor) -> Tensor:
    """The deviation in the place of the variance, zero elsewhere."""
    return visits.sqrt() * visits.new_tensor([0, 0, 1])
