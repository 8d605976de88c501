"""Rows that learn from pairs, away from where policy and reference agree: by enumeration."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence

import pytest
import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from gnomon.objectives import (
    Denominators,
    Objective,
    Tokens,
    best_against_worst,
    online_dpo,
    online_simpo,
    reference_likelihood,
    xpo,
)
from gnomon.theory.world import graded_reward, world

F64 = torch.float64
PLACE = world()
ANSWERS = len(PLACE.answers)
REWARDS = torch.tensor([graded_reward(text) for text in PLACE.answers], dtype=F64)


def policy() -> Tensor:
    return PLACE.logits()


def reference() -> Tensor:
    return torch.cos(PLACE.logits() * 3)


def behavior() -> Tensor:
    return PLACE.logits().roll(1, dims=0)


def coefficients(row: Objective, groups: Sequence[Sequence[int]], rewards: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """κ of a step of given answers, the token of the world that each stands at, and its group.

    Args: groups, the answers of every group; rewards, [groups, N].
    """
    answers = torch.tensor(groups).flatten()
    lengths = PLACE.lengths[answers]
    sequence = torch.arange(len(answers)).repeat_interleave(lengths)
    start = (PLACE.lengths.cumsum(0) - PLACE.lengths)[answers] - (lengths.cumsum(0) - lengths)
    token = torch.arange(len(sequence)) + start[sequence]
    tokens = Tokens(
        logp=PLACE.logp(policy())[token],
        behavior_logp=PLACE.logp(behavior())[token],
        reference_logp=PLACE.logp(reference())[token],
        advantage=row.advantage(rewards).flatten()[sequence],
        sequence=sequence,
        group=sequence // rewards.shape[1],
    )
    sizes = Denominators(groups=1, sequences=len(answers), tokens=len(token), max_tokens=3)
    return row.coefficients(tokens, sizes), token, tokens.group


def answers_logp(logits: Tensor) -> Tensor:
    return PLACE.per_answer(PLACE.logp(logits))


GAINS: dict[str, tuple[Objective, Callable[[Tensor], Tensor], bool]] = {
    "online_dpo": (online_dpo(0.7), lambda gap: logsigmoid(0.7 * gap), True),
    "online_ipo": (online_dpo(0.7, "squared"), lambda gap: -((gap - 1 / 1.4) ** 2), True),
    "online_slic": (online_dpo(0.7, "hinge"), lambda gap: -(1 - 0.7 * gap).relu(), True),
    "online_simpo": (online_simpo(1.2, 0.3), lambda gap: logsigmoid(1.2 * gap - 0.3), False),
}
"""A row, what a pair gains by its gap, and whether the gap is measured from the reference, else per token."""


@pytest.mark.parametrize("group", [2, 3])
@pytest.mark.parametrize("name", GAINS)
def test_pairs_climb_the_expected_gain_with_the_law_of_pairs_held_still(name: str, group: int) -> None:
    """All groups that behavior can give, none of policy, behavior and reference alike; the slope by autodiff."""
    row, gain, anchored = GAINS[name]
    members = torch.cartesian_prod(*[torch.arange(ANSWERS)] * group)
    chance = PLACE.chances(behavior())[members].prod(dim=1)
    kappa, token, owner = coefficients(row, members.tolist(), REWARDS[members])
    found = (chance[owner] * kappa) @ PLACE.scores(policy())[token]
    logits = policy().requires_grad_()
    now = answers_logp(logits)
    score = now - answers_logp(reference()) if anchored else now / PLACE.lengths
    total = torch.zeros((), dtype=F64)
    for share, answers in zip(chance.tolist(), members.tolist(), strict=True):
        earned = REWARDS[answers]
        if earned.max() > earned.min():
            better = [y for y, r in zip(answers, earned, strict=True) if r == earned.max()]
            worse = [y for y, r in zip(answers, earned, strict=True) if r == earned.min()]
            gaps = torch.stack([score[w] - score[v] for w, v in itertools.product(better, worse)])
            total = total + share * gain(gaps).mean()
    (slope,) = torch.autograd.grad(total, logits)
    assert float(slope.abs().max()) > 1e-3
    assert float((found - slope.flatten()).abs().max()) < 1e-14


def judged(row: Objective, first: int, second: int, chance: float) -> Tensor:
    """κ of both answers of a pair, averaged over a judge who prefers the first with that chance."""
    wins, losses = (
        coefficients(row, [[first, second]], torch.tensor([rewards], dtype=F64))[0]
        for rewards in ([1.0, 0.0], [0.0, 1.0])
    )
    return chance * wins + (1 - chance) * losses


PAIRS = [(0, 1), (3, 7), (14, 2), (5, 12)]


@pytest.mark.parametrize("pair", PAIRS)
def test_dpo_stands_still_where_the_judge_is_a_coin_with_the_odds_of_the_margin(pair: tuple[int, int]) -> None:
    """A judge by Bradley and Terry whose rewards are the implicit ones, β·log(π/ref), has nothing to teach."""
    implicit = 0.7 * (answers_logp(policy()) - answers_logp(reference()))
    odds = torch.sigmoid(implicit[pair[0]] - implicit[pair[1]]).item()
    assert float(judged(online_dpo(0.7), *pair, odds).abs().max()) < 1e-15
    assert float(judged(online_dpo(0.7), *pair, odds - 0.1).abs().max()) > 1e-2


@pytest.mark.parametrize("pair", PAIRS)
def test_ipo_stands_still_where_the_gap_is_the_excess_of_preference_over_twice_beta(pair: tuple[int, int]) -> None:
    """Unlike DPO's, its gap stays finite under a judge who is never in doubt: 1/(2β)."""
    apart = answers_logp(policy()) - answers_logp(reference())
    gap = float(apart[pair[0]] - apart[pair[1]])
    beta = 0.4 / max(abs(gap), 0.1)
    chance = (1 + 2 * beta * gap) / 2
    assert 0 < chance < 1
    assert float(judged(online_dpo(beta, "squared"), *pair, chance).abs().max()) < 1e-13
    certain = 1 / (2 * abs(gap))
    assert float(judged(online_dpo(certain, "squared"), *pair, float(gap > 0)).abs().max()) < 1e-13


def test_xpo_moves_away_from_what_the_reference_would_say() -> None:
    """The part beside DPO's is −α·∇E_ref[log π], though no answer is drawn from the reference."""
    logits = policy().requires_grad_()
    (slope,) = torch.autograd.grad(PLACE.chances(reference()) @ answers_logp(logits), logits)
    members = torch.cartesian_prod(*[torch.arange(ANSWERS)] * 2)
    chance = PLACE.chances(behavior())[members].prod(dim=1)
    plain, token, owner = coefficients(online_dpo(0.7), members.tolist(), REWARDS[members])
    whole, _, _ = coefficients(xpo(0.7, 0.3), members.tolist(), REWARDS[members])
    extra = (chance[owner] * (whole - plain)) @ PLACE.scores(policy())[token]
    assert float((extra + 0.3 * slope.flatten()).abs().max()) < 1e-14
    assert float(slope.abs().max()) > 1e-2


def test_every_best_meets_every_worst() -> None:
    rewards = torch.tensor([[1, 0, 0, 1], [1, 0.5, 0, 0], [0.3, 0.3, 0.3, 0.3], [0, 0, 0, 2]], dtype=F64)
    third = 1 / 3
    expected = [[0.5, -0.5, -0.5, 0.5], [1, 0, -0.5, -0.5], [0, 0, 0, 0], [-third, -third, -third, 1]]
    assert best_against_worst(rewards).tolist() == [pytest.approx(row) for row in expected]
    with pytest.raises(ValueError, match="floating-point"):
        best_against_worst(torch.ones(2, 2, dtype=torch.int64))


def step(lengths: list[int], advantage: list[float], apart: list[float]) -> Tokens:
    """One group, the log-ratio to the reference of every rollout spread over its tokens."""
    sequence = torch.arange(len(lengths)).repeat_interleave(torch.tensor(lengths))
    logp = torch.tensor([x / max(n, 1) for x, n in zip(apart, lengths, strict=True)], dtype=F64)[sequence]
    return Tokens(
        logp=logp,
        behavior_logp=logp,
        reference_logp=torch.zeros_like(logp),
        advantage=torch.tensor(advantage, dtype=F64)[sequence],
        sequence=sequence,
        group=torch.zeros_like(sequence),
    )


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def test_a_rollout_without_tokens_is_an_opponent_whose_margin_is_zero() -> None:
    """Two worse rollouts, of which one is empty, against one better; then none but an empty one."""
    pull = online_dpo(0.5).ratio
    found = pull(step([2, 1, 0], [1, -0.5, -0.5], [1.2, -0.4, 0.0])).tolist()
    met, unmet = 0.5 * sigmoid(-0.5 * 1.6), 0.5 * sigmoid(-0.5 * 1.2)
    assert found == pytest.approx([(met + unmet) / 2] * 2 + [met])
    assert pull(step([2, 0], [1, -1], [1.2, 0.0])).tolist() == pytest.approx([unmet] * 2)
    assert pull(step([0, 2], [1, -1], [0.0, 1.2])).tolist() == pytest.approx([0.5 * sigmoid(0.5 * 1.2)] * 2)


def test_pulls_worked_by_hand() -> None:
    """A pair with log-ratios 3 and −1 to the reference, of two tokens and one."""
    pair = step([2, 1], [1, -1], [3.0, -1.0])
    assert online_dpo(0.1).ratio(pair).tolist() == pytest.approx([0.1 * sigmoid(-0.4)] * 3)
    assert online_dpo(0.1, "squared").ratio(pair).tolist() == pytest.approx([10 - 8] * 3)
    assert online_dpo(0.5, "squared").ratio(pair).tolist() == pytest.approx([2 - 8] * 3)
    assert online_dpo(0.1, "hinge").ratio(pair).tolist() == pytest.approx([0.1] * 3)
    assert online_dpo(0.3, "hinge").ratio(pair).tolist() == [0.0] * 3
    pull = 2 * sigmoid(1 - 2 * (1.5 + 1))
    assert online_simpo(2.0, 1.0).ratio(pair).tolist() == pytest.approx([pull / 2] * 2 + [pull])
    assert reference_likelihood(pair).tolist() == pytest.approx([-math.exp(-3) / 2] * 2 + [-math.exp(1) / 2])
