"""What is said of the algorithms, on the rows that ship: by enumeration, nothing is sampled."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest
import torch
from torch import Tensor

from gnomon.objectives import (
    CountWeight,
    Denominators,
    Objective,
    Rollouts,
    Tokens,
    capped,
    count_advantage,
    dapo,
    dr_grpo,
    family_weight,
    gmpo,
    grpo,
    gspo,
    k2,
    kimi_k15,
    maxrl,
    maxrl_control,
    maxrl_released,
    maxrl_sub,
    mean_centred,
    objective,
    pass_at_all,
    pkpo,
    pkpo_loo,
    pkpo_marginal,
    raw,
    reinforce,
    reinforce_centred,
    reward_to_go,
    rl2ml,
    rloo,
    sequence_is,
    sequence_mis,
    sequence_sum,
    sequence_tis,
    tilted,
    tis,
    unclipped,
    w_reinforce,
)
from gnomon.theory.exact import declared_gradient, moments
from gnomon.theory.world import Outcomes, correct, outcomes, step_of, world

F64 = torch.float64
GROUPS = [2, 3, 4]


def expected(row: Objective, group: int, possible: Outcomes | None = None) -> Tensor:
    place = world()
    policy = place.logits()
    kinds = outcomes(place, policy, correct) if possible is None else possible
    return moments(row, place, policy=policy, behavior=policy, possible=kinds, group=group).mean


def scores() -> Tensor:
    place = world()
    return place.per_answer(place.scores(place.logits()))


def right() -> tuple[Tensor, float]:
    """∇p and p."""
    possible = outcomes(world(), world().logits(), correct)
    return (possible.chance * possible.reward) @ scores(), float(possible.chance @ possible.reward)


def close(found: Tensor, claim: Tensor, atol: float = 1e-12) -> bool:
    return torch.allclose(found, claim, rtol=0, atol=atol)


# Maximum likelihood.


@pytest.mark.parametrize("group", GROUPS)
def test_maxrl_as_released_is_of_order_n_minus_one(group: int) -> None:
    """It climbs what the direct estimator of order N−1 climbs, and not what that of order N does."""
    slope, p = right()
    found = expected(maxrl_released(epsilon=0.0), group)
    assert close(found, (1 - (1 - p) ** (group - 1)) / p * slope)
    assert close(found, expected(maxrl(), group - 1)) and not close(found, expected(maxrl(), group), 1e-3)
    assert close(expected(maxrl_released(), group), found, 1e-5)


@pytest.mark.parametrize("group", GROUPS)
def test_the_control_variate_keeps_order_n_and_scatters_less(group: int) -> None:
    place = world()
    policy = place.logits()
    possible = outcomes(place, policy, correct)
    direct, control = (
        moments(row, place, policy=policy, behavior=policy, possible=possible, group=group)
        for row in (maxrl(), maxrl_control())
    )
    assert close(direct.mean, control.mean) and control.variance < direct.variance


@pytest.mark.parametrize("group", GROUPS)
def test_dropping_groups_shortens_or_bends_the_climb(group: int) -> None:
    """Without the all-wrong groups (1−p)^{N−1} is missing from w; without the all-right ones nothing is."""
    slope, p = right()
    whole = expected(maxrl_control(), group)

    def without(count: int) -> Tensor:
        def weight(size: int) -> CountWeight:
            kept = family_weight(size, family="A", parameter=1.0, baseline=1.0)
            success = tuple(a * (k != count) for k, a in enumerate(kept.success))
            return CountWeight(success=success, failure=tuple(b * (k != count) for k, b in enumerate(kept.failure)))

        return expected(replace(maxrl(), advantage=partial(count_advantage, weight=weight)), group)

    assert close(without(0), whole - (1 - p) ** (group - 1) * slope)
    assert close(without(group), whole)


def test_maxrl_of_an_order_is_the_sum_of_pass_at_k_over_k() -> None:
    """∇ log p up to order T = Σ_{k≤T} ∇pass@k / k, all from groups of four."""
    total = sum((expected(pkpo(k), 4) / k for k in (1, 2, 3)), torch.zeros(21, dtype=F64))
    assert close(expected(maxrl_sub(3), 4), total)
    assert close(expected(maxrl_sub(4), 4), expected(maxrl(), 4)) and close(expected(maxrl_sub(1), 4), right()[0])


@pytest.mark.parametrize("family", ["A", "B", "C", "D"])
def test_rl2ml_holds_reinforce_and_maxrl(family: str) -> None:
    for baseline in (0.0, 1.0):
        assert close(expected(rl2ml(family, 0.0, baseline), 3), expected(reinforce(), 3))
        assert close(expected(rl2ml(family, 1.0, baseline), 3), expected(maxrl(), 3))
    halfway = expected(rl2ml(family, 0.5), 3).norm()
    assert expected(reinforce(), 3).norm() < halfway < expected(maxrl(), 3).norm()


# The best of several.


@pytest.mark.parametrize("k", [1, 2, 3])
def test_pass_at_k_rows_climb_pass_at_k(k: int) -> None:
    slope, p = right()
    truth = k * (1 - p) ** (k - 1) * slope
    rows = [pkpo(k), pkpo_loo(k), *([pkpo_marginal(k)] if k > 1 else [])]
    assert all(close(expected(row, 4), truth) for row in rows)
    assert close(expected(objective("pass_at_k_analytic", k=k, scale="none"), 4), (1 / k - 1 / 4) * truth)


def test_the_best_of_all_is_pass_at_n_over_n() -> None:
    for group in GROUPS:
        assert close(expected(pass_at_all(), group), expected(pkpo(group), group) / group)
        rewards = torch.tensor([[1.0, 0.3, 0.7, 1.0], [0.2, 0.9, 0.1, 0.0]], dtype=F64)[:, :group]
        assert close(pass_at_all().advantage(rewards) * group, pkpo_marginal(group).advantage(rewards))


# Standardising.


def test_grpo_in_pairs_is_leave_one_out_up_to_scale() -> None:
    """With the population deviation the scale is one; with the sample deviation it is √½."""
    plain = {"aggregate": sequence_sum}
    assert close(expected(replace(grpo(epsilon=0.0), **plain), 2), expected(rloo(), 2))
    sampled = expected(replace(grpo(epsilon=0.0, deviation="sample"), **plain), 2)
    assert close(sampled, math.sqrt(0.5) * expected(rloo(), 2))
    assert not close(expected(replace(grpo(epsilon=0.0), **plain), 3), expected(rloo(), 3), 1e-3)


@pytest.mark.parametrize("group", GROUPS)
def test_the_two_deviations_differ_by_a_factor(group: int) -> None:
    factor = math.sqrt((group - 1) / group)
    sampled = expected(grpo(epsilon=0.0, deviation="sample"), group)
    assert close(sampled, factor * expected(grpo(epsilon=0.0), group))
    assert close(expected(reinforce_centred(), group), (group - 1) / group * expected(rloo(), group))


@pytest.mark.parametrize("build", [gspo, gmpo, partial(objective, "sapo")])
def test_on_policy_these_are_grpo(build: Callable[[], Objective]) -> None:
    """So they have its share of length too."""
    assert torch.equal(expected(build(), 3), expected(grpo(), 3))


def test_the_mean_over_tokens_bends_less_the_larger_the_batch() -> None:
    truth = right()[0]

    def bend(group: int) -> float:
        return 1 - torch.nn.functional.cosine_similarity(expected(dapo(), group), truth, dim=0).item()

    assert 0 < bend(4) < bend(3) < bend(2) < 0.01 < 1 - 0.976493


# Samplers and masks.


@pytest.mark.parametrize("row", [rloo(), dr_grpo(), replace(grpo(), aggregate=sequence_sum)], ids=lambda row: row.name)
@pytest.mark.parametrize("group", [2, 3])
def test_dynamic_sampling_rescales_and_redirects_nothing(row: Objective, group: int) -> None:
    """Refilling until no group is all right or all wrong divides the gradient by the chance of being kept."""
    place = world()
    possible = outcomes(place, place.logits(), correct)
    members = torch.cartesian_prod(*[torch.arange(15)] * group)
    chance = possible.chance[members].prod(dim=1)
    count = possible.reward[members].sum(dim=1)
    kept = (count > 0) & (count < group)
    share = 1 / place.max_tokens if row.name == "dr_grpo" else 1.0
    gradient = (row.advantage(possible.reward[members])[:, :, None] * scores()[members]).mean(dim=1) * share
    refilled = (chance[kept] / chance[kept].sum()) @ gradient[kept]
    p = right()[1]
    assert float(chance[kept].sum()) == pytest.approx(1 - p**group - (1 - p) ** group)
    assert close(refilled, expected(row, group) / float(chance[kept].sum()))


def truncated_answers() -> Tensor:
    """Whether an answer was cut by the limit; such an answer is wrong."""
    return torch.tensor([not answer.endswith(".") for answer in world().answers])


def finishing(reward: float) -> Outcomes:
    place = world()
    possible = outcomes(place, place.logits(), correct)
    return replace(possible, reward=torch.where(truncated_answers(), torch.tensor(reward, dtype=F64), possible.reward))


def test_masking_truncated_answers_pushes_towards_them() -> None:
    """With a baseline b over all answers and their loss masked: ∇p + b·∇P(truncated); b is p for leave-one-out."""
    possible, cut = finishing(0.0), truncated_answers()
    chance, score, group = possible.chance, scores(), 3
    slope = (chance * possible.reward) @ score
    p = float(chance @ possible.reward)
    members = torch.cartesian_prod(*[torch.arange(15)] * group)
    weight = chance[members].prod(dim=1)
    masked = rloo().advantage(possible.reward[members]) * ~cut[members]
    found = weight @ (masked[:, :, None] * score[members]).mean(dim=1)
    towards = (chance * cut) @ score
    assert close(found, slope + p * towards) and float(towards @ found - towards @ slope) > 1e-3
    assert close(weight @ (rloo().advantage(possible.reward[members])[:, :, None] * score[members]).mean(dim=1), slope)


def test_a_baseline_over_finished_answers_climbs_accuracy_given_an_end() -> None:
    possible, cut = finishing(0.0), truncated_answers()
    chance, score = possible.chance, scores()
    end = float(chance[~cut].sum())
    right_end = float(chance @ possible.reward) / end
    found = (chance * ~cut * (possible.reward - right_end)) @ score
    place = world()
    policy = place.logits().requires_grad_()
    chances = place.chances(policy)
    (slope,) = torch.autograd.grad((chances @ possible.reward) / chances[~cut].sum(), policy)
    assert close(found, end * slope.flatten())


# Off policy.


def drift(size: float) -> tuple[Tensor, Tensor]:
    policy = world().logits()
    return policy, policy - size * torch.cos(2.3 * torch.arange(policy.numel(), dtype=F64)).reshape(policy.shape)


def bias(row: Objective, size: float, *, sampler: bool, group: int = 2) -> float:
    """Largest error of the expected gradient, with data from a policy that far away."""
    place = world()
    policy, behavior = drift(size)
    found = moments(
        row,
        place,
        policy=policy,
        behavior=behavior,
        proximal=policy if sampler else None,
        possible=outcomes(place, behavior, correct),
        group=group,
    ).mean
    claim = declared_gradient(row.target, place, policy=policy, possible=outcomes(place, policy, correct), group=group)
    return float((found - claim).abs().max() / claim.abs().max())


@pytest.mark.parametrize("size", [0.01, 0.3, 2.0])
def test_whole_answers_are_exact_off_policy_and_tokens_are_not(size: float) -> None:
    tokens = replace(rloo(), ratio=unclipped)
    assert bias(sequence_is(), size, sampler=False) < 1e-12
    assert bias(sequence_is(), size, sampler=True) < 1e-12
    assert bias(tokens, size, sampler=False) > 0.05 * min(size, 0.3)
    if size < 1:
        assert bias(tokens, size, sampler=False) < bias(rloo(), size, sampler=False)


def test_a_cap_on_whole_answers_lets_the_bias_vanish_and_one_on_tokens_does_not() -> None:
    whole = [bias(sequence_tis(cap), 1.0, sampler=True) for cap in (1.0, 2.0, 8.0, 1e3)]
    masked = [bias(sequence_mis(cap), 1.0, sampler=True) for cap in (8.0, 1e3)]
    tokens = [bias(tis(cap), 1.0, sampler=True) for cap in (8.0, 1e3)]
    assert whole[0] > whole[1] > whole[2] > 1e-3 and whole[3] < 1e-12
    assert masked[0] > 1e-3 and masked[1] < 1e-12
    assert tokens[0] > 0.05 and tokens[1] > 0.05


def test_decoupled_ppo_at_its_centre_is_token_truncation_inside_the_cap() -> None:
    assert bias(objective("icepop", least=0.0), 0.2, sampler=True) == bias(tis(5.0), 0.2, sampler=True) > 1e-3


@pytest.mark.parametrize("size", [0.3, 2.0])
def test_kimi_k15_stands_still_where_the_regularised_reward_is_highest(size: float) -> None:
    """At π ∝ μ·exp(r/β), with V = β·log Z for a baseline, every single coefficient is zero: nothing is left to learn.

    With the mean reward of the group for V, or with token ratios, it goes on moving.
    """
    beta, place = 0.4, world()
    behavior = drift(size)[1]
    possible = outcomes(place, behavior, correct)
    tilted = possible.chance * (possible.reward / beta).exp()
    best = logits_of(tilted / tilted.sum())
    value = beta * tilted.sum().log()

    def moved(row: Objective) -> float:
        found = moments(row, place, policy=best, behavior=behavior, possible=possible, group=2)
        return float(found.mean.abs().max()) + math.sqrt(max(found.variance, 0.0))

    exact = replace(kimi_k15(beta), advantage=partial(less, value=value))
    assert moved(exact) < 1e-12
    assert (
        moved(kimi_k15(beta)) > 1e-2
        and moved(replace(kimi_k15(beta, "token"), advantage=partial(less, value=value))) > 1e-2
    )


def less(rewards: Tensor, *, value: Tensor) -> Tensor:
    return rewards - value


def logits_of(chance: Tensor) -> Tensor:
    """[prefixes, 3] the policy that gives answers those chances."""
    place = world()
    token = torch.zeros(place.prefixes, 3, dtype=F64)
    token.index_put_((place.prefix, place.choice), chance[place.answer], accumulate=True)
    return token.log()


def test_topr_forgets_what_the_policy_has_given_up_and_nothing_else() -> None:
    """However unlikely an answer to be raised has become, it counts in full; one to be lowered, no more than it can."""
    ratio = torch.tensor([1e-9, 0.5, 1.0, 2.0, 1e9], dtype=F64)
    index, zero = torch.arange(5), torch.zeros(5, dtype=F64)
    tokens = Tokens(logp=ratio.log(), behavior_logp=zero, advantage=zero + 1, sequence=index, group=index)
    assert objective("topr").ratio(tokens).tolist() == [1.0] * 5
    lowered = objective("topr").ratio(replace(tokens, advantage=zero - 1))
    assert lowered.tolist() == pytest.approx([1e-9, 0.5, 1.0, 1.0, 1.0])


def test_dppo_lets_rare_tokens_grow_where_ppo_lets_go_of_them() -> None:
    """By equal widths it never lets go of what PPO keeps: a probability moves by no more than its ratio."""
    before = torch.tensor([0.001, 0.5, 0.9, 0.9], dtype=F64)
    after = torch.tensor([0.008, 0.71, 0.69, 0.75], dtype=F64)
    index = torch.arange(4)
    advantage = torch.tensor([1.0, 1.0, -1.0, -1.0], dtype=F64)
    tokens = Tokens(logp=after.log(), behavior_logp=before.log(), advantage=advantage, sequence=index, group=index)
    kept = objective("dppo").ratio(tokens) > 0
    assert kept.tolist() == [True, False, False, True]
    assert (objective("dr_grpo").ratio(tokens) > 0).tolist() == [False, False, False, True]
    assert objective("dppo", cap=3.0).ratio(tokens).tolist() == pytest.approx([3.0, 0, 0, 0.75 / 0.9])
    grid = torch.cartesian_prod(*[torch.linspace(0.01, 0.99, 50, dtype=F64)] * 2)
    index = torch.arange(len(grid))
    for sign in (-1.0, 1.0):
        advantage = torch.full((len(grid),), sign, dtype=F64)
        pairs = Tokens(
            logp=grid[:, 0].log(), behavior_logp=grid[:, 1].log(), advantage=advantage, sequence=index, group=index
        )
        by_ratio, by_difference = (objective(name).ratio(pairs) > 0 for name in ("dr_grpo", "dppo"))
        assert bool((by_difference | ~by_ratio).all()) and int(by_difference.sum()) > int(by_ratio.sum())


def test_the_two_conventions_of_cispo_are_one_apart() -> None:
    log_ratio = torch.tensor([0.5, 1.0, 3.0, 9.0], dtype=F64).log()
    index, zero = torch.arange(4), torch.zeros(4, dtype=F64)
    tokens = Tokens(logp=log_ratio, behavior_logp=zero, advantage=zero + 1, sequence=index, group=index)
    ratio = objective("cispo", clip_high=4.0).ratio(tokens)
    assert torch.equal(ratio, capped(tokens, cap=5.0)) and ratio.tolist() == pytest.approx([0.5, 1.0, 3.0, 5.0])


# Constants for outcomes, and exponentials of rewards.


@pytest.mark.parametrize("group", GROUPS)
def test_psr_nsr_and_w_reinforce_are_one_direction_under_three_baselines(group: int) -> None:
    """∇p times 1, 1 and 1 + λ. What differs is how far single groups lie from it."""
    slope, place = right()[0], world()
    policy = place.logits()
    possible = outcomes(place, policy, correct)
    scatter = []
    psr = w_reinforce(success=1.0, failure=0.0)
    for row, factor in ((psr, 1.0), (w_reinforce(success=0.0), 1.0), (w_reinforce(), 1.1)):
        found = moments(row, place, policy=policy, behavior=policy, possible=possible, group=group)
        assert close(found.mean, factor * slope)
        scatter.append(found.variance / factor**2)
        score = replace(row, target=reinforce().target, ratio=reinforce().ratio)
        assert close(expected(score, group), factor * slope)
    assert scatter[0] < scatter[2] < scatter[1], "at p = 0.22 a failure says little"


@pytest.mark.parametrize("beta", [0.5, 2.0])
def test_entropic_risk_is_family_c_of_rl2ml_in_large_groups(beta: float) -> None:
    """At x = 1 − e^−β, times (1 − e^−β)/β; the distance falls as 1/N, with and without the rollout in its mean."""
    x = -math.expm1(-beta)

    def weight(row: Objective, size: int, p: float) -> float:
        """w(p) from the row's own credit of groups with every count."""
        rewards = torch.tensor([[1.0] * k + [0.0] * (size - k) for k in range(size + 1)], dtype=F64)
        credit = row.advantage(rewards)
        gain = [float(credit[m + 1, 0] - credit[m, -1]) for m in range(size)]
        return sum(g * math.comb(size - 1, m) * p**m * (1 - p) ** (size - 1 - m) for m, g in enumerate(gain))

    for p in (0.1, 0.5, 0.9):
        limit = x / beta / ((1 - x) + x * p)
        for row, factor in ((tilted(beta), 1.0), (tilted(beta, baseline="others"), 1.0), (rl2ml("C", x), x / beta)):
            far, near = (abs(factor * weight(row, size, p) / limit - 1) for size in (50, 200))
            assert near < 0.05 and 3 < far / near < 6


def test_a_small_tilt_is_the_mean() -> None:
    for group in GROUPS:
        assert close(expected(tilted(1e-6), group), expected(reinforce_centred(), group), 1e-6)
        assert close(expected(tilted(1e-6, baseline="others"), group), expected(rloo(), group), 1e-6)


def test_gpg_of_verl_is_maxrl_as_released_on_one_group_and_not_the_papers() -> None:
    """Under a sum over tokens: the success rate of one group is its mean, by which MaxRL divides."""
    for group in (2, 3):
        summed = replace(objective("gpg_verl"), aggregate=sequence_sum)
        assert close(expected(summed, group), expected(maxrl_released(epsilon=0.0), group))
        paper = replace(objective("gpg"), aggregate=sequence_sum)
        assert close(expected(paper, group), expected(reinforce_centred(), group))


def test_gpg_weighs_groups_by_how_few_decide() -> None:
    """Two groups on one prompt: (N−1)/N·(1 − (1−q)²)/q·∇p, q = 1 − pᴺ − (1−p)ᴺ."""
    slope, p = right()
    place, size = world(), 2
    possible = outcomes(place, place.logits(), correct)
    members = torch.cartesian_prod(*[torch.arange(15)] * (2 * size)).reshape(-1, 2, size)
    chance = possible.chance[members].prod(dim=2).prod(dim=1)
    rewards = possible.reward[members]
    deciding = (rewards != rewards[..., :1]).any(dim=2).sum(dim=1)
    credit = torch.stack([mean_centred(rewards[:, g]) for g in range(2)], dim=1)
    credit = credit * (2 / deciding.clamp(min=1))[:, None, None]
    row = objective("gpg")
    first = 11_111
    lengths = place.lengths[members[first]]
    seen = row.credits(Rollouts(rewards=rewards[first], lengths=torch.ones_like(lengths)))
    assert torch.allclose(seen.reshape(2, 2), credit[first])
    found = torch.einsum("k,kgi,kgip->p", chance, credit, scores()[members]) / (2 * size)
    q = 1 - p**size - (1 - p) ** size
    assert close(found, (size - 1) / size * (1 - (1 - q) ** 2) / q * slope)


@pytest.mark.parametrize("size", [0.3, 2.0])
def test_trajectory_balance_stands_still_where_the_regularised_reward_is_highest(size: float) -> None:
    """At π ∝ π_ref·exp(r/β) every coefficient is zero, whoever sampled the answers; and nowhere near it."""
    beta, place = 0.4, world()
    reference, behavior = place.anchor(), drift(size)[1]
    possible = outcomes(place, behavior, correct)
    anchor = place.chances(reference)
    lifted = anchor * (possible.reward / beta).exp()
    best = logits_of(lifted / lifted.sum())
    members = torch.tensor([[0, 1, 4], [2, 9, 14], [3, 3, 12]])

    def kappa(policy: Tensor) -> float:
        seen = step_of(place, possible, members)
        token = place.tokens(replace(possible, answer=members.flatten()))
        row = objective("tba", beta=beta)
        tokens = Tokens(
            logp=place.logp(policy)[token],
            behavior_logp=place.logp(behavior)[token],
            reference_logp=place.logp(reference)[token],
            advantage=row.credits(seen),
            sequence=seen.sequence,
            group=seen.sequence // 3,
        )
        sizes = Denominators(groups=3, sequences=9, tokens=len(token), max_tokens=3)
        return float(row.coefficients(tokens, sizes).abs().max())

    assert kappa(best) < 1e-12 < 1e-3 < kappa(reference)


def test_trajectory_balance_maximises_reward_less_divergence() -> None:
    """On policy (N−1)/N·∇(p − β·KL(π‖π_ref)), a reference apart."""
    beta, place, group = 0.3, world(), 2
    policy, reference = place.logits(), place.anchor()
    possible = outcomes(place, policy, correct)
    members = torch.cartesian_prod(*[torch.arange(15)] * group)
    row, seen = objective("tba", beta=beta), step_of(place, possible, members)
    token = place.tokens(replace(possible, answer=members.flatten()))
    logp = place.logp(policy)[token]
    tokens = Tokens(
        logp=logp,
        behavior_logp=logp,
        reference_logp=place.logp(reference)[token],
        advantage=row.credits(seen),
        sequence=seen.sequence,
        group=seen.sequence // group,
    )
    sizes = Denominators(groups=1, sequences=group, tokens=len(token), max_tokens=3)
    chance = possible.chance[members].prod(dim=1)[tokens.group]
    found = (chance * row.coefficients(tokens, sizes)) @ place.scores(policy)[token]
    logits = policy.clone().requires_grad_()
    chances = place.chances(logits)
    divergence = (chances * (chances / place.chances(reference)).log()).sum()
    (slope,) = torch.autograd.grad(chances @ possible.reward - beta * divergence, logits)
    assert close(found, (group - 1) / group * slope.flatten())


def test_distillation_by_tokens_is_not_distillation_by_answers() -> None:
    """`opd` moves every next-token distribution toward the teacher's, the states held still: −Σ_s
    P(s)·∇KL(π(·|s)‖π_T(·|s)). With `credit=answer` it follows −∇KL(π‖π_T) of answers, which also leads away from
    states where the two disagree, and takes the log-ratios of all tokens to come. The first is also the penalty k2
    without a reward, and the sum over all tokens of a distribution that `regularize.estimator=full` has."""
    place = world()
    policy, teacher = place.logits(), place.anchor()
    possible = outcomes(place, policy, correct)
    step = step_of(place, possible, torch.arange(15)[:, None])
    chance = possible.chance[place.answer]
    nothing = torch.zeros_like(place.logp(policy))
    tokens = Tokens(
        logp=place.logp(policy),
        behavior_logp=place.logp(policy),
        reference_logp=place.logp(teacher),
        advantage=nothing,
        sequence=place.answer,
        group=place.answer,
    )
    sizes = Denominators(groups=15, sequences=1, tokens=len(nothing), max_tokens=3)

    def expected(row: Objective) -> Tensor:
        kappa = row.coefficients(replace(tokens, advantage=row.credits(step)), sizes)
        return 3 * (chance * kappa) @ place.scores(policy)

    by_token, by_answer = expected(objective("opd")), expected(objective("opd", credit="answer"))
    penalised = replace(reinforce(), penalty=k2, penalty_weight=1.0)
    assert close(by_token, (chance * penalised.coefficients(tokens, sizes)) @ place.scores(policy))
    assert close(by_token, expected(objective("opsd")))
    to_go = reward_to_go(replace(step, rewards=0 * step.rewards), raw, beta=1.0)
    assert close(by_answer, (chance * to_go) @ place.scores(policy))
    logits = policy.clone().requires_grad_()
    visits = torch.zeros(place.prefixes, dtype=F64).index_add(0, place.prefix, chance)
    ahead = (logits.log_softmax(1).exp() * (logits.log_softmax(1) - teacher.log_softmax(1))).sum(1)
    chances = place.chances(logits)
    whole = (chances * (chances / place.chances(teacher)).log()).sum()
    (states_still,) = torch.autograd.grad(-(visits * ahead).sum(), logits, retain_graph=True)
    (answers,) = torch.autograd.grad(-whole, logits)
    assert close(by_token, states_still.flatten()) and close(by_answer, answers.flatten())
    cosine = torch.nn.functional.cosine_similarity(by_token, by_answer, dim=0)
    assert float(cosine) == pytest.approx(0.980, abs=5e-4)
    assert float((by_token - by_answer).norm() / by_answer.norm()) == pytest.approx(0.231, abs=5e-4)
    assert (visits * ahead).sum().item() == pytest.approx(whole.item())


def test_only_tokens_left_behind_tell_aspo_from_ppo() -> None:
    """A token to be raised that has become less likely counts more, where PPO counts it less."""
    ratio = torch.tensor([0.25, 0.5, 1.0, 1.1, 1.3], dtype=F64)
    index, zero = torch.arange(5), torch.zeros(5, dtype=F64)
    tokens = Tokens(logp=ratio.log(), behavior_logp=zero, advantage=zero + 1, sequence=index, group=index)
    assert objective("aspo").ratio(tokens).tolist() == pytest.approx([3.0, 2.0, 1.0, 1 / 1.1, 0.0])
    assert objective("dr_grpo").ratio(tokens).tolist() == pytest.approx([0.25, 0.5, 1.0, 1.1, 0.0])
    lowered = replace(tokens, advantage=zero - 1)
    assert objective("aspo").ratio(lowered).tolist() == pytest.approx([0.0, 0.0, 1.0, 1.1, 1.3])


def test_the_band_of_bapo_widens_until_both_sides_balance() -> None:
    """Floors first, 0.6 to 0.8, then tops, 1.2 to 2: the first that balances is taken."""
    index, zero = torch.arange(2), torch.zeros(2, dtype=F64)

    def kept(raised: float, lowered: float, share: float) -> list[float]:
        ratio = torch.tensor([raised, lowered], dtype=F64).log()
        advantage = torch.tensor([share, share - 1], dtype=F64)
        tokens = Tokens(logp=ratio, behavior_logp=zero, advantage=advantage, sequence=index, group=index)
        return objective("bapo").ratio(tokens).tolist()

    assert kept(1.1, 0.7, 0.5) == pytest.approx([1.1, 0.7])  # Balanced in the first band.
    assert kept(1.1, 0.7, 0.3) == pytest.approx([1.1, 0.0])  # 0.33 against 0.49: never, and the last floor is 0.8.
    assert kept(1.6, 1.1, 0.4) == pytest.approx([1.6, 1.1])  # 1.6·0.4 against 1.1·0.6: balanced with a top of 1.65.
    assert kept(2.1, 2.1, 0.4) == pytest.approx([0.0, 2.1])  # The last top is 2.


def test_a_long_failure_that_drifted_little_per_token_is_kept() -> None:
    """Six tokens of 0.2 nats each stay, one of 0.6 goes; a success stays however far it drifted."""
    lengths = torch.tensor([6, 1, 1])
    sequence = torch.arange(3).repeat_interleave(lengths)
    drift = torch.tensor([0.2, 0.6, 0.6], dtype=F64)[sequence]
    advantage = torch.tensor([-1.0, -1.0, 1.0], dtype=F64)[sequence]
    zero = torch.zeros_like(drift)
    tokens = Tokens(
        logp=zero - 1,
        proximal_logp=zero - 1,
        behavior_logp=drift - 1,
        advantage=advantage,
        sequence=sequence,
        group=torch.zeros_like(sequence),
    )
    assert objective("opsm").ratio(tokens).tolist() == [1.0] * 6 + [0.0, 1.0]
