"""Timesteps of k tokens: the formulas of docs/lab/timesteps.md by sums over prefixes, and its tables."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
from torch import Tensor

from gnomon.objectives import rloo
from gnomon.theory.exact import Moments, declared_gradient
from gnomon.theory.timesteps import timestep_gradient
from gnomon.theory.world import ALPHABET, World, correct, outcomes, world

PAGE = Path(__file__).parents[2] / "docs/lab/timesteps.md"
SIZES = (1, 2, 3, 6)
PLACE = world(6)
POLICY = PLACE.logits()
REWARDS = torch.tensor([correct(answer) for answer in PLACE.answers], dtype=POLICY.dtype)


def gradient(size: int, lag: float = 0.0, critic: Tensor | None = None, place: World = PLACE) -> Moments:
    policy = place.logits()
    rewards = torch.tensor([correct(answer) for answer in place.answers], dtype=policy.dtype)
    behavior = policy + lag * place.anchor()
    return timestep_gradient(place, size, policy=policy, behavior=behavior, rewards=rewards, critic=critic)


def true_values(space: World, *, policy: Tensor, rewards: Tensor) -> Tensor:
    """[prefixes] the expected reward of an answer that the policy continues from each prefix."""
    logp = space.logp(policy)
    start = space.lengths.cumsum(0) - space.lengths
    before = logp.cumsum(0) - logp
    reached = (before - before[start][space.answer]).exp()  # Chance of the prefix itself.
    whole = space.chances(policy)[space.answer]
    later = whole / reached * rewards[space.answer]
    return later.new_zeros(space.prefixes).index_add(0, space.prefix, later)


TRUTH = gradient(6).mean


def test_without_a_critic_every_size_is_the_policy_gradient_reply_by_reply() -> None:
    possible = outcomes(PLACE, POLICY, correct)
    claim = declared_gradient(rloo().target, PLACE, policy=POLICY, possible=possible, group=2)
    for size in range(1, 7):
        found = gradient(size)
        assert torch.allclose(found.mean, claim, rtol=0, atol=1e-12)
        assert found.variance == pytest.approx(gradient(6).variance, rel=1e-12)


def test_one_timestep_is_exact_off_policy_and_single_tokens_keep_the_states_of_the_sampler() -> None:
    place, lag = world(3), 0.7
    policy = place.logits()
    behavior = policy + lag * place.anchor()
    assert torch.allclose(gradient(3, lag, place=place).mean, gradient(3, place=place).mean, rtol=0, atol=1e-12)
    mu, pi = (logits.softmax(dim=1) for logits in (behavior, policy))
    prefixes = ["", "a", "b", "aa", "ab", "ba", "bb"]  # In the world's order.
    number = {prefix: i for i, prefix in enumerate(prefixes)}

    def value(text: str) -> float:
        """Q_μ: the expected reward of what μ makes of a beginning."""
        if text in place.answers:
            return correct(text)
        return sum(float(mu[number[text], i]) * value(text + token) for i, token in enumerate(ALPHABET))

    def reached(text: str) -> float:
        return float(torch.prod(torch.stack([torch.tensor(1.0, dtype=mu.dtype)] + [
            mu[number[text[:i]], ALPHABET.index(token)] for i, token in enumerate(text)
        ])))  # fmt: skip

    wanted = torch.zeros_like(policy)
    for prefix, row in number.items():
        for i, token in enumerate(ALPHABET):
            score = -pi[row].clone()
            score[i] += 1
            wanted[row] += reached(prefix) * pi[row, i] * value(prefix + token) * score
    found = gradient(1, lag, place=place).mean
    assert torch.allclose(found, wanted.flatten(), rtol=0, atol=1e-12)
    assert float((found - gradient(3, place=place).mean).norm()) > 0.1 * float(found.norm())


@pytest.mark.parametrize("size", [1, 2, 3, 6])
def test_the_error_of_a_critic_enters_at_every_boundary(size: int) -> None:
    critic = PLACE.guess()
    error = critic - true_values(PLACE, policy=POLICY, rewards=REWARDS)
    start = {answer: int(begin) for answer, begin in zip(PLACE.answers, PLACE.lengths.cumsum(0), strict=True)}
    scores, chances = PLACE.scores(POLICY), PLACE.chances(POLICY)
    wanted = torch.zeros_like(TRUTH)
    for i, answer in enumerate(PLACE.answers):
        first = start[answer] - len(answer)
        for begin in range(0, len(answer), size):
            end = begin + size
            if end < len(answer):
                wanted += chances[i] * error[PLACE.prefix[first + end]] * scores[first + begin : first + end].sum(dim=0)
    found = gradient(size, critic=critic).mean - TRUTH
    assert torch.allclose(found, wanted, rtol=0, atol=1e-12)
    assert (size == 6) == (float(wanted.norm()) == 0)
    exact = true_values(PLACE, policy=POLICY, rewards=REWARDS)
    assert torch.allclose(gradient(size, critic=exact).mean, TRUTH, rtol=0, atol=1e-12)


def test_the_tables_of_the_page_are_computed() -> None:
    exact = true_values(PLACE, policy=POLICY, rewards=REWARDS)
    critics = {"exact": exact, "half of it": exact / 2, "unrelated": PLACE.guess()}
    rows = re.findall(r"^\| ([^|]+) ((?:\| \d[\d.]*, \d[\d.]* )+)\|$", PAGE.read_text(), re.MULTILINE)
    assert [name for name, _ in rows] == ["0.3", "2", "-2", *critics]
    for name, cells in rows:
        found = [gradient(k, critic=critics[name]) if name in critics else gradient(k, float(name)) for k in SIZES]
        norm = float(TRUTH.norm())
        each = [f"{float((one.mean - TRUTH).norm()) / norm:.3f}, {one.variance**0.5 / norm:.2f}" for one in found]
        assert [cell.strip() for cell in cells.strip("| ").split("|")] == each, name
