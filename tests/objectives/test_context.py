"""What is said of credit that looks beyond rewards, on the rows that ship: by enumeration, nothing is sampled."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest
import torch
from torch import Tensor

from gnomon.objectives import (
    Advantage,
    Denominators,
    Objective,
    Rollouts,
    Seen,
    Tokens,
    clipped_or_shaped,
    dapo,
    dr_grpo,
    gfpo,
    luffy,
    luffy_paper,
    objective,
    past_centred,
    rae,
    rloo,
    running_mean,
    seed_grpo,
    semantic_entropy,
    sequence_sum,
)
from gnomon.objectives.closed import tallied_form
from gnomon.theory.exact import declared_gradient, moments
from gnomon.theory.world import correct, graded_reward, outcomes, world

F64 = torch.float64
Reward = Callable[[str], float]


def expected(row: Objective, group: int, reward: Reward = correct) -> Tensor:
    place = world()
    policy = place.logits()
    possible = outcomes(place, policy, reward)
    return moments(row, place, policy=policy, behavior=policy, possible=possible, group=group).mean


def slope(reward: Reward = correct) -> Tensor:
    """∇E[r]."""
    place = world()
    possible = outcomes(place, place.logits(), reward)
    return (possible.chance * possible.reward) @ place.per_answer(place.scores(place.logits()))


def cosine(a: Tensor, b: Tensor) -> float:
    return float(a @ b / (a.norm() * b.norm()))


def close(found: Tensor, claim: Tensor) -> bool:
    """To the rounding of sums over some thousand groups."""
    return torch.allclose(found, claim, rtol=0, atol=1e-12)


def step(rewards: list[list[float]], **seen: Tensor) -> Rollouts:
    """Answers of one token each."""
    table = torch.tensor(rewards, dtype=F64)
    return Rollouts(**{"rewards": table, "lengths": torch.ones(table.shape, dtype=torch.int64), **seen})


# Semantic entropy.


@pytest.mark.parametrize(
    ("answers", "entropy"),
    [
        ([5, 5, 5, 5], 0.0),
        ([3, 1, 2, 0], math.log(4)),
        ([7, 7, 2, 1], (math.log(2) + 2 * math.log(4)) / 3),
        ([1, 1, 1, 0], (math.log(4 / 3) + math.log(4)) / 2),
        ([4], 0.0),
    ],
)
def test_semantic_entropy_is_the_mean_surprise_at_distinct_answers(answers: list[int], entropy: float) -> None:
    assert semantic_entropy(torch.tensor([answers, answers])).tolist() == pytest.approx([entropy] * 2, abs=1e-15)


@pytest.mark.parametrize("size", [1, 2, 5])
def test_no_group_is_more_uncertain_than_one_of_distinct_answers(size: int) -> None:
    every = torch.tensor(list(itertools.product(range(size), repeat=size)))
    entropy = semantic_entropy(every)
    assert float(entropy.min()) == 0 and float(entropy.max()) == pytest.approx(math.log(size))


FADES: dict[str, Callable[[float], float]] = {
    "linear": lambda x: 1 - x,
    "exponential": lambda x: math.exp(-x),
    "focal": lambda x: (1 - x) ** 2,
}


@pytest.mark.parametrize("reward", [correct, graded_reward])
@pytest.mark.parametrize("fade", FADES)
@pytest.mark.parametrize("group", [2, 3, 4])
def test_the_entropy_of_the_others_scales_the_policy_gradient(group: int, fade: str, reward: Reward) -> None:
    """E[g] = E[f(α·SE₋ᵢ/log(N−1))]/L_max · ∇E[r], the mean weight summed over every ordered draw of the others."""
    place = world()
    chance = place.chances(place.logits()).tolist()
    weight = 0.0
    for others in itertools.product(range(15), repeat=group - 1):
        surprise = [-math.log(others.count(answer) / len(others)) for answer in set(others)]
        share = statistics.fmean(surprise) / math.log(len(others)) if len(others) > 1 else 0.0
        weight += math.prod(chance[answer] for answer in others) * FADES[fade](0.7 * share)
    assert group == 2 or weight < 0.9
    found = expected(seed_grpo(0.7, fade, baseline="others"), group, reward)  # type: ignore[arg-type]
    assert close(found, weight / place.max_tokens * slope(reward))


def test_the_own_answer_in_the_entropy_bends_the_gradient() -> None:
    """Not in pairs: there it says only whether two answers differ, and two that do not earn the same."""
    assert cosine(expected(seed_grpo(), 2), slope()) == pytest.approx(1, abs=1e-12)
    for group in (3, 4):
        assert 0.99 < cosine(expected(seed_grpo(0.9), group), slope()) < 0.9998
        assert cosine(expected(seed_grpo(0.9, baseline="others"), group), slope()) == pytest.approx(1, abs=1e-12)


def test_without_a_weight_these_are_their_origins() -> None:
    for fade in FADES:
        assert close(expected(seed_grpo(0.0, fade), 3), expected(dr_grpo(), 3))  # type: ignore[arg-type]
        plain = expected(rloo(), 3) / world().max_tokens
        assert close(expected(seed_grpo(0.0, fade, baseline="others"), 3), plain)  # type: ignore[arg-type]


@pytest.mark.parametrize("baseline", ["group", "others"])
def test_answers_that_are_not_known_are_no_answers_at_all(baseline: str) -> None:
    with pytest.raises(ValueError, match="not known"):
        seed_grpo(baseline=baseline).credits(step([[1.0, 0.0]]))


# Filters.


def halved(answer: str) -> float:
    """Something for every answer: then reward per token tells two failures apart."""
    return 0.5 + 0.5 * correct(answer)


@pytest.mark.parametrize(
    ("build", "reward"), [(gfpo, correct), (gfpo, halved), (partial(gfpo, by="efficiency"), halved)]
)
def test_a_filter_turns_the_gradient_away(build: Callable[..., Objective], reward: Reward) -> None:
    """Also under a plain sum over tokens, where the same row without its filter climbs the expected reward."""
    row = replace(build(keep=2, epsilon=0.0), aggregate=sequence_sum)
    whole = replace(build(keep=4, epsilon=0.0), aggregate=sequence_sum)
    assert cosine(expected(whole, 4, reward), slope(reward)) == pytest.approx(1, abs=1e-12)
    assert 0 < cosine(expected(row, 4, reward), slope(reward)) < 0.99


@pytest.mark.parametrize("group", [3, 4])
def test_reward_per_token_is_a_filter_by_count_where_failures_earn_nothing(group: int) -> None:
    """Groups with k successes or more teach nothing, the others whole: the policy gradient, scaled."""
    found = expected(replace(gfpo(keep=2, epsilon=0.0, by="efficiency"), aggregate=sequence_sum), group)
    p = float(outcomes(world(), world().logits(), correct).reward @ world().chances(world().logits()))
    alone = (group - 1) ** 0.5, -1 / (group - 1) ** 0.5
    beta = [alone[0], -alone[1]]  # a(1) − b(0) and a(2) − b(1), of standardised rewards; b(0) and a(2) are zero.
    weight = sum(b * math.comb(group - 1, m) * p**m * (1 - p) ** (group - 1 - m) for m, b in enumerate(beta))
    assert close(found, weight * slope())


@pytest.mark.parametrize("build", [gfpo, partial(gfpo, by="efficiency")])
def test_a_filter_that_keeps_all_is_none(build: Callable[..., Objective]) -> None:
    plain = dapo(clip_high=0.2)
    for group in (2, 3, 4):
        assert close(expected(build(keep=4), group), expected(plain, group))


def test_those_level_with_the_last_are_kept_and_the_others_are_not_compared_with() -> None:
    rewards = [[1.0, 0.0, 0.0, 1.0, 1.0]]
    lengths = torch.tensor([[1, 2, 3, 2, 4]])
    found = gfpo(keep=2, epsilon=0.0).credits(step(rewards, lengths=lengths))
    one, other = math.sqrt(1 / 2), -math.sqrt(2)
    assert found.tolist() == pytest.approx([one, other, other, 0, 0, 0, one, one, 0, 0, 0, 0])
    found = gfpo(keep=2, epsilon=0.0, by="efficiency").credits(step([[1.0, 0.5, 0.0, 1.0, 1.0]], lengths=lengths))
    assert found.tolist() == [0.0] * 12  # Of 1, ¼, 0, ½ and ¼ per token, two are kept, and both earned one.


# The run's past.


@pytest.mark.parametrize("past", [-3.0, 0.0, 0.7, 100.0])
@pytest.mark.parametrize("reward", [correct, graded_reward])
def test_any_baseline_of_the_past_leaves_the_policy_gradient(past: float, reward: Reward) -> None:
    def credit(rollouts: Rollouts, advantage: Callable[[Tensor], Tensor]) -> Tensor:
        return past_centred(replace(rollouts, baseline=torch.full_like(rollouts.rewards, past)), advantage)

    found = expected(replace(rae(), credit=credit), 2, reward)
    assert torch.allclose(found, slope(reward), rtol=0, atol=1e-12 * max(1.0, abs(past)))


def test_roles_may_have_baselines_of_their_own() -> None:
    """Over all ordered pairs of a first and a second player: the sum of both policy gradients, halved."""
    place = world()
    possible = outcomes(place, place.logits(), graded_reward)
    members = torch.cartesian_prod(torch.arange(15), torch.arange(15))
    chance = possible.chance[members].prod(dim=1)
    scores = place.per_answer(place.scores(place.logits()))
    past = torch.tensor([0.9, -2.0], dtype=F64).expand(len(members), 2)
    lengths = torch.ones(members.shape, dtype=torch.int64)
    rollouts = Rollouts(rewards=possible.reward[members], lengths=lengths, baseline=past)
    credit = rae().credits(rollouts).reshape(members.shape)
    found = chance @ (credit[:, :, None] * scores[members]).mean(dim=1)
    assert close(found, slope(graded_reward))


def test_a_baseline_that_has_seen_the_reward_shrinks_the_gradient() -> None:
    def credit(rollouts: Rollouts, advantage: Callable[[Tensor], Tensor]) -> Tensor:
        seen = torch.tensor([[running_mean(0.3, r) for r in group] for group in rollouts.rewards.tolist()], dtype=F64)
        return past_centred(replace(rollouts, baseline=seen), advantage)

    assert close(expected(replace(rae(), credit=credit), 2), 0.95 * slope())


def test_a_running_mean_forgets() -> None:
    assert running_mean(0.0, 1.0) == pytest.approx(0.05) and running_mean(0.5, 1.0, rate=0.0) == 1.0
    found = 0.0
    for _ in range(400):
        found = running_mean(found, 0.7)
    assert found == pytest.approx(0.7 * (1 - 0.95**400), rel=1e-12)
    for rate in (1.0, -0.1, math.nan):
        with pytest.raises(ValueError, match="rate"):
            running_mean(0.0, 1.0, rate=rate)


def test_without_a_past_there_is_nothing_to_compare_with() -> None:
    with pytest.raises(ValueError, match="no baseline"):
        rae().credits(step([[1.0, 0.0]]))


# Demonstrations.


def union(sampled: int, demonstration: int) -> tuple[Tensor, Tensor]:
    """[parameters] the expected gradient of a group of sampled rollouts and one given, by the part that gives it.

    Each part averaged over its own rollouts.
    """
    place = world()
    policy = place.logits()
    possible = outcomes(place, policy, correct)
    drawn = torch.cartesian_prod(*[torch.arange(15)] * sampled).reshape(-1, sampled)
    chance = possible.chance[drawn].prod(dim=1)
    members = torch.cat([drawn, torch.full((len(drawn), 1), demonstration)], dim=1)
    given = (torch.arange(sampled + 1) == sampled).expand(members.shape)
    row = replace(luffy(), aggregate=sequence_sum)
    rollouts = Rollouts(rewards=possible.reward[members], lengths=place.lengths[members], demonstrated=given)
    start = place.lengths.cumsum(0) - place.lengths
    inside = torch.cat([torch.arange(int(n)) for n in place.lengths[members].flatten()])
    token = rollouts.spread(start[members]) + inside
    tokens = Tokens(
        logp=place.logp(policy)[token],
        behavior_logp=place.logp(policy)[token],
        advantage=row.credits(rollouts),
        sequence=rollouts.sequence,
        group=rollouts.sequence // (sampled + 1),
        demonstrated=rollouts.spread(given),
    )
    # One group is a step; the weight of its tokens is 1/S with S rollouts.
    sizes = Denominators(groups=1, sequences=1, tokens=len(token), max_tokens=place.max_tokens)
    kappa = row.coefficients(tokens, sizes) * chance[tokens.group]
    scores = place.scores(policy)[token]
    shown = rollouts.spread(given)
    return (kappa * ~shown) @ scores / sampled, (kappa * shown) @ scores


@pytest.mark.parametrize("sampled", [1, 2, 3])
def test_sampled_rollouts_climb_less_for_each_in_the_union(sampled: int) -> None:
    """(1 − 1/(N_on + N_off))·∇p, whatever is demonstrated: a given reward is a baseline that knows nothing of them."""
    for demonstration in (0, 2, 9):
        on_policy, _ = union(sampled, demonstration)
        assert close(on_policy, (1 - 1 / (sampled + 1)) * slope())


@pytest.mark.parametrize("demonstration", [2, 9])
def test_a_demonstration_is_learnt_by_its_excess_and_by_its_shape(demonstration: int) -> None:
    """(r − mean of the union)·∇Σₜ π/(π + γ), by autodiff: up where it is right, down where it is wrong."""
    place = world()
    policy = place.logits().requires_grad_()
    chance = place.logp(policy)[place.answer == demonstration].exp()
    (shape,) = torch.autograd.grad((chance / (chance + 0.1)).sum(), policy)
    possible = outcomes(place, place.logits(), correct)
    reward, p = float(possible.reward[demonstration]), float(possible.chance @ possible.reward)
    _, given = union(2, demonstration)
    assert close(given, (reward - (reward + 2 * p) / 3) * shape.flatten())


@pytest.mark.parametrize(("mixed", "alone"), [(luffy_paper(), dapo(clip_high=0.2)), (luffy(), dr_grpo())])
def test_without_demonstrations_it_is_the_row_that_it_stands_on(mixed: Objective, alone: Objective) -> None:
    """LUFFY as in the paper on DAPO, as released on Dr. GRPO."""
    place = world()
    policy = place.logits()
    possible = outcomes(place, policy, correct)
    plain, same = (
        moments(row, place, policy=policy, behavior=policy, possible=possible, group=3).mean for row in (mixed, alone)
    )
    assert torch.equal(plain, same)


def test_the_shape_lifts_what_is_unlikely_and_stays_finite() -> None:
    logp = torch.tensor([-1e4, -90.0, math.log(0.1), math.log(0.9), 0.0], dtype=F64)
    index = torch.arange(5)
    tokens = Tokens(logp=logp, behavior_logp=logp, advantage=logp, sequence=index, group=index, demonstrated=index >= 0)
    slopes = clipped_or_shaped(tokens, low=0.2, high=0.2, gamma=0.1)
    assert torch.isfinite(slopes).all() and float(slopes[2]) == pytest.approx(0.25) == float(slopes.max())
    assert float(slopes[0]) < 1e-30 and slopes[3:].tolist() == pytest.approx([0.09, 0.1 / 1.21])


def test_who_was_demonstrated_is_said_yes_or_no_for_every_token() -> None:
    zero, index = torch.zeros(2), torch.zeros(2, dtype=torch.int64)
    for demonstrated, message in ((torch.zeros(3).bool(), "shape"), (torch.zeros(2), "must be bool")):
        with pytest.raises(ValueError, match=message):
            Tokens(
                logp=zero, behavior_logp=zero, advantage=zero, sequence=index, group=index, demonstrated=demonstrated
            )


@pytest.mark.parametrize("group", [2, 3])
@pytest.mark.parametrize("earlier", [(1, 0.3, 0.2), (4, 0.6, 0.0), (9, 1.0, 0.0)])
def test_the_expectation_at_a_later_visit(earlier: tuple[int, float, float], group: int) -> None:
    """Σ π h ∇log π, h = N·E[A/T] with A from the counts of right and wrong rollouts and what earlier visits left."""
    visits, old_mean, old_variance = earlier
    row = objective("dcpo")

    def later(rollouts: Rollouts, advantage: Advantage) -> Tensor:
        past = torch.tensor(earlier, dtype=F64).expand(*rollouts.rewards.shape, 3)
        return row.credit(replace(rollouts, visits=past), advantage)

    def weight(own: Seen, total: tuple[int, ...]) -> float:
        right, wrong, *tokens = total
        mean = right / group
        variance = right * wrong / group / (group - 1)
        share = 1 / (visits + 1)
        whole_mean = (1 - share) * old_mean + share * mean
        between = share * (1 - share) * (mean - old_mean) ** 2
        whole_variance = (1 - share) * old_variance + share * variance + between
        now = (own.reward - mean) / (variance**0.5 + 1e-6) if variance else 0.0
        whole = (own.reward - whole_mean) / (whole_variance**0.5 + 1e-6) if whole_variance else 0.0
        blends = share * whole + (1 - share) * now, share * now + (1 - share) * whole
        return min(blends, key=abs) / sum(tokens)

    place = world()
    policy = place.logits()
    possible = outcomes(place, policy, correct)
    row_later = replace(row, credit=later)
    found = moments(row_later, place, policy=policy, behavior=policy, possible=possible, group=group).mean
    claim = declared_gradient(tallied_form(weight, ""), place, policy=policy, possible=possible, group=group)
    assert float((found - claim).abs().max()) <= 1e-9
    first = moments(row, place, policy=policy, behavior=policy, possible=possible, group=group).mean
    assert float((found - first).abs().max()) > 1e-3
