"""What is said of credit that looks beyond rewards, on the rows that ship: by enumeration, nothing is sampled."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from gnomon.objectives import (
    Objective,
    Rollouts,
    dr_grpo,
    objective,
    rloo,
    seed_grpo,
    seed_grpo_loo,
    semantic_entropy,
)
from gnomon.objectives.exact import correct, graded, moments, outcomes, world

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


@pytest.mark.parametrize("reward", [correct, graded])
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
    found = expected(seed_grpo_loo(0.7, fade), group, reward)  # type: ignore[arg-type]
    assert close(found, weight / place.max_tokens * slope(reward))


def test_the_own_answer_in_the_entropy_bends_the_gradient() -> None:
    """Not in pairs: there it says only whether two answers differ, and two that do not earn the same."""
    assert cosine(expected(seed_grpo(), 2), slope()) == pytest.approx(1, abs=1e-12)
    for group in (3, 4):
        assert 0.99 < cosine(expected(seed_grpo(0.9), group), slope()) < 0.9998
        assert cosine(expected(seed_grpo_loo(0.9), group), slope()) == pytest.approx(1, abs=1e-12)


def test_without_a_weight_these_are_their_origins() -> None:
    for fade in FADES:
        assert close(expected(seed_grpo(0.0, fade), 3), expected(dr_grpo(), 3))  # type: ignore[arg-type]
        plain = expected(rloo(), 3) / world().max_tokens
        assert close(expected(seed_grpo_loo(0.0, fade), 3), plain)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["seed_grpo", "seed_grpo_loo"])
def test_answers_that_are_not_known_are_no_answers_at_all(name: str) -> None:
    with pytest.raises(ValueError, match="not known"):
        objective(name).credits(step([[1.0, 0.0]]))


@pytest.mark.parametrize("name", ["seed_grpo", "seed_grpo_loo"])
@pytest.mark.parametrize(
    ("options", "message"),
    [({"alpha": 1.0}, "below 1"), ({"alpha": -0.1}, "at least 0"), ({"fade": "cubic"}, "known: linear")],
)
def test_a_fade_that_does_not_exist_is_refused(name: str, options: dict[str, float | str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        objective(name, **options)
