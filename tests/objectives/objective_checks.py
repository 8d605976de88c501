"""What every row must satisfy. Each check takes a case and raises AssertionError; mutants meet the same ones."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from functools import partial

import torch
from objective_cases import EDGE_STEPS, Case, Step
from torch import Tensor

from gnomon.objectives import Baseline, Denominators, OffPolicy, Singleton, Tokens
from gnomon.objectives.exact import Outcomes, World, correct, declared_gradient, graded, moments, outcomes, world

Reward = Callable[[str], float]


def check_expectation(case: Case, group: int, reward: Reward) -> None:
    """The expected gradient on policy is the declared one, and is not zero unless the group is too small."""
    if group == 1:
        check_singleton(case)
        if case.row.singleton is Singleton.REFUSED:
            return
    place = world()
    policy = place.logits()
    possible = outcomes(place, policy, reward)
    found = moments(case.row, place, policy=policy, behavior=policy, possible=possible, group=group).mean
    claim = declared_gradient(case.row.target, place, policy=policy, possible=possible, group=group)
    error = float((found - claim).abs().max())
    assert error <= 1e-9, f"the expected gradient misses its target by {error:.2g}"
    moves = float(claim.abs().max()) > 1e-3
    assert moves == (group >= case.row.min_group), f"a group of {group} {'moves' if moves else 'does not move'} it"
    return None


def check_singleton(case: Case) -> None:
    """A group of one gives what the row declares."""
    reward = torch.tensor([[0.7], [1.0], [0.0]], dtype=torch.float64)
    try:
        advantage = case.row.advantage(reward)
    except ValueError:
        assert case.row.singleton is Singleton.REFUSED, "a group of one is refused"
        return
    assert case.row.singleton is not Singleton.REFUSED, "a group of one is not refused"
    expected = reward if case.row.singleton is Singleton.RAW else torch.zeros_like(reward)
    assert torch.equal(advantage, expected), f"a group of one gives {advantage.tolist()}"


def check_negative_control(case: Case) -> None:
    """A reward that ignores the answer does not move the policy on average."""
    place = world()
    policy = place.logits()
    answers = len(place.answers)
    chance = place.chances(policy)
    noise = Outcomes(
        answer=torch.arange(answers).repeat(2),
        chance=torch.cat([0.3 * chance, 0.7 * chance]),
        reward=torch.cat([torch.ones(answers), torch.zeros(answers)]).to(chance.dtype),
    )
    for group in (2, 3):
        found = moments(case.row, place, policy=policy, behavior=policy, possible=noise, group=group).mean
        assert float(found.abs().max()) <= 1e-12, f"noise moves the policy by {float(found.abs().max()):.2g}"


def lagged(place: World, lag: float) -> tuple[Tensor, Tensor]:
    """Logits of a policy and of the behavior it has left behind."""
    policy = place.logits()
    direction = torch.cos(2.3 * torch.arange(policy.numel(), dtype=policy.dtype)).reshape(policy.shape)
    return policy, policy - lag * direction


def off_policy_error(case: Case, place: World, lag: float, frozen_at_behavior: bool) -> float:
    """Relative distance of the expected gradient from the target at the policy, data from the behavior."""
    policy, behavior = lagged(place, lag)
    possible = outcomes(place, behavior, correct)
    found = moments(case.row, place, policy=policy, behavior=behavior, possible=possible, group=3).mean
    law = possible if frozen_at_behavior else outcomes(place, policy, correct)
    claim = declared_gradient(case.row.target, place, policy=policy, possible=law, group=3)
    return float((found - claim).abs().max() / claim.abs().max())


def check_off_policy_order(case: Case) -> None:
    """The error is first order in the lag: halving the lag halves it, and it does not vanish."""
    far, near, nearest = (off_policy_error(case, world(), lag, False) for lag in (0.04, 0.02, 0.01))
    assert nearest > 1e-4, "there is no error off policy"
    assert 1.8 < far / near < 2.2 and 1.8 < near / nearest < 2.2, f"errors {far:.3g} {near:.3g} {nearest:.3g}"


def check_off_policy_one_token(case: Case) -> None:
    """For answers of one token, a token ratio is exact and no ratio is not."""
    error = off_policy_error(case, world(1), 0.04, True)
    if case.row.off_policy is OffPolicy.TOKEN:
        assert error <= 1e-9, f"the error is {error:.2g} for answers of one token"
    else:
        assert error > 1e-3, "data from another policy makes no difference"


def check_off_policy_states(case: Case) -> None:
    """Prefixes of behavior; actions of the policy, or of behavior if the row is blind; continuations of behavior."""
    place = world()
    policy, behavior = lagged(place, 0.04)
    possible = outcomes(place, behavior, graded)
    found = moments(case.row, place, policy=policy, behavior=behavior, possible=possible, group=3).mean
    law, scores = possible.law(), place.scores(policy).reshape(len(place.prefix), place.prefixes, -1)
    shape = [
        case.row.target.shape(float(reward), int(length), law, 3, place.max_tokens)
        for reward, length in zip(possible.reward, place.lengths, strict=True)
    ]
    if case.row.baseline is Baseline.OTHERS:
        expected = sum(value * chance for value, chance in law)
        shape = [value - expected for value in shape]
    actions = (policy if case.row.off_policy is OffPolicy.TOKEN else behavior).log_softmax(1).exp()
    total = torch.zeros_like(policy)
    for prefix, action in itertools.product(range(place.prefixes), range(3)):
        tokens = [t for t in range(len(place.prefix)) if place.prefix[t] == prefix and place.choice[t] == action]
        passing = [int(place.answer[t]) for t in tokens]
        reach = sum(float(possible.chance[y]) for y in _through(place, prefix))
        value = sum(float(possible.chance[y]) * shape[y] for y in passing)
        value = value / sum(float(possible.chance[y]) for y in passing)
        total = total + reach * float(actions[prefix, action]) * value * scores[tokens[0]]
    error = float((found - total.flatten()).abs().max())
    assert error <= 1e-9, f"the expected gradient differs from its form over prefixes and actions by {error:.2g}"


def _through(place: World, prefix: int) -> list[int]:
    return sorted({int(place.answer[t]) for t in range(len(place.prefix)) if place.prefix[t] == prefix})


def select(tokens: Tokens, chosen: Tensor) -> Tokens:
    """Some tokens of a batch, in the order asked for."""
    values = {field.name: getattr(tokens, field.name) for field in fields(tokens)}
    return Tokens(**{name: None if value is None else value[chosen] for name, value in values.items()})


def check_additive(case: Case, step: Step, parts: Sequence[int]) -> None:
    """κ of a token is the same in a micro-batch as in the whole step, bit for bit.

    `parts` names the micro-batch of every rollout.
    """
    tokens, sizes = step.tokens(case.row), step.denominators()
    whole = case.row.coefficients(tokens, sizes)
    for part in set(parts):
        chosen = torch.tensor(
            [t for t, s in enumerate(tokens.sequence.tolist()) if parts[s] == part], dtype=torch.int64
        )
        alone = case.row.coefficients(select(tokens, chosen), sizes)
        assert torch.equal(alone, whole[chosen]), f"micro-batch {part} has other coefficients than the step"


def check_order(case: Case, step: Step, seed: int) -> None:
    """Shuffling rollouts in their group, and tokens in their batch, shuffles κ and changes nothing else."""
    generator = torch.Generator().manual_seed(seed)
    tokens, sizes = step.tokens(case.row), step.denominators()
    order = torch.randperm(len(tokens), generator=generator)
    shuffled = case.row.coefficients(select(tokens, order), sizes)
    assert torch.equal(shuffled, case.row.coefficients(tokens, sizes)[order]), "the order of tokens matters"
    rewards = torch.tensor(step.rewards, dtype=torch.float64)
    places = torch.randperm(rewards.shape[1], generator=generator)
    moved, kept = case.row.advantage(rewards[:, places]), case.row.advantage(rewards)[:, places]
    assert torch.allclose(moved, kept, rtol=0, atol=1e-12), "the order of rollouts matters"
    apart = torch.cat([case.row.advantage(group[None]) for group in rewards])
    assert torch.allclose(case.row.advantage(rewards), apart, rtol=0, atol=1e-12), "groups see each other"


def check_shift(case: Case, step: Step) -> None:
    """A constant on every reward changes nothing if a baseline is claimed, and something if none is."""
    shifted = replace(step, rewards=[[reward + 3.0 for reward in group] for group in step.rewards])
    sizes = step.denominators()
    before = case.row.coefficients(step.tokens(case.row), sizes)
    after = case.row.coefficients(shifted.tokens(case.row), sizes)
    same = torch.allclose(before, after, rtol=1e-9, atol=1e-12)
    claimed = case.row.baseline is not Baseline.NONE
    assert same == claimed, f"a shift of all rewards {'changes nothing' if same else 'changes the coefficients'}"


def check_textbook(case: Case, step: Step, dtype: torch.dtype) -> None:
    """κ is the derivative of the textbook loss in the log-probability of every token."""
    tokens = step.tokens(case.row, dtype)
    logp = tokens.logp.clone().requires_grad_()
    loss = case.loss(step, logp)
    (expected,) = torch.autograd.grad(loss, logp) if loss.requires_grad else (torch.zeros_like(logp),)
    found = case.row.coefficients(tokens, step.denominators())
    assert found.dtype == dtype and found.shape == logp.shape
    limit = 1e-12 if dtype == torch.float64 else 2e-6
    assert torch.allclose(found, expected, rtol=10 * limit, atol=limit), (
        f"κ differs from the textbook by {float((found - expected).abs().max()):.2g}"
    )


def check_detached(case: Case) -> None:
    """κ carries no gradient, so the loss −Σ κ·logp has the gradient −κ in logp and none anywhere else."""
    tokens = EDGE_STEPS["decoupled"].tokens(case.row)
    inputs = {f.name: getattr(tokens, f.name) for f in fields(tokens)}
    inputs = {n: v.clone().requires_grad_() if v.is_floating_point() else v for n, v in inputs.items()}
    kappa = case.row.coefficients(Tokens(**inputs), EDGE_STEPS["decoupled"].denominators())
    assert not kappa.requires_grad, "κ carries a gradient"
    (-(kappa * inputs["logp"]).sum()).backward()
    assert torch.equal(inputs["logp"].grad, -kappa)
    assert all(v.grad is None for n, v in inputs.items() if n != "logp")


def check_finite(case: Case) -> None:
    """κ is finite when policy, proximal, behavior and reference lie e⁸⁰ apart, either way, at any sign of A."""
    for dtype in (torch.float32, torch.float64):
        grid = torch.tensor(list(itertools.product([-80.0, 0.0, 80.0], repeat=3)), dtype=dtype)
        ratio, correction, reference = grid.repeat(3, 1).unbind(1)
        count = len(ratio)
        tokens = Tokens(
            logp=torch.zeros(count, dtype=dtype),
            proximal_logp=-ratio,
            behavior_logp=-ratio - correction,
            reference_logp=-reference,
            advantage=torch.tensor([-1.0, 0.0, 1.0], dtype=dtype).repeat_interleave(len(grid)),
            sequence=torch.arange(count),
            group=torch.arange(count),
        )
        sizes = Denominators(groups=count, sequences=count, tokens=count, max_tokens=1)
        kappa = case.row.coefficients(tokens, sizes)
        assert torch.isfinite(kappa).all(), f"κ of {kappa[~torch.isfinite(kappa)][0]} at a log-ratio of ±80"


def check_steps(check: Callable[[Case, Step], None], case: Case) -> None:
    for step in EDGE_STEPS.values():
        check(case, step)


def _alternating(case: Case, step: Step) -> None:
    count = len(step.rollouts())
    check_additive(case, step, [s % 2 for s in range(count)])
    check_additive(case, step, list(range(count)))


SUITE: dict[str, Callable[[Case], None]] = {
    **{
        f"expectation of {n}, {reward.__name__}": partial(check_expectation, group=n, reward=reward)
        for n in (1, 2, 3, 4)
        for reward in (correct, graded)
    },
    "singleton": check_singleton,
    "negative control": check_negative_control,
    "off policy, order": check_off_policy_order,
    "off policy, one token": check_off_policy_one_token,
    "off policy, states": check_off_policy_states,
    "additive": partial(check_steps, _alternating),
    "order": partial(check_steps, partial(check_order, seed=0)),
    "shift": lambda case: check_shift(case, EDGE_STEPS["mixed"]),
    "textbook, float32": partial(check_steps, partial(check_textbook, dtype=torch.float32)),
    "textbook, float64": partial(check_steps, partial(check_textbook, dtype=torch.float64)),
    "detached": check_detached,
    "finite": check_finite,
}
"""Every check, by name, ready to run on a case."""
