"""Mutants of the rows that learn from pairs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

import torch
from objective_cases import CASES
from ratio_mutants import other_sign, turned
from torch import Tensor

from gnomon.objectives import (
    Baseline,
    Noise,
    Objective,
    OffPolicy,
    Penalty,
    Ratio,
    Rewards,
    Singleton,
    Tokens,
    best_against_worst,
    hinge_pairs,
    k1_in_return,
    logistic_pairs,
    mean_centred,
    mean_logistic_pairs,
    no_ratio,
    odds_pairs,
    odds_pairs_by_token,
    prospect,
    raw,
    reference_likelihood,
    squared_pairs,
    unanchored_pairs,
    unclipped,
)

NAMES = (
    "online_dpo",
    "online_dpo,loss=squared",
    "online_dpo,loss=hinge",
    "online_simpo",
    "online_cpo",
    "online_orpo",
    "xpo",
)
BY_ANSWER = "online_orpo,weight=0.7,likelihood=answer"
EXPLORING = "xpo,beta=0.7,alpha=0.3"
STEEP = "online_dpo,loss=hinge,beta=0.7"
"""With the β of the default hardly a margin is ever wide enough to end the pull."""


# Which rollouts are paired.


def signs_alone(rewards: Tensor) -> Tensor:
    """Every pair in full, however many share the best or the worst."""
    return best_against_worst(rewards).sign()


def first_of_equals(rewards: Tensor) -> Tensor:
    best, worst = rewards.argmax(dim=1, keepdim=True), rewards.argmin(dim=1, keepdim=True)
    found = torch.zeros_like(rewards).scatter_add(1, best, torch.ones_like(rewards[:, :1]))
    return found.scatter_add(1, worst, -torch.ones_like(rewards[:, :1]))


def ties_paired(rewards: Tensor) -> Tensor:
    """The first against the last where all are equal."""
    found = best_against_worst(rewards)
    tied = (rewards == rewards[:, :1]).all(dim=1)
    found[tied, 0] += 1
    found[tied, -1] -= 1
    return found


def above_and_below(rewards: Tensor) -> Tensor:
    """All above the mean against all below it."""
    apart = mean_centred(rewards)
    up, down = (apart > 0).to(rewards.dtype), (apart < 0).to(rewards.dtype)
    return up / up.sum(1, keepdim=True).clamp(min=1) - down / down.sum(1, keepdim=True).clamp(min=1)


def worst_wins(rewards: Tensor) -> Tensor:
    return best_against_worst(-rewards)


CHOICES = (signs_alone, first_of_equals, ties_paired, above_and_below, worst_wins, mean_centred, raw)


# What a pair is told apart by.


def unpaired(tokens: Tokens) -> Tokens:
    """Every rollout in a group of its own."""
    return replace(tokens, group=tokens.sequence)


def one_group(tokens: Tokens) -> Tokens:
    """Rollouts of all groups against each other."""
    return replace(tokens, group=torch.zeros_like(tokens.group))


def as_it_began(tokens: Tokens) -> Tokens:
    return replace(tokens, logp=tokens.logp - tokens.log_ratio)


def no_reference(tokens: Tokens) -> Tokens:
    return replace(tokens, reference_logp=torch.zeros_like(tokens.logp))


def behavior_for_reference(tokens: Tokens) -> Tokens:
    return replace(tokens, reference_logp=tokens.behavior_logp)


def per_token(tokens: Tokens) -> Tokens:
    """The mean log-ratio for the sum."""
    return replace(no_reference(tokens), logp=tokens.log_divergence / tokens.lengths)


def empty_left_out(tokens: Tokens, *, ratio: Ratio) -> Tensor:
    """Pairs with a rollout that has no tokens are forgotten."""
    alone = tokens.group[:, None] == tokens.group
    opposed = (alone & (tokens.advantage[:, None] * tokens.advantage < 0)).any(dim=1)
    return torch.where(opposed, ratio(tokens), torch.zeros_like(tokens.logp))


VIEWS: dict[str, Callable[[Tokens], Tokens]] = {
    "without an opponent": unpaired,
    "against all of the micro-batch": one_group,
    "as the step began": as_it_began,
    "without a reference": no_reference,
    "behavior for reference": behavior_for_reference,
    "per token": per_token,
    "turned": turned,
    "worse for better": other_sign,
}


def flat_pull(tokens: Tokens) -> Tensor:
    return torch.full_like(tokens.logp, 0.05)


def halved(tokens: Tokens) -> Tensor:
    return squared_pairs(tokens, beta=0.1) / 2


def half_the_target(tokens: Tokens) -> Tensor:
    return squared_pairs(tokens, beta=0.2)


def margin_of_one(tokens: Tokens) -> Tensor:
    """The gap itself compared with one."""
    return 0.7 * hinge_pairs(tokens, beta=1.0)


def doubled_length(tokens: Tokens) -> Tensor:
    return mean_logistic_pairs(tokens, beta=2.0, margin=1.0) * tokens.lengths


def without_centre(tokens: Tokens) -> Tensor:
    apart = 0.1 * tokens.per_sequence(tokens.log_divergence)
    return 4 * apart.sigmoid() * (-apart).sigmoid()


def centre_of_group(tokens: Tokens) -> Tensor:
    parts = torch.zeros_like(tokens.logp)
    for group in tokens.group.unique():
        here = tokens.group == group
        names = ("logp", "behavior_logp", "advantage", "sequence", "group", "reference_logp")
        parts[here] = prospect(Tokens(**{name: getattr(tokens, name)[here] for name in names}), beta=0.1)
    return parts


def centre_below_zero(tokens: Tokens) -> Tensor:
    whole = tokens.per_sequence(tokens.log_divergence)
    there = torch.stack([whole[tokens.sequence == number][0] for number in tokens.sequence.unique()])
    apart = 0.1 * (whole - there.mean())
    return 4 * apart.sigmoid() * (-apart).sigmoid()


def prospect_mutants() -> Iterator[tuple[str, str, Objective]]:
    row, other = CASES["online_kto"].row, CASES["online_kto,beta=0.7,success=0.5,failure=2.0"].row.target
    for wrong in (without_centre, centre_of_group, centre_below_zero, no_ratio, flat_pull):
        yield wrong.__name__, "online_kto", replace(row, ratio=wrong)
    yield "another β", "online_kto", replace(row, ratio=partial(prospect, beta=0.2))
    for what, view in VIEWS.items():
        if what not in ("without an opponent", "against all of the micro-batch", "worse for better"):
            yield f"value {what}", "online_kto", replace(row, ratio=partial(_seen_as, view=view, ratio=row.ratio))
    yield "successes alone", "online_kto", replace(row, advantage=raw)
    yield "raw singleton claimed", "online_kto", replace(row, singleton=Singleton.RAW)
    yield "real rewards claimed", "online_kto", replace(row, rewards=Rewards.REAL)
    yield (
        "half the gradient claimed",
        "online_kto",
        replace(row, target=other),
    )


RATIOS: dict[str, dict[str, Ratio]] = {
    "online_dpo": {
        "no margin": flat_pull,
        "another β": partial(logistic_pairs, beta=0.2),
        "β inside alone": lambda tokens: logistic_pairs(tokens, beta=0.1) / 0.1,
        "hinge": partial(hinge_pairs, beta=0.1),
        "squared": partial(squared_pairs, beta=0.1),
    },
    "online_dpo,loss=squared": {
        "halved": halved,
        "another target": half_the_target,
        "never too far apart": lambda tokens: squared_pairs(tokens, beta=0.1).clamp(min=0),
    },
    "online_dpo,loss=hinge": {
        "logistic": partial(logistic_pairs, beta=0.1),
        "never done": partial(hinge_pairs, beta=1e-9),
    },
    STEEP: {"margin of the gap": margin_of_one, "never done": lambda tokens: 0.7 * torch.ones_like(tokens.logp)},
    "online_cpo": {
        "no likelihood": partial(unanchored_pairs, beta=0.1, alpha=0.0),
        "another β": partial(unanchored_pairs, beta=0.2, alpha=1.0),
        "likelihood of both": lambda tokens: unanchored_pairs(tokens, beta=0.1, alpha=0.0) + 1,
        "with a reference": lambda tokens: logistic_pairs(tokens, beta=0.1) + (tokens.advantage > 0),
    },
    "online_orpo": {
        "another λ": partial(odds_pairs_by_token, weight=0.2),
        "likelihood alone": lambda tokens: odds_pairs_by_token(tokens, weight=0.0),
        "log-likelihoods for log-odds": lambda tokens: (
            0.1 * mean_logistic_pairs(tokens, beta=1.0, margin=0.0) + odds_pairs_by_token(tokens, weight=0.0)
        ),
        "sum for mean": lambda tokens: odds_pairs_by_token(tokens, weight=0.1) * tokens.lengths,
        "mean over each answer": partial(odds_pairs, weight=0.1),
        "mean over all answers": lambda tokens: odds_pairs_by_token(
            replace(tokens, advantage=tokens.advantage.abs()), weight=0.1
        ),
    },
    BY_ANSWER: {
        "another λ": partial(odds_pairs, weight=0.2),
        "likelihood alone": lambda tokens: (tokens.advantage > 0) / tokens.lengths,
        "sum for mean": lambda tokens: odds_pairs(tokens, weight=0.7) * tokens.lengths,
        "mean over all tokens": partial(odds_pairs_by_token, weight=0.7),
    },
    "online_simpo": {
        "no margin to keep": partial(mean_logistic_pairs, beta=2.0, margin=0.0),
        "margin the other way": partial(mean_logistic_pairs, beta=2.0, margin=-1.0),
        "sum for mean": doubled_length,
        "of sums": partial(logistic_pairs, beta=2.0),
        "another β": partial(mean_logistic_pairs, beta=1.0, margin=1.0),
    },
}


# What draws away from the reference.


def unweighted(tokens: Tokens) -> Tensor:
    return reference_likelihood(replace(tokens, behavior_logp=tokens.logp - tokens.log_divergence))


def weighted_by_token(tokens: Tokens) -> Tensor:
    rollouts = torch.stack([tokens.group, tokens.sequence]).unique(dim=1)[0]
    weight = (tokens.logp - tokens.log_divergence - tokens.behavior_logp).exp()
    return -weight / torch.bincount(rollouts)[tokens.group]


PENALTIES: dict[str, Penalty | None] = {
    "missing": None,
    "towards the reference": lambda tokens: -reference_likelihood(tokens),
    "unweighted": unweighted,
    "weighted by token": weighted_by_token,
    "weighted by the policy": lambda tokens: reference_likelihood(replace(tokens, behavior_logp=tokens.logp)),
    "inverted": lambda tokens: reference_likelihood(turned(tokens)),
    "of all groups": lambda tokens: reference_likelihood(one_group(tokens)),
    "not divided": lambda tokens: reference_likelihood(unpaired(tokens)),
    "a divergence": k1_in_return,
}


def preference_mutants() -> Iterator[tuple[str, str, Objective]]:
    """What is wrong, of which case, and the row."""
    for name in NAMES:
        row = CASES[name].row
        for choice in CHOICES:
            yield f"pairs: {choice.__name__}", name, replace(row, advantage=choice)
        yield "ratio missing", name, replace(row, ratio=no_ratio)
        yield "importance ratio", name, replace(row, ratio=unclipped)
        yield "no baseline claimed", name, replace(row, baseline=Baseline.NONE)
        yield "raw singleton claimed", name, replace(row, singleton=Singleton.RAW)
        yield "groups of one said to move it", name, replace(row, min_group=1)
        yield "counts claimed", name, replace(row, rewards=Rewards.BINARY)
        yield "token ratio claimed", name, replace(row, off_policy=OffPolicy.TOKEN)
        yield "a correction claimed", name, replace(row, mismatch=OffPolicy.TOKEN)
        for noise in Noise:
            if noise is not row.noise:
                yield f"{noise.name} under noise claimed", name, replace(row, noise=noise)
    for name in ("online_dpo", "online_dpo,loss=squared", STEEP, "online_simpo", "xpo"):
        row = CASES[name].row
        for what, view in VIEWS.items():
            if name != "online_simpo" or ("reference" not in what and what != "per token"):
                yield f"margin {what}", name, replace(row, ratio=partial(_seen_as, view=view, ratio=row.ratio))
        yield "empty rollouts left out", name, replace(row, ratio=partial(empty_left_out, ratio=row.ratio))
    for name in ("online_cpo", "online_orpo"):
        row = CASES[name].row
        for view in (unpaired, one_group, as_it_began):
            yield f"margin {view.__name__}", name, replace(row, ratio=partial(_seen_as, view=view, ratio=row.ratio))
    yield from prospect_mutants()
    for name in ("online_dpo,loss=squared", "online_dpo,loss=hinge", "online_simpo", "online_cpo", "online_orpo"):
        other = CASES["online_dpo"].row.target
        yield "the target of another claimed", name, replace(CASES[name].row, target=other)
    for name, ratios in RATIOS.items():
        for what, changed_ratio in ratios.items():
            yield f"ratio: {what}", name, replace(CASES[name].row, ratio=changed_ratio)
    for what, penalty in PENALTIES.items():
        yield f"penalty: {what}", EXPLORING, replace(CASES[EXPLORING].row, penalty=penalty)


def _seen_as(tokens: Tokens, *, view: Callable[[Tokens], Tokens], ratio: Ratio) -> Tensor:
    return ratio(view(tokens))
