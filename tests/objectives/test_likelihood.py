"""Rows without a verifier, where a known answer follows the policy's own reasoning: by enumeration."""

from __future__ import annotations

import functools
import itertools
import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from gnomon.objectives import (
    Denominators,
    Objective,
    Rollouts,
    Tokens,
    answer_likelihood,
    fcp,
    leave_one_out,
    likelihood_on_answer,
    maxrl,
    reinforce,
    rft,
    sequence_sum,
    sft,
    successes,
    verifree,
)
from gnomon.theory.exact import moments
from gnomon.theory.world import Outcomes, correct, outcomes, world

F64 = torch.float64
KNOWN = (1, 2)
"""The reference answer: two tokens of three."""
PLACE = world(2)
THOUGHTS = len(PLACE.answers)
"""Seven reasonings of one or two tokens; each conditions a policy over two-token answers."""
FIRST = PLACE.prefixes * 3
SECOND = FIRST + THOUGHTS * 3
PARAMETERS = SECOND + THOUGHTS * 9


def parameters() -> Tensor:
    return torch.sin(1.7 * torch.arange(PARAMETERS, dtype=F64) + 0.3)


def of_reasoning(theta: Tensor) -> Tensor:
    """[T] log-probability of every token of every reasoning."""
    return PLACE.logp(theta[:FIRST].reshape(-1, 3))


def of_answers(theta: Tensor) -> Tensor:
    """[7, 3, 3, 2] log-probability of both tokens of every answer after every reasoning."""
    first = theta[FIRST:SECOND].reshape(THOUGHTS, 3).log_softmax(-1)
    second = theta[SECOND:].reshape(THOUGHTS, 3, 3).log_softmax(-1)
    return torch.stack([first[:, :, None].expand(-1, -1, 3), second], dim=-1)


@functools.cache
def scores() -> tuple[Tensor, Tensor]:
    """[T, P] and [7, 3, 3, 2, P] gradients of the two, by autodiff."""
    jacobian = torch.autograd.functional.jacobian
    return jacobian(of_reasoning, parameters()), jacobian(of_answers, parameters())


def thinking() -> Tensor:
    """[7] chance of every reasoning."""
    return PLACE.per_answer(of_reasoning(parameters())).exp()


def gradients(row: Objective, group: int) -> tuple[Tensor, Tensor]:
    """[7^N] chance and [7^N, P] gradient of every ordered group of reasonings, the known answer after each."""
    members = torch.cartesian_prod(*[torch.arange(THOUGHTS)] * group).reshape(-1, group)
    theta = parameters()
    start = PLACE.lengths.cumsum(0) - PLACE.lengths
    by_thought, by_answer = scores()
    known = of_answers(theta)[:, KNOWN[0], KNOWN[1]]
    logp, score, segment, lengths = [], [], [], []
    for thought in members.flatten().tolist():
        span = slice(int(start[thought]), int(start[thought] + PLACE.lengths[thought]))
        logp += [of_reasoning(theta)[span], known[thought]]
        score += [by_thought[span], by_answer[thought, KNOWN[0], KNOWN[1]]]
        lengths.append(int(PLACE.lengths[thought]) + len(KNOWN))
        segment += [0] * int(PLACE.lengths[thought]) + [1] * len(KNOWN)
    now = torch.cat(logp)
    seen = Rollouts(
        rewards=torch.full(members.shape, math.nan, dtype=F64),
        lengths=torch.tensor(lengths).reshape(members.shape),
        segment=torch.tensor(segment),
        logp=now,
    )
    owner = seen.sequence // group
    tokens = Tokens(logp=now, behavior_logp=now, advantage=row.credits(seen), sequence=seen.sequence, group=owner)
    sizes = Denominators(groups=1, sequences=group, tokens=len(now), max_tokens=4)
    weighted = row.coefficients(tokens, sizes)[:, None] * torch.cat(score)
    found = torch.zeros(len(members), PARAMETERS, dtype=F64).index_add(0, owner, weighted)
    return thinking()[members].prod(dim=1), found


def climbed() -> tuple[Tensor, float]:
    """∇J and J = E_z[π(y*|z)], by autodiff."""
    theta = parameters().requires_grad_()
    thought = PLACE.per_answer(of_reasoning(theta)).exp()
    value = thought @ of_answers(theta)[:, KNOWN[0], KNOWN[1]].sum(-1).exp()
    return torch.autograd.grad(value, theta)[0], float(value.detach())


@pytest.mark.parametrize("group", [2, 3])
def test_verifree_climbs_the_expected_likelihood_of_the_answer(group: int) -> None:
    chance, found = gradients(verifree(), group)
    assert float((chance @ found - climbed()[0]).abs().max()) < 1e-14


@pytest.mark.parametrize("group", [2, 3])
def test_a_baseline_on_the_answer_is_biased_by_what_it_takes_off(group: int) -> None:
    """By −J·E_z[∇log π(y*|z)]: the answer's score does not vanish on average, since the policy did not choose it."""
    chance, found = gradients(verifree(baseline_on="all"), group)
    truth, value = climbed()
    taken = value * thinking() @ scores()[1][:, KNOWN[0], KNOWN[1]].sum(dim=1)
    assert float((chance @ found - (truth - taken)).abs().max()) < 1e-14
    assert float(taken.abs().max()) > 0.1 * float(truth.abs().max())


def verified() -> tuple[Tensor, Tensor]:
    """Chance and gradient of every pair of rollouts whose answers are sampled, and right if they are the known one.

    Leave-one-out on the reasoning, the bare reward on the answer.
    """
    by_thought, by_answer = scores()
    thought, answers = PLACE.per_answer(by_thought), by_answer.sum(dim=3).reshape(THOUGHTS, 9, -1)
    chance = thinking()[:, None] * of_answers(parameters()).sum(-1).exp().reshape(THOUGHTS, 9)
    right = [divmod(y, 3) == KNOWN for y in range(9)]
    rollouts = list(itertools.product(range(THOUGHTS), range(9)))
    shares, found = [], []
    for (z, y), (other, guess) in itertools.product(rollouts, repeat=2):
        own, rival = float(right[y]), float(right[guess])
        shares.append(chance[z, y] * chance[other, guess])
        both = (own - rival) * (thought[z] - thought[other]) + own * answers[z, y] + rival * answers[other, guess]
        found.append(both / 2)
    return torch.stack(shares), torch.stack(found)


def covariance(chance: Tensor, found: Tensor) -> Tensor:
    apart = found - chance @ found
    return (chance[:, None] * apart).T @ apart


def test_verifree_scatters_less_than_the_verifier_in_every_direction() -> None:
    """The same mean; the covariance of the verifier exceeds that of VeriFree by a positive semidefinite matrix."""
    free, checked = gradients(verifree(), 2), verified()
    assert float((free[0] @ free[1] - checked[0] @ checked[1]).abs().max()) < 1e-14
    excess = torch.linalg.eigvalsh(covariance(*checked) - covariance(*free))
    assert float(excess.min()) > -1e-12 and float(excess.sum()) > 0.5 * float(covariance(*free).trace())


def test_an_answer_that_never_came_is_not_certain() -> None:
    """Nor is a rollout of no tokens at all; the product over no tokens would say so."""
    seen = Rollouts(
        rewards=torch.zeros(1, 4, dtype=F64),
        lengths=torch.tensor([[2, 1, 0, 3]]),
        segment=torch.tensor([0, 1, 0, 0, 1, 2]),
        logp=torch.tensor([-3.0, -0.5, -1.0, -2.0, -0.25, -0.75], dtype=F64),
    )
    assert answer_likelihood(seen).tolist() == [pytest.approx([math.exp(-0.5), 0.0, 0.0, math.exp(-1.0)])]
    credit = verifree().credits(seen)
    assert credit[1].item() == pytest.approx(math.exp(-0.5)) and credit[2] < 0


def test_a_likelihood_of_what_is_not_known_is_refused() -> None:
    seen = Rollouts(rewards=torch.zeros(1, 2), lengths=torch.ones(1, 2, dtype=torch.int64))
    with pytest.raises(ValueError, match="segment 0 is reasoning"):
        likelihood_on_answer(seen, leave_one_out)
    with pytest.raises(ValueError, match="log-probabilities"):
        likelihood_on_answer(replace(seen, segment=torch.zeros(2, dtype=torch.int64)), leave_one_out)


def test_a_success_is_one_and_nothing_else_is_let_in() -> None:
    assert successes(torch.tensor([[1.0, 0.0, 1.0]])).tolist() == [[1.0, 0.0, 1.0]]
    with pytest.raises(ValueError, match="0 or 1"):
        successes(torch.tensor([[1.0, 0.5]]))


# Given texts.


def logits_of(chance: Tensor) -> Tensor:
    """[prefixes, 3] the policy that gives the answers of the world those chances."""
    place = world()
    mass = torch.zeros(place.prefixes, 3, dtype=F64)
    mass.index_put_((place.prefix, place.choice), chance[place.answer], accumulate=True)
    return mass.log()


def data() -> Outcomes:
    """A law of given answers that is not the policy's."""
    place = world()
    return outcomes(place, torch.cos(place.logits() * 3), correct)


def expected(row: Objective, policy: Tensor, given: Outcomes, group: int = 1) -> Tensor:
    return moments(row, world(), policy=policy, behavior=policy, possible=given, group=group).mean


def test_sft_climbs_the_log_likelihood_of_the_data() -> None:
    """Summed over tokens exactly; as a mean over the tokens of a batch the nearer the larger the batch."""
    place, given = world(), data()
    policy = place.logits().requires_grad_()
    (slope,) = torch.autograd.grad(given.chance @ place.per_answer(place.logp(policy)), policy)
    now = policy.detach()
    summed = replace(sft(), aggregate=sequence_sum)
    assert torch.allclose(expected(summed, now, given), slope.flatten(), rtol=0, atol=1e-14)
    mean = slope.flatten() / float(given.chance @ place.lengths.to(F64))
    error = [float((expected(sft(), now, given, group) - mean).abs().max() / mean.abs().max()) for group in (1, 2, 4)]
    assert error[0] > 1.5 * error[1] > 2 * error[2] > 0.005
    assert float(expected(summed, logits_of(given.chance), given).abs().max()) < 1e-14


def test_rejection_fine_tuning_is_maximum_likelihood_of_success_up_to_the_share_of_successes() -> None:
    """In a world where all answers are of one length, group by group: K/N times MaxRL."""
    place = world(1)
    policy = place.logits()
    possible = outcomes(place, policy, correct)
    for group in (1, 2, 3):
        rewards = torch.tensor(list(itertools.product([0.0, 1.0], repeat=group)), dtype=F64)
        share = rewards.mean(dim=1, keepdim=True)
        assert torch.allclose(rft().advantage(rewards), share * maxrl().advantage(rewards), rtol=0, atol=1e-15)
        found, plain = (
            moments(row, place, policy=policy, behavior=policy, possible=possible, group=group).mean
            for row in (rft(), reinforce())
        )
        assert torch.allclose(found, plain, rtol=0, atol=1e-15)


# Feedback in the prompt.


def praise() -> Tensor:
    """[answers] p(c+|o): how often an answer is praised."""
    return 0.1 + 0.8 * torch.sigmoid(torch.sin(2.9 * torch.arange(15, dtype=F64)))


def test_what_the_length_limit_cut_off_teaches_fcp_nothing() -> None:
    """And is counted all the same: the others weigh what they weighed beside it."""
    step = {"rewards": torch.zeros(1, 3), "lengths": torch.tensor([[2, 1, 3]])}
    told = Rollouts(**step, finished=torch.tensor([[True, True, False]]))
    assert fcp().credits(Rollouts(**step)).tolist() == [1.0] * 6
    assert fcp().credits(told).tolist() == [1.0, 1.0, 1.0, 0.0, 0.0, 0.0]
    assert sft().credits(told).tolist() == [1.0] * 6


def test_fcp_fitted_again_and_again_tilts_the_reference_by_a_power_of_the_praise() -> None:
    """π_T(o|c+) ∝ π_ref(o)·p(c+|o)^{T+1}, every fit being the point where the row's expected gradient vanishes.

    Fitted offline on answers of the reference, then on those that the fitted policy gives when asked for praise.
    """
    place = world()
    reference = place.logits()
    summed = replace(fcp(), aggregate=sequence_sum)
    asked, before = place.chances(reference), reference
    for rounds in range(4):
        praised = asked * praise() / (asked @ praise())
        given = replace(outcomes(place, reference, correct), chance=praised)
        fitted = logits_of(praised)
        assert float(expected(summed, before, given).abs().max()) > 1e-3
        assert float(expected(summed, fitted, given).abs().max()) < 1e-14
        claim = place.chances(reference) * praise() ** (rounds + 1)
        assert torch.allclose(place.chances(fitted), claim / claim.sum(), rtol=0, atol=1e-14)
        asked, before = place.chances(fitted), fitted


def test_the_praised_share_of_fcp_is_reinforce_for_praise() -> None:
    """Answers asked for with c+ and praised again come back under the same prompt: together they climb P(c+)."""
    place = world()
    policy = place.logits().requires_grad_()
    (slope,) = torch.autograd.grad(place.chances(policy) @ praise(), policy)
    now = policy.detach()
    chance = place.chances(now)
    judged = Outcomes(
        answer=torch.arange(15).repeat(2),
        chance=torch.cat([chance * praise(), chance * (1 - praise())]),
        reward=torch.tensor([1.0, 0.0], dtype=F64).repeat_interleave(15),
        logp=place.logp(now),
    )
    back = replace(judged, answer=judged.answer[:15], chance=chance * praise(), reward=judged.reward[:15])
    found = expected(replace(fcp(), aggregate=sequence_sum), now, back)
    assert torch.allclose(found, slope.flatten(), rtol=0, atol=1e-14)
    assert torch.allclose(found, expected(reinforce(), now, judged), rtol=0, atol=1e-14)
