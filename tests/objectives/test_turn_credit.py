"""What is said of credit that differs from turn to turn or from budget to budget: by enumeration and by hand.

In the world of 15 answers a turn is a token, paid what the answer would be, were it cut there.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from token_mutants import seeing
from torch import Tensor

from gnomon.objectives import (
    Advantage,
    Objective,
    Rollouts,
    brpo,
    budget_credit,
    mean_centred,
    objective,
    raw,
    rebn,
    standardised_turn_returns,
    turn_gae,
    turn_grpo,
    turn_ppo,
    turn_reinforce,
    turn_returns,
)
from gnomon.theory.exact import declared_gradient, moments, report
from gnomon.theory.world import correct, graded_reward, outcomes, step_of, world

F64 = torch.float64


def expected(row: Objective, group: int, reward: Callable[[str], float] = correct) -> Tensor:
    place = world()
    policy = place.logits()
    possible = outcomes(place, policy, reward)
    return moments(row, place, policy=policy, behavior=policy, possible=possible, group=group).mean


def every_answer() -> Rollouts:
    place = world()
    return step_of(place, outcomes(place, place.logits(), correct), torch.arange(15)[:, None])


def gradient_of(worth: Tensor) -> Tensor:
    """∇E[worth of the answer]."""
    policy = world().logits().requires_grad_()
    (found,) = torch.autograd.grad(world().chances(policy) @ worth, policy)
    return found.flatten()


def earned(gamma: float) -> Tensor:
    """[answers] Σ_k γᵏ r_k over the turns of each answer."""
    return torch.tensor(
        [sum(gamma**k * correct(text[: k + 1]) for k in range(len(text))) for text in world().answers], dtype=F64
    )


def close(found: Tensor, claim: Tensor) -> bool:
    return torch.allclose(found, claim, rtol=0, atol=1e-12)


def cosine(found: Tensor, claim: Tensor) -> float:
    return float(torch.nn.functional.cosine_similarity(found, claim, dim=0))


def rollouts(
    lengths: list[list[int]], segment: list[int], paid: list[list[list[float]]] | None = None, **more: list[float]
) -> Rollouts:
    count = len(lengths[0])
    return Rollouts(
        rewards=torch.tensor([[float(i + 1) for i in range(count)] for _ in lengths], dtype=F64),
        lengths=torch.tensor(lengths),
        segment=torch.tensor(segment, dtype=torch.int64),
        segment_rewards=None if paid is None else torch.tensor(paid, dtype=F64),
        **{name: torch.tensor(values, dtype=F64) for name, values in more.items()},
    )


# Returns of turns.


@pytest.mark.parametrize("gamma", [0.0, 0.3, 0.9, 1.0])
def test_weighed_turns_climb_the_discounted_return(gamma: float) -> None:
    for group in (1, 2):
        assert close(expected(turn_reinforce(gamma, "discounted"), group), gradient_of(earned(gamma)))


@pytest.mark.parametrize("gamma", [0.0, 0.3, 0.9])
def test_the_usual_form_does_not(gamma: float) -> None:
    assert cosine(expected(turn_reinforce(gamma), 1), gradient_of(earned(gamma))) < 0.9999
    assert close(expected(turn_reinforce(1.0), 1), gradient_of(earned(1.0)))


@pytest.mark.parametrize(("row", "whole"), [(turn_reinforce(0.5), False), (turn_reinforce(0.5, "discounted"), True)])
def test_the_usual_form_is_the_gradient_of_nothing(row: Objective, whole: bool) -> None:
    """The Jacobian of a gradient is symmetric."""
    place = world()
    credit = row.credits(every_answer())

    def field(logits: Tensor) -> Tensor:
        return (place.chances(logits)[place.answer] * credit) @ place.scores(logits)

    slopes = torch.autograd.functional.jacobian(field, place.logits()).flatten(1)
    bent = float((slopes - slopes.T).abs().max() / slopes.abs().max())
    assert bent < 1e-12 if whole else bent > 0.05


def test_returns_of_turns_by_hand() -> None:
    """Turns of two and one token, no token at all, and one turn that ends before its rollout's second reward."""
    step = rollouts([[3, 0, 1]], [0, 0, 1, 0], [[[1.0, 4.0], [9.0, 9.0], [2.0, 8.0]]])
    assert turn_returns(step, raw, gamma=0.5).tolist() == [3, 3, 4, 2]
    assert turn_reinforce(0.5, "discounted").credits(step).tolist() == [3, 3, 2, 2]
    assert turn_reinforce(0.0).credits(step).tolist() == [1, 1, 4, 2]
    # Of the turns 3, 4 and 2: mean 3, deviation √⅔.
    found = standardised_turn_returns(step, raw, gamma=0.5, epsilon=0.0)
    assert found.tolist() == pytest.approx([0, 0, 1.5**0.5, -(1.5**0.5)])


def test_a_turn_without_tokens_still_earns_and_is_waited_for() -> None:
    step = rollouts([[2]], [0, 2], [[[1.0, 4.0, 8.0]]], values=[2.0, 3.0])
    assert turn_returns(step, raw, gamma=0.5).tolist() == [5, 8]
    # Nothing is chosen in turn 1, so it surprises nobody: V = 4 + 0.5·3, and δ₀ = 1 + 0.5·5.5 − 2.
    assert turn_gae(step, raw, gamma=0.5, lam=0.5).tolist() == [1.75 + 0.0625 * 5, 5]
    # Mean 6.5 and deviation 1.5 of two turns, not of three.
    found = standardised_turn_returns(step, raw, gamma=0.5, epsilon=0.0)
    assert found.tolist() == pytest.approx([-1, 1])


def test_without_rewards_of_turns_the_reward_comes_at_the_end() -> None:
    step = rollouts([[3, 0, 1]], [0, 0, 1, 0])
    assert turn_returns(step, raw, gamma=0.5).tolist() == [0.5, 0.5, 1, 3]
    assert turn_reinforce().credits(step).tolist() == [1, 1, 1, 3]
    empty = rollouts([[0, 0]], [])
    assert turn_reinforce().credits(empty).shape == rebn().credits(empty).shape == (0,)


def test_what_credit_over_turns_needs_is_asked_for() -> None:
    step = rollouts([[1, 1]], [0, 0])
    with pytest.raises(ValueError, match="values"):
        turn_gae(step, raw, gamma=1.0, lam=1.0)
    with pytest.raises(ValueError, match="a score at every budget"):
        budget_credit(step, raw)
    with pytest.raises(ValueError, match="segment of every token"):
        turn_reinforce().credits(replace(step, segment=None))
    with pytest.raises(ValueError, match="segment 1 has no reward"):
        turn_reinforce().credits(rollouts([[1, 1]], [0, 1], [[[1.0], [1.0]]]))


# Compared within the group, where the policy decides when it stops.


def depths() -> Tensor:
    """[prefixes] tokens before each."""
    place = world()
    found = torch.zeros(place.prefixes, dtype=torch.int64)
    start = place.lengths.cumsum(0) - place.lengths
    found[place.prefix] = torch.arange(len(place.prefix)) - start[place.answer]
    return found


def by_turn(weights: list[float], gradient: Tensor) -> Tensor:
    """A gradient with the choices of every turn weighed: each prefix has parameters of its own."""
    return (torch.tensor(weights, dtype=F64)[depths()][:, None] * gradient.reshape(7, 3)).flatten()


def reached(k: int) -> float:
    """The chance that a rollout has a turn k."""
    return float(world().chances(world().logits())[world().lengths > k].sum())


@pytest.mark.parametrize("group", [2, 3, 5])
def test_a_mean_over_all_rollouts_keeps_the_gradient(group: int) -> None:
    truth = gradient_of(earned(1.0)) / 3
    assert close(expected(turn_grpo(), group), (1 - 1 / group) * truth)
    assert cosine(expected(turn_grpo(gamma=0.5), group), gradient_of(earned(0.5))) < 0.9999


@pytest.mark.parametrize("group", [2, 3, 5])
def test_a_mean_over_those_that_reach_a_turn_shrinks_the_turns_that_few_reach(group: int) -> None:
    """Of N rollouts 1 + M reach a turn, and the mean holds 1/(1 + M) of oneself."""

    def kept(q: float) -> float:
        law = [math.comb(group - 1, m) * q**m * (1 - q) ** (group - 1 - m) for m in range(group)]
        return sum(chance * m / (1 + m) for m, chance in enumerate(law))

    weights = [kept(reached(k)) for k in range(3)]
    found = expected(turn_grpo(compared="reached"), group)
    assert close(found, by_turn(weights, gradient_of(earned(1.0)) / 3))
    assert weights == pytest.approx([1 - (1 - (1 - reached(k)) ** group) / (group * reached(k)) for k in range(3)])
    assert (
        weights[0] == pytest.approx(1 - 1 / group) and weights[0] > weights[1] > weights[2] and max(weights[2:]) < 0.7
    )


def test_a_mean_of_the_reward_of_each_turn_makes_stopping_pay() -> None:
    """However large the group is: who goes on has the mean reward of the next turn taken off."""
    place = world()
    chance = place.chances(place.logits())
    paid = torch.tensor([[correct(text[: k + 1]) for k in range(3)] for text in place.answers], dtype=F64)
    there = place.lengths[:, None] > torch.arange(3)
    means = (chance[:, None] * paid * there).sum(0) / (chance[:, None] * there).sum(0)
    hidden = gradient_of(((paid - means) * there).sum(1)) / 3
    row, possible = turn_grpo(compared="rewards"), outcomes(place, place.logits(), correct)
    assert row.closed_form is not None

    def declared(group: int) -> Tensor:
        assert row.closed_form is not None
        return declared_gradient(row.closed_form, place, policy=place.logits(), possible=possible, group=group)

    assert close(expected(row, 4), declared(4))
    assert torch.allclose(declared(10**6), hidden, rtol=0, atol=1e-6)
    truth = gradient_of(earned(1.0)) / 3
    assert cosine(hidden, truth) < 0.99 and cosine(declared(4), truth) < 0.99
    stops = torch.arange(21).reshape(7, 3)[depths() < 2, 2]
    assert bool((hidden[stops] > truth[stops] + 1e-3).all()), "a stop before the limit is worth more than it earns"


def test_a_mean_over_all_turns_is_biased_by_one_over_the_group() -> None:
    """The rollout decides how many turns the mean has; the bias fades with the group."""
    row, place = turn_grpo(compared="turns"), world()
    possible, truth = outcomes(place, place.logits(), correct), gradient_of(earned(1.0)) / 3
    apart = {}
    for group in (2, 4, 8, 16):
        assert row.closed_form is not None
        claim = declared_gradient(row.closed_form, place, policy=place.logits(), possible=possible, group=group)
        apart[group] = float((claim - truth).norm() / truth.norm())
        assert group > 4 or close(expected(row, group), claim)
    assert all(1.7 < apart[n] / apart[2 * n] < 2.2 for n in (4, 8)) and apart[2] > 0.3


def test_with_a_reward_at_the_end_the_mean_over_all_turns_is_that_of_lengths() -> None:
    """Of a length-weighted baseline, which opo has over tokens."""
    step = replace(rollouts([[3, 1, 2]], [0, 1, 2, 0, 0, 1]), rewards=torch.tensor([[1.0, 0.0, 0.5]], dtype=F64))
    assert torch.allclose(turn_grpo(compared="turns").credits(step), objective("opo").credits(step))


def test_what_turns_are_compared_with_by_hand() -> None:
    """Returns 4, 3 | 6 | 2, 2, 1 in a group, and a rollout without a token."""
    paid = [[[1.0, 3.0, 9.0], [6.0, 9.0, 9.0], [0.0, 1.0, 1.0], [5.0, 5.0, 5.0]]]
    step = rollouts([[2, 1, 3, 0]], [0, 1, 0, 0, 1, 2], paid)
    by_hand = {
        "rollouts": [4 - 3, 3 - 1.25, 6 - 3, 2 - 3, 2 - 1.25, 1 - 0.25],
        "reached": [4 - 4, 3 - 2.5, 6 - 4, 2 - 4, 2 - 2.5, 0],
        "turns": [4 - 3, 3 - 3, 6 - 3, 2 - 3, 2 - 3, 1 - 3],
        "rewards": [1 - 7 / 3 + 3 - 2, 3 - 2, 6 - 7 / 3, -7 / 3 + 1 - 2 + 0, 1 - 2 + 0, 0],
    }
    for compared, values in by_hand.items():
        assert turn_grpo(compared=compared).credits(step).tolist() == pytest.approx(values), compared
    # Two rollouts reach turn 1, with returns 3 and 2 of deviation ½; one reaches turn 2.
    found = turn_grpo(compared="reached", scale="deviation", epsilon=0.0).credits(step).tolist()
    assert [found[place] for place in (1, 4, 5)] == pytest.approx([1, -1, 0])


@pytest.mark.parametrize("compared", ["rollouts", "reached", "turns", "rewards"])
def test_the_report_says_what_each_turn_has_of_the_gradient(compared: str) -> None:
    found = report(turn_grpo(compared=compared), group=3)
    fair = compared == "rollouts"
    assert found.turns_cosine is not None and (found.turns_cosine > 1 - 1e-12) == fair
    assert (max(found.turns) - min(found.turns) < 1e-12) == fair and "by turn" in str(found)
    assert report("dr_grpo", group=3).turns_cosine is None and "by turn" not in str(report("dr_grpo", group=3))


# Over a critic.


def true_values() -> Tensor:
    """[tokens] what the rest of the rollout earns on average, before each token."""
    place, step = world(), every_answer()
    to_come = turn_returns(step, raw, gamma=1.0)
    weight = place.chances(place.logits())[place.answer]
    total = torch.zeros(place.prefixes, dtype=F64).index_add(0, place.prefix, weight * to_come)
    reach = torch.zeros(place.prefixes, dtype=F64).index_add(0, place.prefix, weight)
    return (total / reach)[place.prefix]


@pytest.mark.parametrize("lam", [0.0, 0.6, 1.0])
def test_over_turns_too_only_the_true_critic_allows_a_short_horizon(lam: float) -> None:
    place, truth = world(), gradient_of(earned(1.0)) / 3
    weight, scores = place.chances(place.logits())[place.answer], place.scores(place.logits())
    right = turn_ppo(lam=lam).credits(replace(every_answer(), values=true_values()))
    wrong = turn_ppo(lam=lam).credits(every_answer())
    assert close((weight * right / 3) @ scores, truth)
    assert close((weight * wrong / 3) @ scores, truth) == (lam == 1)


def test_the_critic_is_read_as_turns_begin_and_taught_what_follows() -> None:
    step = rollouts([[3]], [0, 0, 1], [[[1.0, 4.0]]], values=[2.0, 70.0, 3.0])
    assert turn_ppo().credits(step).tolist() == [3, 3, 1]
    assert turn_ppo().value_targets(step).tolist() == [5, 5, 4]
    assert turn_ppo(lam=0.0).value_targets(step).tolist() == [4, 4, 4]


# Standardised by the step.


def as_one_turn(rollouts: Rollouts) -> Rollouts:
    assert rollouts.segment is not None
    return replace(rollouts, segment=torch.zeros_like(rollouts.segment), segment_rewards=rollouts.rewards[..., None])


@pytest.mark.parametrize("group", [2, 3, 4])
def test_one_turn_and_binary_rewards_keep_the_direction(group: int) -> None:
    """In a step of one prompt; real rewards do not."""
    row = seeing(rebn(), as_one_turn)
    binary, real = (
        gradient_of(torch.tensor([reward(y) for y in world().answers], dtype=F64))
        for reward in (correct, graded_reward)
    )
    assert cosine(expected(row, group), binary) > 1 - 1e-12
    assert cosine(expected(row, group, graded_reward), real) < 1 - 1e-5


def test_prompts_are_compared_with_each_other() -> None:
    """An easy prompt and a hard one: what is right on the easy one is praised less, what is wrong blamed more."""
    step = replace(rollouts([[1, 1], [1, 1]], [0] * 4), rewards=torch.tensor([[1.0, 1.0], [0.0, 1.0]], dtype=F64))
    credit = rebn().credits(step).tolist()
    assert credit == pytest.approx([1 / 3**0.5] * 2 + [-(3**0.5), 1 / 3**0.5])


# Budgets.


def by_budget() -> Tensor:
    """[answers, budgets] the reward of each answer, cut at each budget."""
    return torch.tensor([[correct(text[: cut + 1]) for cut in range(3)] for text in world().answers], dtype=F64)


@pytest.mark.parametrize("group", [2, 3, 4])
def test_brpo_climbs_the_score_at_a_budget_drawn_evenly(group: int) -> None:
    assert close(expected(brpo(), group), gradient_of(by_budget().mean(dim=1)) / 3)


@pytest.mark.parametrize("group", [2, 3, 4])
def test_the_released_form_shrinks_early_segments_most(group: int) -> None:
    """Segment j by 1 − (m−j)/(m·N); it climbs elsewhere."""
    place = world()
    start = place.lengths.cumsum(0) - place.lengths
    segment = torch.arange(len(place.answer)) - start[place.answer]
    to_come = torch.stack([by_budget()[y, j:].sum() / 3 for y, j in zip(place.answer, segment, strict=True)])
    shrunk = to_come * (1 - (3 - segment.to(F64)) / (3 * group)) / 3
    claim = (place.chances(place.logits())[place.answer] * shrunk) @ place.scores(place.logits())
    assert close(expected(brpo(baseline="group"), group), claim)
    assert cosine(claim, gradient_of(by_budget().mean(dim=1))) < 0.9999


def without_own_past(rollouts: Rollouts, advantage: Advantage) -> Tensor:
    assert rollouts.segment_rewards is not None and rollouts.segment is not None
    budgets = rollouts.segment_rewards.shape[2]
    scores = rollouts.segment_rewards.flatten(0, 1)
    past = torch.cat([torch.zeros_like(scores[:, :1]), scores[:, :-1]], dim=1)
    weight = 2.0 ** torch.arange(budgets, dtype=F64)
    known = torch.stack([(past * weight / 2)[:, : j + 1].sum(1) / max(2**j - 1, 1) for j in range(budgets)], dim=1)
    share = torch.arange(budgets) / budgets
    return budget_credit(rollouts, advantage) + (share * (1 - share) * known)[rollouts.sequence, rollouts.segment]


def test_own_past_scores_bias_nothing() -> None:
    bare = replace(brpo(), credit=without_own_past)
    assert close(expected(bare, 3), expected(brpo(), 3))
    step = every_answer()
    two = replace(brpo(), advantage=raw)
    assert not torch.allclose(two.credits(step), replace(bare, advantage=raw).credits(step), atol=1e-2)


def test_credit_over_budgets_by_hand() -> None:
    """Scores 0, 1, 1 and 1, 0, 0 at three budgets; the second answer ends in its second segment."""
    step = rollouts([[4, 2]], [0, 0, 1, 2, 0, 1], [[[0.0, 1.0, 1.0], [1.0, 0.0, 0.0]]])
    found = budget_credit(step, mean_centred) * 27
    # Segment 1 of the first: R = ⅔, V1 = 0, V2 = ⅓. Segment 2: R = ⅓, V1 = ⅓·⅔, V2 = ⅙. Of the second: R = 0, V1 = ⅔.
    assert found.tolist() == pytest.approx([4.5, 4.5, 12, 3.5, -4.5, -12])


@pytest.mark.parametrize(
    ("name", "option", "value"),
    [("turn_ppo", "lam", 1.5), ("turn_reinforce", "gamma", -0.1), ("rebn", "epsilon", -1.0)],
)
def test_options_of_turns_out_of_range_are_refused(name: str, option: str, value: float) -> None:
    with pytest.raises(ValueError, match=option):
        objective(name, **{option: value})
