"""The pure formulas at chosen points, and the identities that tie them together."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

import pytest
import torch
from torch import Tensor

from gnomon.objectives import (
    Denominators,
    PolicyGradient,
    Rollouts,
    Tokens,
    banded,
    capped,
    capped_drift,
    clip_mask,
    constant,
    divergence_clip,
    dr_grpo,
    dual_clip,
    geometric_clip,
    geometric_mask,
    geometric_of_clipped,
    grpo,
    held_clip,
    hinge_pairs,
    inverted_for_gains,
    k1_in_return,
    k2,
    k3,
    kernel_of_sequence,
    leave_one_out,
    less_overlong,
    logistic_pairs,
    mean_centred,
    mean_logistic_pairs,
    ppo_clip,
    probability_clip,
    probability_mask,
    prompt_mean,
    ratio_weighted_k3,
    raw,
    reinforce,
    rloo,
    sequence_masked,
    sequence_mean,
    sequence_ratio,
    sequence_sum,
    sequence_truncated,
    share_of_labels,
    soft_gate,
    soft_overlong,
    squared_log_ratio,
    squared_sequence_log_ratio,
    standardise,
    tapered,
    token_mean,
    truncated,
    unclipped,
    without_drifted_failures,
)
from gnomon.theory.exact import declared_gradient, moments
from gnomon.theory.world import correct, graded_reward, outcomes, world

F64 = torch.float64


def table(*rows: list[float]) -> Tensor:
    return torch.tensor(rows, dtype=F64)


def batch(lengths: list[int], **values: Tensor) -> Tokens:
    sequence = torch.repeat_interleave(torch.arange(len(lengths)), torch.tensor(lengths))
    zeros = torch.zeros(len(sequence), dtype=F64)
    vectors = {"logp": zeros, "behavior_logp": zeros, "advantage": zeros, **values}
    return Tokens(**vectors, sequence=sequence, group=torch.zeros_like(sequence))


def at(log_ratio: Tensor, advantage: Tensor | None = None) -> Tokens:
    """One token to a rollout, its policy that far from proximal and reference, the proximal as far from behavior."""
    index, zero = torch.arange(len(log_ratio)), torch.zeros_like(log_ratio)
    return Tokens(
        logp=log_ratio,
        proximal_logp=zero,
        behavior_logp=-log_ratio,
        reference_logp=zero,
        advantage=torch.ones_like(log_ratio) if advantage is None else advantage,
        sequence=index,
        group=index,
    )


# Advantages.


def test_advantages_of_one_group_worked_by_hand() -> None:
    rewards = table([1, 0, 0, 0])
    assert torch.equal(raw(rewards), rewards)
    assert torch.allclose(mean_centred(rewards), table([0.75, -0.25, -0.25, -0.25]))
    assert torch.allclose(leave_one_out(rewards), table([1, -1 / 3, -1 / 3, -1 / 3]))
    root = math.sqrt(3)
    assert torch.allclose(standardise(rewards, epsilon=0), table([root, -1 / root, -1 / root, -1 / root]))


@pytest.mark.parametrize("value", [0.0, 1.0, 0.1, 1.1, -0.3])
@pytest.mark.parametrize("dtype", [torch.float32, F64])
@pytest.mark.parametrize("size", [2, 3, 7])
def test_equal_rewards_teach_nothing_to_the_last_bit(value: float, dtype: torch.dtype, size: int) -> None:
    rewards = torch.full((2, size), value, dtype=dtype)
    for advantage in (mean_centred, leave_one_out, partial(standardise, epsilon=0.0)):
        assert torch.equal(advantage(rewards), torch.zeros_like(rewards))


def test_leave_one_out_refuses_a_group_of_one() -> None:
    with pytest.raises(ValueError, match="at least two"):
        leave_one_out(table([1.0]))


@pytest.mark.parametrize("rewards", [torch.ones(3), torch.ones(2, 0), torch.ones(2, 2, dtype=torch.int64)])
def test_rewards_of_another_shape_or_kind_are_refused(rewards: Tensor) -> None:
    for advantage in (raw, mean_centred, leave_one_out, partial(standardise, epsilon=0.0)):
        with pytest.raises(ValueError, match=r"\[groups, N\]"):
            advantage(rewards)


# Ratios and corrections.


def test_ppo_clip_lets_go_only_beyond_the_edge_the_advantage_points_to() -> None:
    ratio = torch.tensor([0.5, 0.79, 0.81, 1.0, 1.29, 1.31, 3.0], dtype=F64)
    keep = partial(ppo_clip, low=0.2, high=0.3)
    up, down = torch.ones_like(ratio), -torch.ones_like(ratio)
    assert torch.allclose(keep(at(ratio.log(), up)), ratio * torch.tensor([1, 1, 1, 1, 1, 0, 0]))
    assert torch.allclose(keep(at(ratio.log(), down)), ratio * torch.tensor([0, 0, 1, 1, 1, 1, 1]))


@pytest.mark.parametrize("dtype", [torch.float32, F64])
def test_a_token_on_the_edge_keeps_its_gradient(dtype: torch.dtype) -> None:
    edge = torch.tensor([0.7, -0.7], dtype=dtype)
    ratio = edge.exp().double()
    signs = torch.tensor([1.0, -1.0], dtype=dtype)
    kept = ppo_clip(at(edge, signs), low=1 - ratio[1].item(), high=ratio[0].item() - 1)
    assert torch.equal(kept, edge.exp())


def test_a_band_without_end_never_clips() -> None:
    log_ratio = torch.tensor([-80.0, -1.0, 1.0, 80.0])
    for sign in (-1.0, 1.0):
        advantage = torch.full_like(log_ratio, sign)
        free = ppo_clip(at(log_ratio, advantage), low=1.0, high=math.inf)
        assert torch.equal(free, unclipped(at(log_ratio, advantage)))


def test_truncation_is_a_ceiling_and_not_a_floor() -> None:
    weights = truncated(at(torch.tensor([0.01, 1.0, 1.9, 2.1, 1e9], dtype=F64).log()), cap=2.0)
    assert torch.allclose(weights, torch.tensor([0.01, 1.0, 1.9, 2.0, 2.0], dtype=F64))


MULTIPLIERS = {
    "unclipped": unclipped,
    "ppo_clip": partial(ppo_clip, low=0.2, high=0.2),
    "dual_clip": partial(dual_clip, low=0.2, high=0.2, ceiling=3.0),
    "capped": partial(capped, cap=5.0),
    "soft_gate": partial(soft_gate, gain=1.0, loss=1.05),
    "probability_clip": partial(probability_clip, low=0.2, high=0.2, cap=20.0),
    "tapered": tapered,
    "sequence_ratio": sequence_ratio,
    "geometric_clip": partial(geometric_clip, low=0.2, high=0.2),
    "geometric_of_clipped": partial(geometric_of_clipped, low=0.4, high=0.4),
    "logistic_pairs": partial(logistic_pairs, beta=0.1),
    "hinge_pairs": partial(hinge_pairs, beta=0.1),
    "mean_logistic_pairs": partial(mean_logistic_pairs, beta=2.0, margin=1.0),
    "truncated": partial(truncated, cap=2.0),
    "banded": partial(banded, least=0.5, most=5.0),
    "sequence_truncated": partial(sequence_truncated, cap=2.0),
    "sequence_masked": partial(sequence_masked, cap=10.0),
    "geometric_mask": partial(geometric_mask, least=0.999, most=1.001),
    "held_clip": partial(held_clip, low=0.2, high=0.28, ceiling=3.0),
    "inverted_for_gains": partial(inverted_for_gains, low=0.2, high=0.2, cap=3.0),
    "clip_mask": partial(clip_mask, low=0.2, high=0.2),
    "divergence_clip": partial(divergence_clip, low=0.05, high=0.05, cap=20.0),
    "probability_mask": partial(probability_mask, width=0.1),
    "without_drifted_failures": partial(without_drifted_failures, low=0.2, high=0.2, limit=0.5),
    "kernel_of_sequence": partial(kernel_of_sequence, gain_power=2.0, gain_decay=3.0, loss_power=3.0, loss_decay=2.0),
    "share_of_labels": partial(share_of_labels, temperature=1.0),
    "k3": k3,
    "ratio_weighted_k3": ratio_weighted_k3,
    "capped_drift": partial(capped_drift, cap=5.0),
}


@pytest.mark.parametrize("name", MULTIPLIERS)
@pytest.mark.parametrize("value", [80.0, 1e4, math.inf])
def test_multipliers_stay_finite_at_any_log_ratio(value: float, name: str) -> None:
    tokens = at(torch.tensor([value, -value, value, -value]), torch.tensor([-1.0, 1.0, 1.0, -1.0]))
    assert torch.isfinite(MULTIPLIERS[name](tokens)).all()


@pytest.mark.parametrize("name", MULTIPLIERS)
def test_a_log_ratio_that_is_not_a_number_is_not_hidden(name: str) -> None:
    assert MULTIPLIERS[name](at(torch.tensor([math.nan]))).isnan()


def test_a_rollout_shares_its_ratio_and_no_other_does() -> None:
    """Two rollouts of two and three tokens, worked by hand."""
    ratio = torch.tensor([2.0, 8.0, 0.5, 1.0, 2.0], dtype=F64)
    moved = replace(batch([2, 3], logp=ratio.log()), advantage=torch.ones(5, dtype=F64))
    assert sequence_ratio(moved).tolist() == pytest.approx([16, 16, 1, 1, 1])
    assert geometric_clip(moved, low=0.2, high=9.0).tolist() == pytest.approx([4, 4, 1, 1, 1])
    assert geometric_clip(moved, low=0.2, high=0.2).tolist() == pytest.approx([0, 0, 1, 1, 1])
    held = geometric_of_clipped(moved, low=0.0, high=math.log(4))
    assert held.tolist() == pytest.approx([8**0.5, 0, 1, 1, 1])
    apart = replace(moved, proximal_logp=moved.logp)
    assert sequence_truncated(apart, cap=3.0).tolist() == pytest.approx([3, 3, 1, 1, 1])
    assert sequence_masked(apart, cap=3.0).tolist() == pytest.approx([0, 0, 1, 1, 1])
    assert geometric_mask(apart, least=0.9, most=3.0).tolist() == [0, 0, 1, 1, 1]
    assert banded(apart, least=0.9, most=3.0).tolist() == pytest.approx([2, 0, 0, 1, 2])
    assert banded(apart, least=0.0, most=3.0).tolist() == pytest.approx([2, 0, 0.5, 1, 2])


# Penalties.


@pytest.mark.parametrize(
    "penalty", [k1_in_return, k2, k3, ratio_weighted_k3, squared_log_ratio, squared_sequence_log_ratio]
)
def test_a_penalty_pulls_towards_the_reference(penalty: object) -> None:
    assert callable(penalty)
    pull = penalty(at(torch.tensor([-1.0, 0.0, 1.0])))
    assert pull[0] > 0 and pull[1] == 0 and pull[2] < 0


@pytest.mark.parametrize(("penalty", "forward"), [(k2, True), (k3, False)])
def test_each_penalty_descends_the_divergence_it_names(penalty: object, forward: bool) -> None:
    assert callable(penalty)
    place = world()
    policy = place.logits().requires_grad_()
    reference = torch.cos(place.logits() * 3)
    logp, logq = policy.log_softmax(1), reference.log_softmax(1)
    divergence = (logp.exp() * (logp - logq) if forward else logq.exp() * (logq - logp)).sum(1)
    chance = place.chances(policy.detach())
    visits = torch.zeros(place.prefixes, dtype=F64)
    for prefix in range(place.prefixes):
        through = sorted({int(y) for y in place.answer[place.prefix == prefix]})
        visits[prefix] = chance[through].sum()
    (slope,) = torch.autograd.grad(visits @ divergence, policy)
    kappa = penalty(at(place.logp(policy.detach()) - place.logp(reference)))
    found = (chance[place.answer] * kappa) @ place.scores(policy.detach())
    assert torch.allclose(found, -slope.flatten(), atol=1e-12)


def reference_logits() -> Tensor:
    return torch.cos(world().logits() * 3)


def test_the_log_ratio_in_the_return_descends_the_divergence_of_whole_answers() -> None:
    """Unlike a penalty on the next token alone, it counts where an action leads."""
    place = world()
    policy = place.logits().requires_grad_()
    logp, logq = place.per_answer(place.logp(policy)), place.per_answer(place.logp(reference_logits()))
    (slope,) = torch.autograd.grad(logp.exp() @ (logp - logq), policy)
    now = policy.detach()
    tokens = replace(at(place.logp(now) - place.logp(reference_logits())), sequence=place.answer)
    chance = place.chances(now)[place.answer]

    def found(penalty: object) -> Tensor:
        assert callable(penalty)
        return (chance * penalty(tokens)) @ place.scores(now)

    assert torch.allclose(found(k1_in_return), -slope.flatten(), atol=1e-12)
    assert not torch.allclose(found(k2), -slope.flatten(), atol=1e-2)


def test_weighted_k3_descends_the_divergence_it_estimates_at_any_lag() -> None:
    """At the states of behavior, actions drawn by behavior."""
    place = world()
    policy, behavior = place.logits().requires_grad_(), place.logits().roll(1, dims=0)
    logp, logq = policy.log_softmax(1), reference_logits().log_softmax(1)
    chance = place.chances(behavior)
    visits = torch.stack([chance[place.answer[place.prefix == s].unique()].sum() for s in range(place.prefixes)])
    (slope,) = torch.autograd.grad(visits @ (logp.exp() * (logp - logq)).sum(1), policy)
    now = policy.detach()
    index = torch.arange(len(place.answer))
    tokens = Tokens(
        logp=place.logp(now),
        behavior_logp=place.logp(behavior),
        reference_logp=place.logp(reference_logits()),
        advantage=torch.zeros(len(index), dtype=F64),
        sequence=index,
        group=index,
    )
    found = (chance[place.answer] * ratio_weighted_k3(tokens)) @ place.scores(now)
    assert torch.allclose(found, -slope.flatten(), atol=1e-12)
    held = (tokens.logp - tokens.behavior_logp).exp() * k3(tokens)
    assert not torch.allclose((chance[place.answer] * held) @ place.scores(now), -slope.flatten(), atol=1e-2)


def test_the_squared_log_ratio_needs_no_reference() -> None:
    logp = torch.tensor([-0.3, -2.0, -1.0], dtype=F64, requires_grad=True)
    behavior = torch.tensor([-0.5, -1.0, -1.0], dtype=F64)
    (slope,) = torch.autograd.grad((logp - behavior).square().sum(), logp)
    index = torch.arange(3)
    tokens = Tokens(
        logp=logp.detach(), behavior_logp=behavior, advantage=torch.zeros(3, dtype=F64), sequence=index, group=index
    )
    assert torch.allclose(squared_log_ratio(tokens), -slope)
    row = replace(reinforce(), penalty=squared_log_ratio, penalty_weight=0.5)
    sizes = Denominators(groups=3, sequences=3, tokens=3, max_tokens=1)
    assert not row.needs_reference and torch.allclose(row.coefficients(tokens, sizes), -slope / 6)
    with pytest.raises(ValueError, match="needs reference_logp"):
        replace(row, penalty=k1_in_return).coefficients(tokens, sizes)


# Shaping.


def test_soft_overlong_falls_over_its_buffer() -> None:
    lengths = torch.tensor([0, 16384, 16385, 18432, 20480, 20481, 99999])
    found = soft_overlong(lengths, max_tokens=20480, buffer=4096)
    assert found.tolist() == pytest.approx([0, 0, -1 / 4096, -0.5, -1, -1, -1])
    assert soft_overlong(torch.tensor([1, 4]), max_tokens=4, buffer=4).tolist() == [-0.25, -1.0]
    for buffer in (0, 5):
        with pytest.raises(ValueError, match="buffer"):
            soft_overlong(lengths, max_tokens=4, buffer=buffer)


def test_credit_is_given_for_rewards_less_the_overlong_punishment() -> None:
    """By hand: of L_max 4 and a buffer of 2, lengths 1 … 4 lose 0, 0, 1/2 and 1."""
    row = dr_grpo()
    shaped = replace(row, credit=less_overlong(row.credit, max_tokens=4, buffer=2))
    lengths = torch.tensor([[1, 2], [3, 4]])
    rollouts = Rollouts(rewards=torch.tensor([[1.0, 0.0], [1.0, 1.0]]), lengths=lengths)
    found = shaped.credits(rollouts).tolist()
    assert found == [0.5, -0.5, -0.5, 0.25, 0.25, 0.25, -0.25, -0.25, -0.25, -0.25]
    with pytest.raises(ValueError, match="part by part"):
        shaped.credits(replace(rollouts, segment_rewards=torch.zeros(2, 2, 1)))
    with pytest.raises(ValueError, match="buffer"):
        less_overlong(row.credit, max_tokens=4, buffer=5)


# Sums over a rollout.


def test_a_sum_over_a_rollout_is_the_same_in_every_order_of_its_tokens() -> None:
    generator = torch.Generator().manual_seed(0)
    for dtype in (torch.float32, F64):
        values = torch.randn(60, generator=generator, dtype=dtype) * 1e3
        tokens = replace(batch([20, 0, 30, 10], logp=values), behavior_logp=values)
        total = tokens.per_sequence(values)
        for place, part in ((0, slice(0, 20)), (2, slice(20, 50)), (3, slice(50, 60))):
            assert torch.allclose(total[tokens.sequence == place], values[part].sum(), rtol=1e-4)
        order = torch.randperm(60, generator=generator)
        again = replace(tokens, sequence=tokens.sequence[order]).per_sequence(values[order])
        assert torch.equal(again, total[order])
    assert tokens.lengths.tolist() == [20] * 20 + [30] * 30 + [10] * 10
    assert batch([0, 0]).per_sequence(torch.zeros(0, dtype=F64)).shape == (0,)


# Aggregates.


def test_weights_of_a_step_worked_by_hand() -> None:
    tokens = batch([2, 0, 4])
    sizes = Denominators(groups=1, sequences=3, tokens=6, max_tokens=5)
    assert sequence_sum(tokens, sizes).tolist() == pytest.approx([1 / 3] * 6)
    assert constant(tokens, sizes).tolist() == pytest.approx([1 / 15] * 6)
    assert sequence_mean(tokens, sizes).tolist() == pytest.approx([1 / 6] * 2 + [1 / 12] * 4)
    assert token_mean(tokens, sizes).tolist() == pytest.approx([1 / 6] * 6)


def test_the_mean_over_prompts_worked_by_hand() -> None:
    tokens = replace(batch([2, 0, 4]), group=torch.tensor([0, 0, 1, 1, 1, 1]))
    sizes = Denominators(groups=2, sequences=3, tokens=6, max_tokens=5, group_tokens=(2, 4))
    assert prompt_mean(tokens, sizes).tolist() == pytest.approx([1 / 4] * 2 + [1 / 8] * 4)
    with pytest.raises(ValueError, match="group_tokens"):
        prompt_mean(tokens, replace(sizes, group_tokens=()))


@pytest.mark.parametrize("aggregate", [sequence_sum, constant, sequence_mean, token_mean])
def test_a_step_without_tokens_has_no_weights(aggregate: object) -> None:
    assert callable(aggregate)
    empty = aggregate(batch([0, 0]), Denominators(groups=1, sequences=2, tokens=0, max_tokens=5))
    assert empty.shape == (0,) and empty.dtype == F64


# Tokens.


def test_tokens_of_unequal_length_are_refused() -> None:
    with pytest.raises(ValueError, match="advantage has shape"):
        batch([2, 1], advantage=torch.zeros(2))
    with pytest.raises(ValueError, match="flat"):
        batch([2, 1], logp=torch.zeros(3, 1))


def test_a_fractional_index_is_refused() -> None:
    whole = batch([2])
    with pytest.raises(ValueError, match="sequence is an index"):
        replace(whole, sequence=whole.sequence.float())


@pytest.mark.parametrize("field", ["groups", "sequences", "max_tokens"])
def test_a_step_of_nothing_is_refused(field: str) -> None:
    with pytest.raises(ValueError, match=field):
        Denominators(**{"groups": 1, "sequences": 1, "tokens": 1, "max_tokens": 1, field: 0})


# Identities, by enumeration.


def expected(row: object, group: int, reward: object = correct) -> Tensor:
    place = world()
    policy = place.logits()
    possible = outcomes(place, policy, reward)
    return moments(row, place, policy=policy, behavior=policy, possible=possible, group=group).mean


def policy_gradient(reward: object = correct) -> Tensor:
    """∇E[r] by differentiating the sum over all answers."""
    place = world()
    policy = place.logits().requires_grad_()
    rewards = torch.tensor([reward(answer) for answer in place.answers], dtype=F64)
    (slope,) = torch.autograd.grad(place.chances(policy) @ rewards, policy)
    return slope.flatten()


@pytest.mark.parametrize("reward", [correct, graded_reward])
@pytest.mark.parametrize("group", [1, 2, 3, 4])
def test_reinforce_and_leave_one_out_are_the_policy_gradient(group: int, reward: object) -> None:
    truth = policy_gradient(reward)
    assert torch.allclose(expected(reinforce(), group, reward), truth, rtol=0, atol=1e-12)
    if group > 1:
        assert torch.allclose(expected(rloo(), group, reward), truth, rtol=0, atol=1e-12)


@pytest.mark.parametrize("group", [1, 2, 3, 4])
def test_the_group_mean_costs_one_part_in_n(group: int) -> None:
    row = replace(reinforce(), advantage=mean_centred)
    assert torch.allclose(expected(row, group), policy_gradient() * (group - 1) / group, rtol=0, atol=1e-12)


def test_standardised_pairs_are_leave_one_out_pairs() -> None:
    pairs = table([0, 0], [0, 1], [1, 0], [1, 1])
    assert torch.allclose(standardise(pairs, epsilon=0), leave_one_out(pairs))


@pytest.mark.parametrize("group", [1, 2, 3, 4])
def test_standardising_binary_rewards_scales_the_policy_gradient(group: int) -> None:
    """w(p) = Σₘ βₘ C(N−1, m) pᵐ (1−p)^{N−1−m}, βₘ = √((N−1−m)/(m+1)) + √(m/(N−m))."""

    def weight(p: float, n: int, limit: int) -> float:
        beta = [math.sqrt((n - 1 - m) / (m + 1)) + math.sqrt(m / (n - m)) for m in range(n)]
        return math.fsum(b * math.comb(n - 1, m) * p**m * (1 - p) ** (n - 1 - m) for m, b in enumerate(beta))

    row = replace(reinforce(), advantage=partial(standardise, epsilon=0.0))
    place = world()
    possible = outcomes(place, place.logits(), correct)
    target = PolicyGradient(weight=weight, text="w(p) ∇p")
    claim = declared_gradient(target, place, policy=place.logits(), possible=possible, group=group)
    assert torch.allclose(expected(row, group), claim, rtol=0, atol=1e-12)


def test_the_default_of_grpo_points_elsewhere_and_its_length_share_is_why() -> None:
    truth = policy_gradient()

    def cosine(row: object) -> float:
        return torch.nn.functional.cosine_similarity(expected(row, 4), truth, dim=0).item()

    assert cosine(grpo()) < 0.98
    assert cosine(replace(grpo(), aggregate=sequence_sum)) == pytest.approx(1, abs=1e-12)


def test_the_ratio_of_whole_sequences_is_exact_at_any_lag() -> None:
    def whole_ratio(tokens: Tokens, sizes: Denominators) -> Tensor:
        log_ratio = torch.zeros(int(tokens.sequence.max()) + 1, dtype=F64)
        log_ratio.index_add_(0, tokens.sequence, tokens.logp - tokens.behavior_logp)
        return log_ratio.exp()[tokens.sequence] / sizes.sequences

    place = world()
    policy, behavior = place.logits(), place.logits().roll(1, dims=0)
    row = replace(reinforce(), aggregate=whole_ratio)
    possible = outcomes(place, behavior, correct)
    found = moments(row, place, policy=policy, behavior=behavior, possible=possible, group=2).mean
    assert torch.allclose(found, policy_gradient(), rtol=0, atol=1e-12)
    blind = moments(reinforce(), place, policy=policy, behavior=behavior, possible=possible, group=2).mean
    assert not torch.allclose(blind, policy_gradient(), atol=1e-3)
