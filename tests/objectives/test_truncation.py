"""A sampler that draws from part of the vocabulary: which ratio is exact, by enumeration, and which are not."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from gnomon.objectives import Objective, kept_min_p, kept_top_k, kept_top_p, reinforce, restricted_logp, sequence_is
from gnomon.theory.exact import moments
from gnomon.theory.world import Outcomes, correct, outcomes, world

F64 = torch.float64
KEPT: dict[str, Callable[[Tensor], Tensor]] = {
    "top-k": partial(kept_top_k, k=2),
    "top-p": partial(kept_top_p, p=0.8),
    "min-p": partial(kept_min_p, p=0.3),
}


def policies() -> tuple[Tensor, Tensor]:
    """A policy, and a sampler far from it: their sets differ."""
    policy = world().logits()
    return policy, policy - 0.8 * torch.cos(2.3 * torch.arange(policy.numel(), dtype=F64)).reshape(policy.shape)


def sampled(behavior: Tensor, kept: Tensor) -> Outcomes:
    """The answers that the cut-off sampler can give, with their chances."""
    place = world()
    found = outcomes(place, restricted_logp(behavior, kept), correct)
    there = found.chance > 0
    return replace(found, answer=found.answer[there], chance=found.chance[there], reward=found.reward[there])


def expected(row: Objective, policy: Tensor, behavior: Tensor, possible: Outcomes, group: int = 2) -> Tensor:
    """What the row climbs if policy and behavior are taken for the distributions of those logits."""
    return moments(row, world(), policy=policy, behavior=behavior, possible=possible, group=group).mean


def slope(policy: Tensor, kept: Tensor) -> Tensor:
    """∇E[r] of the policy restricted to a set, by autodiff."""
    place = world()
    logits = policy.clone().requires_grad_()
    mass = logits.softmax(-1) * kept
    token = (mass / mass.sum(-1, keepdim=True))[place.prefix, place.choice]
    chance = torch.stack([token[place.answer == y].prod() for y in range(len(place.answers))])
    (found,) = torch.autograd.grad(chance @ torch.tensor([correct(text) for text in place.answers], dtype=F64), logits)
    return found.flatten()


def apart(found: Tensor, claim: Tensor) -> float:
    """Largest error, relative to the largest entry of the claim."""
    return float((found - claim).abs().max() / claim.abs().max())


@pytest.mark.parametrize("group", [2, 3])
@pytest.mark.parametrize("rule", KEPT)
def test_the_ratio_over_the_samplers_set_is_exact_and_no_other_is(rule: str, group: int) -> None:
    """Exact for the policy restricted to the sampler's set, however far apart the two are."""
    policy, behavior = policies()
    kept, own = KEPT[rule](behavior), KEPT[rule](policy)
    assert not torch.equal(kept, own) and not kept.all()
    possible, row = sampled(behavior, kept), sequence_is()
    claim = slope(policy, kept)
    restricted = restricted_logp(policy, kept)
    exact = expected(row, restricted, restricted_logp(behavior, kept), possible, group)
    assert apart(exact, claim) < 1e-12
    everything = torch.ones_like(kept)
    naive = expected(row, policy, behavior, possible, group)
    of_policy = expected(row, policy, restricted_logp(behavior, kept), possible, group)
    of_sampler = expected(row, restricted, behavior, possible, group)
    for wrong in (naive, of_policy, of_sampler):
        assert apart(wrong, claim) > 0.1 and apart(wrong, slope(policy, everything)) > 0.1


@pytest.mark.parametrize("rule", KEPT)
def test_the_policys_own_set_is_not_the_samplers(rule: str) -> None:
    """What the policy keeps and the sampler never gives is never seen: no weight can make up for it."""
    policy, behavior = policies()
    kept, own = KEPT[rule](behavior), KEPT[rule](policy)
    possible = sampled(behavior, kept)
    place = world()
    found = torch.zeros(policy.numel(), dtype=F64)
    mine = restricted_logp(policy, own).clamp(min=-1e4)
    for y, reward in zip(possible.answer.tolist(), possible.reward.tolist(), strict=True):
        tokens = place.answer == y
        chance = mine[place.prefix[tokens], place.choice[tokens]].sum().exp()  # μ·(π/μ): the weighted chance.
        found = found + chance * reward * place.scores(restricted_logp(policy, own))[tokens].sum(dim=0)
    assert apart(found, slope(policy, own)) > 0.1


@pytest.mark.parametrize("rule", KEPT)
def test_a_reward_for_everything_teaches_nothing_over_the_samplers_set_alone(rule: str) -> None:
    """On policy, where no ratio is needed, the score still must be of the restricted distribution."""
    policy = policies()[0]
    kept = KEPT[rule](policy)
    possible = sampled(policy, kept)
    possible = replace(possible, reward=torch.ones_like(possible.reward))
    restricted = restricted_logp(policy, kept)
    assert float(expected(reinforce(), restricted, restricted, possible).abs().max()) < 1e-12
    assert float(expected(reinforce(), policy, policy, possible).abs().max()) > 1e-2


@pytest.mark.parametrize("rule", [partial(kept_top_k, k=3), partial(kept_top_p, p=1.0), partial(kept_min_p, p=0.0)])
def test_a_sampler_that_cuts_nothing_off_changes_nothing(rule: Callable[[Tensor], Tensor]) -> None:
    logits = policies()[0]
    assert rule(logits).all()
    assert torch.equal(restricted_logp(logits, rule(logits)), logits.log_softmax(-1))


def test_sets_worked_by_hand() -> None:
    logits = torch.tensor([[0.5, 0.3, 0.15, 0.05], [0.1, 0.1, 0.4, 0.4]], dtype=F64).log()
    assert kept_top_k(logits, 1).tolist() == [[True, False, False, False], [False, False, True, True]]
    assert kept_top_k(logits, 9).all()
    assert kept_top_p(logits, 0.5 - 1e-9).tolist() == [[True, False, False, False], [False, False, True, True]]
    assert kept_top_p(logits, 0.5 + 1e-9)[0].tolist() == [True, True, False, False]
    assert kept_top_p(logits, 0.96)[0].all() and kept_top_p(logits, 1e-9)[0].tolist() == [True, False, False, False]
    assert kept_min_p(logits, 0.31)[0].tolist() == [True, True, False, False]
    assert kept_min_p(logits, 0.29)[0].tolist() == [True, True, True, False]
    assert kept_min_p(logits, 1.0).tolist() == [[True, False, False, False], [False, False, True, True]]
    among = restricted_logp(logits, kept_top_k(logits, 2))[0].exp()
    assert among.tolist() == pytest.approx([0.625, 0.375, 0, 0])


def test_what_is_not_kept_has_no_gradient_and_hides_none() -> None:
    logits = torch.tensor([[2.0, 1.0, -3.0]], dtype=F64, requires_grad=True)
    kept = kept_top_k(logits.detach(), 2)
    restricted_logp(logits, kept)[0, 0].backward()
    assert logits.grad is not None
    ahead = 1 / (1 + math.exp(-1.0))
    assert logits.grad[0].tolist() == pytest.approx([1 - ahead, ahead - 1, 0])


@given(values=st.lists(st.floats(-30, 30), min_size=2, max_size=12), p=st.floats(0.01, 0.99), k=st.integers(1, 12))
@settings(max_examples=200, deadline=None, derandomize=True, database=None)
def test_sets_hold_the_most_likely_and_what_they_promise(values: list[float], p: float, k: int) -> None:
    logits = torch.tensor(values, dtype=F64)
    chance = logits.softmax(-1)
    for kept in (kept_top_k(logits, k), kept_top_p(logits, p), kept_min_p(logits, p)):
        assert kept.any()
        assert kept.all() or float(logits[kept].min()) > float(logits[~kept].max())
    assert int(kept_top_k(logits, k).sum()) >= min(k, len(values))
    inside = kept_top_p(logits, p)
    assert float(chance[inside].sum()) >= p - 1e-12
    least = logits[inside].min()
    assert float(chance[logits > least].sum()) < p + 1e-12, "fewer would do"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda x: kept_top_k(x, 0), "at least 1"),
        (lambda x: kept_top_p(x, 0.0), "above 0"),
        (lambda x: kept_top_p(x, 1.1), "above 0"),
        (lambda x: kept_min_p(x, -0.1), "0 … 1"),
        (lambda x: restricted_logp(x, torch.zeros_like(x, dtype=torch.bool)), "at least one token"),
        (lambda x: restricted_logp(x, torch.ones_like(x)), "bool mask"),
        (lambda x: restricted_logp(x, torch.ones(2, dtype=torch.bool)), "bool mask"),
    ],
)
def test_what_no_sampler_can_mean_is_refused(make: Callable[[Tensor], Tensor], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make(torch.zeros(1, 3, dtype=F64))
