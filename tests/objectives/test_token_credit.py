"""What is said of credit that differs from token to token: by enumeration and by hand."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from gnomon.objectives import (
    Denominators,
    Need,
    Objective,
    Rollouts,
    Tokens,
    gae,
    objective,
    ppo,
    ppo_whitened,
    raw,
    reinforce_pp,
    reinforce_pp_loo,
    reward_to_go,
    sequence_mean,
    vapo,
    vc_ppo,
    whiten,
)
from gnomon.theory.exact import moments
from gnomon.theory.world import correct, outcomes, step_of, world

F64 = torch.float64


def expected(row: Objective, group: int) -> Tensor:
    place = world()
    policy = place.logits()
    possible = outcomes(place, policy, correct)
    return moments(row, place, policy=policy, behavior=policy, possible=possible, group=group).mean


def every_answer() -> tuple[Rollouts, Tensor, Tensor]:
    """A step of all 15 answers, the chance of each, and the score of every token."""
    place = world()
    possible = outcomes(place, place.logits(), correct)
    return step_of(place, possible, torch.arange(15)[:, None]), possible.chance, place.scores(place.logits())


def climbed(row: Objective, values: Tensor, share: Tensor | float = 1 / 3) -> Tensor:
    """E[g] of one rollout, with a critic that says `values` [prefixes]."""
    step, chance, score = every_answer()
    credit = row.credits(replace(step, values=values[world().prefix])) * share
    return (chance[world().answer] * credit) @ score


def true_values(gamma: float = 1.0) -> Tensor:
    """[prefixes] E[γ^(tokens to come − 1)·r | prefix], by summing over the answers through it."""
    step, chance, _ = every_answer()
    place, found = world(), torch.zeros(world().prefixes, dtype=F64)
    start = place.lengths.cumsum(0) - place.lengths
    for prefix in range(place.prefixes):
        tokens = [t for t in range(len(place.prefix)) if place.prefix[t] == prefix]
        through = [int(place.answer[t]) for t in tokens]
        late = [int(place.lengths[y]) - 1 - (t - int(start[y])) for t, y in zip(tokens, through, strict=True)]
        pairs = {y: gamma**wait * float(step.rewards[y]) for y, wait in zip(through, late, strict=True)}
        reach = sum(float(chance[y]) for y in pairs)
        found[prefix] = sum(float(chance[y]) * value for y, value in pairs.items()) / reach
    return found


def slope() -> Tensor:
    """∇p."""
    place = world()
    policy = place.logits().requires_grad_()
    rewards = outcomes(place, policy.detach(), correct).reward
    (found,) = torch.autograd.grad(place.chances(policy) @ rewards, policy)
    return found.flatten()


def close(found: Tensor, claim: Tensor) -> bool:
    return torch.allclose(found, claim, rtol=0, atol=1e-12)


def apart(found: Tensor, claim: Tensor) -> float:
    """Largest error relative to the largest entry of the claim."""
    return float((found - claim).abs().max() / claim.abs().max())


# Advantages over a critic.


@pytest.mark.parametrize("group", [1, 2, 3])
def test_ppo_is_exact_with_a_critic_that_is_wrong(group: int) -> None:
    assert close(expected(ppo(), group), slope() / 3)
    wild = torch.linspace(-7, 9, world().prefixes, dtype=F64)
    assert close(climbed(ppo(), wild), slope() / 3)


@pytest.mark.parametrize("lam", [0.0, 0.5, 0.95])
def test_a_short_horizon_is_exact_with_the_true_critic_alone(lam: float) -> None:
    assert close(climbed(ppo(lam=lam), true_values()), slope() / 3)
    assert apart(climbed(ppo(lam=lam), world().guess()), slope() / 3) > 0.05


def test_with_the_true_critic_lambda_is_for_variance_alone() -> None:
    """Under a discount too: the returns are then those of the discounted reward, at any λ."""
    values = true_values(0.9)
    found = [climbed(ppo(gamma=0.9, lam=lam), values) for lam in (0.0, 0.6, 1.0)]
    assert close(found[0], found[2]) and close(found[1], found[2])
    assert close(found[2], climbed(ppo(gamma=0.9), world().guess()))
    assert apart(climbed(ppo(gamma=0.9, lam=0.6), true_values()), found[2]) > 1e-3


def test_a_mean_over_tokens_bends_even_with_the_true_critic() -> None:
    own = 1 / world().lengths[world().answer].to(F64)
    found = climbed(replace(ppo(), aggregate=sequence_mean), true_values(), own)
    assert torch.nn.functional.cosine_similarity(found, slope(), dim=0) < 0.99


@pytest.mark.parametrize("lam", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("build", [ppo, ppo_whitened])
def test_the_true_critic_is_taught_what_it_says(build: object, lam: float) -> None:
    """E[target | prefix] = V(prefix): nothing is left to learn, whatever is done to the credit afterwards."""
    assert callable(build)
    step, chance, _ = every_answer()
    place, values = world(), true_values()
    targets = build(lam=lam).value_targets(replace(step, values=values[place.prefix]))
    weight = chance[place.answer]
    total = torch.zeros(place.prefixes, dtype=F64).index_add(0, place.prefix, weight * targets)
    reach = torch.zeros(place.prefixes, dtype=F64).index_add(0, place.prefix, weight)
    assert close(total / reach, values)


def test_a_row_without_targets_of_its_own_teaches_its_credit_and_the_value() -> None:
    step, _, _ = every_answer()
    assert close(replace(ppo(lam=0.5), returns=None).value_targets(step), ppo(lam=0.5).value_targets(step))
    with pytest.raises(ValueError, match="nothing to teach"):
        ppo().value_targets(replace(step, values=None))


# Values where a limit ended a rollout.


def limited() -> tuple[Rollouts, Tensor, Tensor, Tensor]:
    """The same policy cut after two tokens: a step of all 7 answers, the chance of each, the scores of every token, and
    what the critic expects before every token. Who is cut earns nothing, and the critic is right about what follows."""
    place, short = world(), world(2)
    policy, value = place.logits(), true_values()
    index = {text: number for number, text in enumerate(prefixes(3))}
    known = torch.tensor([index[text] for text in prefixes(2)])
    possible = outcomes(short, policy[known], lambda text: correct(text) * text.endswith("."))
    step = step_of(short, possible, torch.arange(7)[:, None])
    cut = torch.tensor([0 if text.endswith(".") else 1 for text in short.answers])[:, None]
    after = torch.tensor(
        [0.0 if text.endswith(".") else float(value[index[text]]) for text in short.answers], dtype=F64
    )
    scores = torch.zeros(len(short.prefix), *policy.shape, dtype=F64)
    scores[:, known] = short.scores(policy[known]).reshape(len(short.prefix), 3, 3)
    step = replace(step, ended=cut, beyond=after[:, None], values=value[known][short.prefix])
    return step, possible.chance, scores.flatten(1), value[known][short.prefix]


def prefixes(most: int) -> list[str]:
    """In the order of a world."""
    return ["".join(p) for length in range(most) for p in itertools.product("ab", repeat=length)]


def climbed_when_cut(row: Objective, step: Rollouts) -> Tensor:
    _, chance, scores, _ = limited()
    return (chance[world(2).answer] * row.credits(step)) @ scores


@pytest.mark.parametrize("bootstrap", ["reply", "limit"])
@pytest.mark.parametrize("lam", [0.0, 0.6, 1.0])
def test_with_a_value_at_the_limit_it_climbs_the_return_without_the_limit(lam: float, bootstrap: str) -> None:
    """∇p of the policy that may write three tokens, in the parameters of the first two; the critic is right."""
    step, _, _, _ = limited()
    wanted = slope().reshape(7, 3).clone()
    wanted[3:] = 0.0
    assert close(climbed_when_cut(ppo(lam=lam, bootstrap=bootstrap), step), wanted.flatten())
    cut = climbed_when_cut(ppo(lam=lam), step)
    assert apart(cut, wanted.flatten()) > 0.3


def test_any_critic_will_do_before_the_end_if_lambda_is_one() -> None:
    """Only the value at the limit must be right."""
    step, _, _, _ = limited()
    wild = replace(step, values=torch.linspace(-7, 9, 3, dtype=F64)[world(2).prefix])
    row = ppo(bootstrap="reply")
    assert close(climbed_when_cut(row, wild), climbed_when_cut(row, step))
    off = replace(step, beyond=step.beyond + 0.5 * step.ended * torch.arange(7)[:, None])
    assert apart(climbed_when_cut(row, off), climbed_when_cut(row, step)) > 0.1


@pytest.mark.parametrize("build", [ppo, vc_ppo, vapo])
def test_the_critic_is_taught_what_follows_the_limit(build: Callable[..., Objective]) -> None:
    """E[target | prefix] = V(prefix), of the policy without the limit."""
    step, chance, _, values = limited()
    short = world(2)
    targets = build(bootstrap="reply").value_targets(step)
    weight = chance[short.answer]
    total = torch.zeros(3, dtype=F64).index_add(0, short.prefix, weight * targets)
    reach = torch.zeros(3, dtype=F64).index_add(0, short.prefix, weight)
    assert close((total / reach)[short.prefix], values)


def test_the_value_at_a_limit_by_hand() -> None:
    """γ = ½, λ = ½, of rollouts that ended by themselves, by a cut reply and between two turns."""
    step = rollouts([[1, 2, 1]], [[1.0, 8.0, 1.0]], values=[3.0, 1.0, 2.0, 3.0])
    step = replace(step, ended=torch.tensor([[0, 1, 2]]), beyond=torch.tensor([[4.0, 6.0, 10.0]], dtype=F64))
    plain, reply, limit = (ppo(gamma=0.5, lam=0.5, bootstrap=word).credits(step) for word in ("none", "reply", "limit"))
    assert plain.tolist() == [-2, 0 + 0.25 * 6, 6, -2]
    assert reply.tolist() == [-2, 0 + 0.25 * 9, 9, -2]
    assert limit.tolist() == [-2, 0 + 0.25 * 9, 9, 3]
    assert vapo(alpha=1.0, bootstrap="limit").credits(step).tolist() == [-2, 1 + 0.5 * 12, 12, 8]
    assert vc_ppo(lam=0.0, bootstrap="limit").value_targets(step).tolist() == [1, 14, 14, 11]


def test_a_value_at_a_limit_is_asked_for() -> None:
    step = replace(rollouts([[1]], [[1.0]], values=[0.5]), ended=torch.tensor([[1]]))
    assert ppo().credits(step).tolist() == [0.5]
    with pytest.raises(ValueError, match="beyond"):
        ppo(bootstrap="reply").credits(step)
    assert ppo(bootstrap="reply").credits(replace(step, ended=torch.tensor([[2]]))).tolist() == [0.5]
    assert Need.BEYOND in ppo(bootstrap="limit").asks and Need.BEYOND not in ppo().asks
    with pytest.raises(ValueError, match="bootstrap"):
        ppo(bootstrap="always")


def rollouts(lengths: list[list[int]], rewards: list[list[float]], **tokens: list[float]) -> Rollouts:
    known = {name: torch.tensor(values, dtype=F64) for name, values in tokens.items()}
    return Rollouts(rewards=torch.tensor(rewards, dtype=F64), lengths=torch.tensor(lengths), **known)


def test_advantages_worked_by_hand() -> None:
    """γ = ½, λ = ½. First rollout δ = 0.5·2 − 1, 8 − 2; the second is empty, the third is one token."""
    step = rollouts([[2, 0, 1]], [[8.0, 5.0, 1.0]], values=[1.0, 2.0, 3.0])
    assert gae(step, raw, gamma=0.5, lam=0.5).tolist() == [0 + 0.25 * 6, 6, -2]
    assert ppo(gamma=0.5, lam=0.5).value_targets(step).tolist() == [2.5, 8, 1]
    assert ppo().credits(step).tolist() == [7, 6, -2]


def test_what_credit_needs_is_asked_for() -> None:
    step = rollouts([[1, 1]], [[1.0, 0.0]])
    with pytest.raises(ValueError, match="values"):
        gae(step, raw, gamma=1.0, lam=1.0)
    with pytest.raises(ValueError, match="reference_logp"):
        reward_to_go(step, raw, beta=0.1)
    assert reward_to_go(step, raw, beta=0.0).tolist() == [1, 0]
    assert {need.value for need in reinforce_pp(beta=0.1).asks} == {"logp", "reference"}
    assert reinforce_pp(beta=0.1).needs_reference and not reinforce_pp().asks


# Whitening, and returns less a penalty.


def test_whitening_by_hand() -> None:
    found = whiten(torch.tensor([1.0, 2.0, 3.0, 6.0], dtype=F64), epsilon=0.0)
    assert found.tolist() == pytest.approx([-2 / 4.6666666666666667**0.5, -0.4629100499, 0, 3 / (14 / 3) ** 0.5])
    assert float(found.square().sum()) == pytest.approx(3)
    assert whiten(torch.tensor([0.1, 0.1, 0.1]), epsilon=0.0).tolist() == [0, 0, 0]
    assert whiten(torch.tensor([5.0]), epsilon=0.0).tolist() == [0]
    assert whiten(torch.zeros(0), epsilon=0.0).shape == (0,)


def test_long_rollouts_pull_the_mean_of_the_tokens() -> None:
    """The same rewards, one of the rollouts longer: the mean that is taken off moves towards it."""
    even, long = (rollouts([lengths], [[1.0, 0.0]]) for lengths in ([2, 2], [6, 2]))
    assert reinforce_pp().credits(even)[0] == pytest.approx(-float(reinforce_pp().credits(even)[-1]))
    credit = reinforce_pp().credits(long)
    assert 0 < float(credit[0]) < -float(credit[-1]) / 2 and abs(float(credit.sum())) < 1e-12


@pytest.mark.parametrize("beta", [0.0, 0.3])
@pytest.mark.parametrize("scale", [1.0, 0.4])
def test_a_scale_that_stands_still_and_the_mean_of_the_others_are_exact(beta: float, scale: float) -> None:
    """(∇E[r] − β∇KL(policy‖reference)) / (scale·L_max), the divergence of whole answers."""
    place = world()
    policy = place.logits().requires_grad_()
    logp, logq = place.per_answer(place.logp(policy)), place.per_answer(place.logp(place.anchor()))
    (away,) = torch.autograd.grad(logp.exp() @ (logp - logq), policy)
    truth = (slope() - beta * away.flatten()) / (3 * scale)
    for group in (2, 3):
        assert close(expected(reinforce_pp_loo(beta=beta, scale=scale), group), truth)


def test_whitening_by_the_step_bends_less_the_larger_the_step() -> None:
    def bend(group: int) -> float:
        return 1 - float(torch.nn.functional.cosine_similarity(expected(reinforce_pp(), group), slope(), dim=0))

    assert 0 < bend(4) < bend(3) < bend(2) < 0.02


def test_in_a_step_of_one_group_its_mean_makes_no_difference() -> None:
    """Whitening takes off a mean in any case; in several groups it does."""
    assert close(expected(reinforce_pp(baseline="group"), 3), expected(reinforce_pp(), 3))
    step = rollouts([[1, 2], [3, 1]], [[1.0, 0.0], [1.0, 1.0]])
    assert not torch.allclose(reinforce_pp(baseline="group").credits(step), reinforce_pp().credits(step), atol=0.1)
    last = (1 / 14) / ((0.75 - 0.25 / 7) / 6) ** 0.5
    assert reinforce_pp(baseline="group").credits(step)[3:].tolist() == pytest.approx([last] * 4)


def beside(row: Objective, neighbour: Callable[[str], float]) -> Tensor:
    """E[g] of the tokens of one prompt, in a step of two prompts with two answers each of up to two tokens."""
    place = world(2)
    policy = place.logits()
    mine, theirs = outcomes(place, policy, correct), outcomes(place, policy, neighbour)
    scores, total = place.scores(policy), torch.zeros(9, dtype=F64)
    pairs = torch.combinations(torch.arange(7), with_replacement=True)
    for own, other in torch.cartesian_prod(torch.arange(len(pairs)), torch.arange(len(pairs))).tolist():
        answers = torch.cat([pairs[own], pairs[other]])
        orders = (1 + int(pairs[own, 0] != pairs[own, 1])) * (1 + int(pairs[other, 0] != pairs[other, 1]))
        step = step_of(place, mine, answers.reshape(2, 2))
        step = replace(step, rewards=torch.stack([mine.reward[answers[:2]], theirs.reward[answers[2:]]]))
        token, logp = place.tokens(replace(mine, answer=answers)), step.logp
        assert logp is not None
        tokens = Tokens(
            logp=logp,
            behavior_logp=logp,
            advantage=row.credits(step),
            sequence=step.sequence,
            group=step.sequence // 2,
        )
        sizes = Denominators(groups=2, sequences=4, tokens=len(token), max_tokens=2)
        kappa = torch.where(tokens.group == 0, row.coefficients(tokens, sizes), 0.0)
        total += orders * float(mine.chance[answers].prod()) * (kappa @ scores[token])
    return total


def test_what_a_prompt_learns_depends_on_its_neighbours_unless_the_scale_stands_still() -> None:
    """Whitening ties the prompts of a step together; the mean of the group frees them from each other's level alone."""
    always, never = (lambda answer: 1.0), (lambda answer: 0.0)
    plain, based, still = reinforce_pp(), reinforce_pp(baseline="group"), reinforce_pp_loo()
    assert apart(beside(plain, always), beside(plain, never)) > 0.1
    assert close(beside(based, always), beside(based, never))
    assert apart(beside(based, correct), beside(based, never)) > 0.1
    place = world(2)
    policy = place.logits().requires_grad_()
    rewards = outcomes(place, policy.detach(), correct).reward
    (truth,) = torch.autograd.grad(place.chances(policy) @ rewards, policy)
    for neighbour in (always, correct):
        assert close(beside(still, neighbour), truth.flatten() / (2 * place.max_tokens))


@pytest.mark.parametrize(
    ("name", "option", "value"),
    [("ppo", "gamma", 1.1), ("ppo", "lam", -0.1), ("reinforce_pp", "beta", -1.0), ("reinforce_pp_loo", "scale", 0.0)],
)
def test_options_out_of_range_are_refused(name: str, option: str, value: float) -> None:
    with pytest.raises(ValueError, match=option):
        objective(name, **{option: value})
