"""What every row must satisfy. Each check takes a case and raises AssertionError; mutants meet the same ones."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial

import torch
from objective_cases import CASES, Case
from objective_steps import EDGE_STEPS, Step
from torch import Tensor

from gnomon.objectives import (
    Baseline,
    ClosedForm,
    Denominators,
    Need,
    Noise,
    Objective,
    OffPolicy,
    Reach,
    Rewards,
    Rollouts,
    Scope,
    Singleton,
    Tokens,
    TokenShape,
    constant,
    drift_of_share,
    group_sum,
    likelihood_of_right,
    sequence_mean,
    sequence_sum,
    squared_sequence_log_ratio,
    terminal,
    token_mean,
)
from gnomon.theory.exact import declared_gradient, moments, shapes
from gnomon.theory.timesteps import timestep_gradient
from gnomon.theory.world import GREEDY, PAST, Outcomes, World, correct, graded_reward, outcomes, outcomes_for, world

Reward = Callable[[str], float]


def earned(row: Objective, rewards: Tensor) -> Tensor:
    """[G, N] what rollouts of one token earn, each with an answer of its own, where nothing else is known of them."""
    if row.credit is terminal:
        return row.advantage(rewards)
    nothing = torch.zeros(rewards.numel(), dtype=rewards.dtype)
    seen = Rollouts(
        rewards=rewards,
        lengths=torch.ones(rewards.shape, dtype=torch.int64),
        answers=torch.arange(rewards.numel()).reshape(rewards.shape),
        baseline=torch.full_like(rewards, PAST),
        greedy=torch.full_like(rewards, GREEDY),
        parts=rewards[..., None],
        part_weights=torch.ones_like(rewards)[..., None],
        segment=nothing.long(),
        observation=nothing.long(),
        segment_rewards=rewards[..., None],
        values=nothing,
        logp=nothing - 1,
        reference_logp=nothing - 1,
        entropy=nothing + 1.7,
        collision=nothing + 0.3,
    )
    return row.credits(seen).reshape(rewards.shape)


def refused(case: Case, rewards: Sequence[Sequence[float]]) -> bool:
    """Whether the row must refuse such groups; if so, that it does."""
    counts = case.row.rewards is Rewards.BINARY and any(r not in (0, 1) for group in rewards for r in group)
    small = case.row.singleton is Singleton.REFUSED and len(rewards[0]) < case.row.min_group
    if not counts and not small:
        return False
    try:
        earned(case.row, torch.tensor(rewards, dtype=torch.float64))
    except ValueError:
        return True
    raise AssertionError("rewards that are no count are not refused" if counts else "too small a group is not refused")


def check_expectation(case: Case, group: int, reward: Reward) -> None:
    """The expected gradient on policy is the declared one, and is not zero unless the group is too small."""
    if group == 1:
        check_singleton(case)
    if group == 4 and case.row.reach is Reach.STEP:
        return  # Such groups are enumerated one by one; `test_the_report_of_every_row` does so.
    place = world()
    policy = place.logits()
    possible = outcomes_for(case.row, place, policy, reward)
    if refused(case, [possible.reward[:group].tolist(), possible.reward[-group:].tolist()]):
        return
    found = moments(case.row, place, policy=policy, behavior=policy, possible=possible, group=group).mean
    claim = declared_gradient(case.row.target, place, policy=policy, possible=possible, group=group)
    error = float((found - claim).abs().max())
    assert error <= 1e-9, f"the expected gradient misses its target by {error:.2g}"
    check_closed_form(case, group, reward, found)
    moves = float(claim.abs().max()) > 1e-3
    least = max(case.row.min_group, case.row.min_rollouts)
    assert moves == (group >= least), f"a group of {group} {'moves' if moves else 'does not move'} it"


def check_closed_form(case: Case, group: int, reward: Reward, found: Tensor) -> None:
    """An expected gradient in the world of 15 answers is the row's closed form, where that holds for such a reward.

    One for answers of one token is held against the gradient in a world of those.
    """
    closed = case.row.closed_form
    if not isinstance(closed, ClosedForm) or (closed.binary and reward is not correct):
        return
    place = world(1) if closed.one_token else world()
    policy = place.logits()
    possible = outcomes_for(case.row, place, policy, reward)
    if closed.shape(place.chances_of(possible), group, place.max_tokens) is None:
        return
    if closed.one_token:
        found = moments(case.row, place, policy=policy, behavior=policy, possible=possible, group=group).mean
    claim = declared_gradient(closed, place, policy=policy, possible=possible, group=group)
    error = float((found - claim).abs().max())
    assert error <= 1e-9, f"the expected gradient misses its closed form by {error:.2g}"


def check_singleton(case: Case) -> None:
    """A group of one, alone in its step, gives what the row declares."""
    binary = case.row.rewards is Rewards.BINARY
    reward = torch.tensor([[1.0], [0.0]] if binary else [[0.7], [1.0], [0.0]], dtype=torch.float64)
    try:
        advantage = torch.cat([earned(case.row, alone[None]) for alone in reward])
    except ValueError:
        assert case.row.singleton is Singleton.REFUSED, "a group of one is refused"
        return
    assert case.row.singleton is not Singleton.REFUSED, "a group of one is not refused"
    if case.row.singleton is Singleton.SHIFTED:
        assert torch.allclose(advantage - advantage[-1], reward) and advantage[-1] != 0, "no constant is taken off"
        return
    if case.row.singleton is Singleton.SCALED:
        assert torch.allclose(advantage, advantage[:1] / reward[:1] * reward), "it is no multiple of the reward"
        assert not torch.equal(advantage, reward) and advantage.any(), "it is the reward, or nothing"
        return
    if case.row.singleton is Singleton.AFFINE:
        scale, constant = advantage[:1] - advantage[-1:], advantage[-1]
        assert torch.allclose(advantage, scale * reward + constant), "it is no multiple of the reward and a constant"
        assert constant != 0 and abs(float(scale) - 1) > 1e-9, "a multiple of one, or no constant"
        return
    kinds = {Singleton.RAW: reward, Singleton.UNIT: torch.ones_like(reward), Singleton.ZERO: torch.zeros_like(reward)}
    expected = kinds[case.row.singleton]
    assert torch.equal(advantage, expected), f"a group of one gives {advantage.tolist()}"


def check_negative_control(case: Case) -> None:
    """A reward that ignores the answer, early ones too, does to the policy what the row says, and its target."""
    low = 0.0 if case.row.rewards is Rewards.BINARY else 0.5
    moved = moved_by_noise(case, [1.0, low], [[1.0, 0.0, 1.0], [0.0, 1.0, 0.0]], chance=0.3)
    if case.row.noise is Noise.STILL:
        assert moved <= 1e-12, f"noise moves the policy by {moved:.2g}"
        return
    assert moved > 1e-6, "noise does not move the policy"
    if case.row.rewards is Rewards.BINARY:
        return
    moved = moved_by_noise(case, [1.0, -1.0], [[1.0, -0.5, 2.0], [-1.0, 0.5, -2.0]], chance=0.5)
    if case.row.noise is Noise.EVEN:
        assert moved <= 1e-12, f"even noise moves the policy by {moved:.2g}"
    else:
        assert moved > 1e-6, "even noise does not move the policy"


def moved_by_noise(case: Case, reward: Sequence[float], early: Sequence[Sequence[float]], chance: float) -> float:
    """How far one of two rewards, drawn whatever the answer, moves the policy on average.

    In groups of five, and of fewer where every step must be credited by itself, answers of two tokens will do.
    Args: chance, of the first.
    """
    least = max(2, case.row.min_group)
    sizes = (2, 3) if least == 2 else (least,)
    if case.row.scope is Scope.STEP or case.row.reach is Reach.STEP:
        return max(_moved(case, 2, group, reward, early, chance) for group in sizes)
    return max(
        *(_moved(case, 3, group, reward, early, chance) for group in sizes), _moved(case, 2, 5, reward, early, chance)
    )


def _moved(
    case: Case, max_tokens: int, group: int, reward: Sequence[float], early: Sequence[Sequence[float]], chance: float
) -> float:
    place = world(max_tokens)
    policy = place.logits()
    answers = len(place.answers)
    chances = place.chances(policy)
    noise = Outcomes(
        answer=torch.arange(answers).repeat(2),
        chance=torch.cat([chance * chances, (1 - chance) * chances]),
        reward=torch.tensor(reward, dtype=chances.dtype).repeat_interleave(answers),
        logp=place.logp(policy),
        early=torch.tensor(early, dtype=chances.dtype).repeat_interleave(answers, dim=0)[:, : place.max_tokens],
    )
    found = moments(case.row, place, policy=policy, behavior=policy, possible=noise, group=group).mean
    if case.row.noise is not Noise.STILL and group == 2:
        shape = shapes(case.row.target, place, possible=noise, group=group)
        claim = (shape * noise.chance[place.owner(noise)]) @ place.scores(policy)[place.tokens(noise)]
        error = float((found - claim).abs().max())
        assert error <= 1e-9, f"under noise the expected gradient misses its target by {error:.2g}"
    return float(found.abs().max())


Company = list[tuple[list[float], float]]
"""The log-ratios of every rollout of a group, and its advantage; the first is the one that is weighed."""


def _turned_over(row: Objective) -> Callable[[Company], list[float]]:
    return lambda company: [math.exp(-value if company[0][1] > 0 else value) for value in company[0][0]]


def _kernel(row: Objective) -> Callable[[Company], list[float]]:
    def law(company: Company) -> list[float]:
        log_ratios, advantage = company[0]
        power, decay = (2, 3) if advantage >= 0 else (3, 2)
        whole = math.exp(math.fsum(log_ratios))
        return [whole**power * math.exp(decay * (1 - whole))] * len(log_ratios)

    return law


def _share_of_side(row: Objective) -> Callable[[Company], list[float]]:
    temperature = row.ratio.keywords["temperature"]  # type: ignore[attr-defined]

    def far(log_ratios: list[float], advantage: float) -> float:
        return math.exp(-math.copysign(1, advantage) * math.fsum(log_ratios) / len(log_ratios) / temperature)

    def law(company: Company) -> list[float]:
        same = [far(*member) for member in company if member[1] * company[0][1] > 0]
        return [far(*company[0]) / (1 + math.fsum(same))] * len(company[0][0])

    return law


def _future(row: Objective) -> Callable[[Company], list[float]]:
    half_life, most = (row.ratio.keywords[name] for name in ("half_life", "most"))  # type: ignore[attr-defined]

    def law(company: Company) -> list[float]:
        log_ratios, found = company[0][0], []
        for t in range(len(log_ratios)):
            ahead = math.fsum(0.5 ** (s / half_life) * value for s, value in enumerate(log_ratios[t:]))
            found.append(min(max(1.0, math.exp(ahead)), most) * math.exp(log_ratios[t]))
        return found

    return law


WEIGHTS: dict[str, Callable[[Objective], Callable[[Company], list[float]]]] = {
    "aspo": _turned_over,
    "fipo": _future,
    "real": _share_of_side,
    "vespo": _kernel,
}
"""Of rows that count answers of behavior by a weight of their own: what it is for every token of the first rollout."""


@dataclass(frozen=True, kw_only=True)
class Lag:
    """A policy and the behavior it has left behind, in a world; the proximal policy stands by one of the two."""

    case: Case
    place: World
    size: float
    sampler: bool = False
    """Whether the sampler is apart and the policy still at the centre; else the policy is, and the sampler is there."""

    @property
    def kind(self) -> OffPolicy:
        """What the row says of it."""
        return self.case.row.mismatch if self.sampler else self.case.row.off_policy

    @property
    def group(self) -> int:
        return max(3, self.case.row.min_group)

    @property
    def policy(self) -> Tensor:
        return self.place.logits()

    @property
    def behavior(self) -> Tensor:
        policy = self.policy
        direction = torch.cos(2.3 * torch.arange(policy.numel(), dtype=policy.dtype)).reshape(policy.shape)
        return policy - self.size * direction

    def possible(self, reward: Reward) -> Outcomes:
        return outcomes(self.place, self.behavior, reward)

    def found(self, reward: Reward) -> Tensor:
        """The expected gradient."""
        return moments(
            self.case.row,
            self.place,
            policy=self.policy,
            behavior=self.behavior,
            proximal=self.policy if self.sampler else None,
            possible=self.possible(reward),
            group=self.group,
        ).mean

    def error(self, *, frozen_at_behavior: bool) -> float:
        """Relative distance of the expected gradient from the target at the policy, data from the behavior."""
        place, policy = self.place, self.policy
        law = self.possible(correct) if frozen_at_behavior else outcomes(place, policy, correct)
        claim = declared_gradient(self.case.row.target, place, policy=policy, possible=law, group=self.group)
        return float((self.found(correct) - claim).abs().max() / claim.abs().max())

    def shape(self, reward: Reward) -> Tensor:
        """[T] h of every token, frozen at behavior, with the mean that the row's baseline leaves it."""
        row, possible, place = self.case.row, self.possible(reward), self.place
        by_pairs = row.aggregate is group_sum and Need.LOGP not in row.needs
        if by_pairs or row.name == "clip_cov":  # By what the policy makes of it now, whoever sampled.
            possible = replace(possible, logp=place.logp(self.policy))
        shape = shapes(row.target, place, possible=possible, group=self.group)
        if isinstance(row.target, TokenShape) or row.aggregate not in (sequence_sum, constant):
            return shape
        first = place.lengths.cumsum(0) - place.lengths
        mean = float(possible.chance @ shape[first])
        share = 1 if row.aggregate is sequence_sum else 1 / place.max_tokens
        return shape - mean + share * self.credit(possible.law(place))

    def pull(self) -> Tensor:
        """[T] how the row's penalty draws every token back to behavior, by its own log-ratio or by its answer's."""
        row, place = self.case.row, self.place
        apart = place.logp(self.policy) - place.logp(self.behavior)
        if row.penalty is drift_of_share:
            return self.drift_of_shares()[place.answer]
        if row.aggregate is token_mean:  # The drift of a token, which no lag here brings to its cap.
            return -row.penalty_weight * apart.expm1() * self.share_of_tokens()[place.answer]
        whole = row.penalty is squared_sequence_log_ratio
        return -2 * row.penalty_weight * (place.per_answer(apart)[place.answer] if whole else apart)

    def drift_of_shares(self) -> Tensor:
        """[answers] −N·E[p − p_old], the share of an answer among its company under the policy and under behavior."""
        place, chance = self.place, self.possible(correct).chance
        places = torch.cartesian_prod(*[torch.arange(len(chance))] * self.group)
        shares = [place.chances(of)[places] for of in (self.policy, self.behavior)]
        now, before = (found[:, 0] / found.sum(dim=1) for found in shares)
        drift = self.group * chance[places[:, 1:]].prod(dim=1) * (before - now)
        return torch.zeros_like(chance).index_add(0, places[:, 0], drift)

    def share_of_tokens(self) -> Tensor:
        """[answers] N·E[1/T], T tokens of an answer and its company."""
        chance = self.possible(correct).chance
        places = torch.cartesian_prod(*[torch.arange(len(chance))] * self.group)
        share = chance[places[:, 1:]].prod(dim=1) * self.group / self.place.lengths[places].sum(dim=1)
        return torch.zeros_like(chance).index_add(0, places[:, 0], share)

    def weighted(self, reward: Reward) -> Tensor:
        """[T] what every token can expect by the weight of the row's own, over all company that an answer can have."""
        row, place, possible = self.case.row, self.place, self.possible(reward)
        if row.penalty is likelihood_of_right:  # The ratio weighs the credit, not the likelihood beside it.
            liked = row.penalty_weight * (possible.reward >= 1)[place.answer] / place.max_tokens
            apart = place.logp(self.policy) - place.logp(self.behavior)
            return (self.shape(reward) - liked) * apart.exp() + liked
        assert row.name in WEIGHTS, "it has no weight of its own"
        law = WEIGHTS[row.name](row)
        sizes = place.lengths.tolist()
        apart = (place.logp(self.policy) - place.logp(self.behavior)).split(sizes)
        log_ratios = [part.tolist() for part in apart]
        places = torch.cartesian_prod(*[torch.arange(len(sizes))] * self.group)
        chance = possible.chance[places[:, 1:]].prod(dim=1)
        advantage = earned(row, possible.reward[places])
        found = [[0.0] * size for size in sizes]
        for group, share, credit in zip(places.tolist(), chance.tolist(), advantage.tolist(), strict=True):
            own, tokens = group[0], sum(sizes[answer] for answer in group)
            divisor = {
                constant: place.max_tokens,
                sequence_mean: sizes[own],
                token_mean: tokens / self.group,
            }[row.aggregate]
            company = [(log_ratios[answer], value) for answer, value in zip(group, credit, strict=True)]
            for at, weight in enumerate(law(company)):
                found[own][at] += share * credit[0] * weight / divisor
        return torch.tensor([value for part in found for value in part], dtype=possible.chance.dtype)

    def signed(self, reward: Reward) -> tuple[Tensor, Tensor]:
        """[answers] the advantage that each can expect where it is positive, and where it is not."""
        possible = self.possible(reward)
        places = torch.cartesian_prod(*[torch.arange(len(possible.answer))] * self.group)
        chance = possible.chance[places[:, 1:]].prod(dim=1)
        found = earned(self.case.row, possible.reward[places])[:, 0]
        empty = torch.zeros_like(possible.chance)
        raised, lowered = (empty.index_add(0, places[:, 0], chance * part) for part in (found.relu(), -(-found).relu()))
        return raised, lowered

    def credit(self, law: Sequence[tuple[float, int, float]]) -> float:
        """E[A]: what the baseline leaves of the advantage on average. No target depends on it."""
        groups = list(itertools.product(law, repeat=self.group))
        rewards = torch.tensor([[value for value, _, _ in group] for group in groups], dtype=torch.float64)
        chances = torch.tensor([[chance for _, _, chance in group] for group in groups], dtype=torch.float64)
        return float(chances.prod(dim=1) @ earned(self.case.row, rewards).mean(dim=1))


def check_off_policy_order(case: Case) -> None:
    """The error is first order in the lag: halving the lag halves it, and it does not vanish. Or there is none."""
    if case.row.off_policy is OffPolicy.SEQUENCE:
        error = Lag(case=case, place=world(), size=0.3).error(frozen_at_behavior=True)
        assert error <= 1e-9, f"the error is {error:.2g} for whole answers"
        return
    sizes = (case.lag, case.lag / 2, case.lag / 4)
    far, near, nearest = (Lag(case=case, place=world(), size=s).error(frozen_at_behavior=False) for s in sizes)
    assert nearest > case.lag / 400, "there is no error off policy"
    assert 1.8 < far / near < 2.2 and 1.8 < near / nearest < 2.2, f"errors {far:.3g} {near:.3g} {nearest:.3g}"


def check_off_policy_one_token(case: Case, sampler: bool = False) -> None:
    """For answers of one token every ratio is exact, a soft one to second order, and no ratio is not."""
    lag = Lag(case=case, place=world(1), size=case.lag, sampler=sampler)
    error = lag.error(frozen_at_behavior=True)
    if math.isnan(error) and not lag.found(correct).any():  # 0/0: one token has no part that the row looks at.
        return
    if lag.kind in (OffPolicy.ON_POLICY, OffPolicy.REGULARISED, OffPolicy.TAPERED, OffPolicy.WEIGHTED):
        assert error > case.lag / 40, "data from another policy makes no difference"
    elif lag.kind is OffPolicy.SOFT:
        near = replace(lag, size=case.lag / 2).error(frozen_at_behavior=True)
        assert near > 1e-9 and 3.6 < error / near < 4.4, f"errors {error:.3g} {near:.3g} for answers of one token"
    else:
        assert error <= 1e-9, f"the error is {error:.2g} for answers of one token"


def check_off_policy_states(case: Case, sampler: bool = False) -> None:
    """The expected gradient is what the row's class says it is over prefixes and actions, or over answers."""
    reward = correct if case.row.rewards is Rewards.BINARY else graded_reward
    lag = Lag(case=case, place=world(), size=case.lag, sampler=sampler)
    error = float((lag.found(reward) - expected_off_policy(lag, reward)).abs().max())
    if lag.kind is OffPolicy.SOFT:
        half = replace(lag, size=case.lag / 2)
        near = float((half.found(reward) - expected_off_policy(half, reward)).abs().max())
        assert near > 1e-9 and 3.6 < error / near < 4.4, f"errors {error:.3g} {near:.3g} over prefixes and actions"
        return
    assert error <= 1e-9, f"the expected gradient differs from its form by {error:.2g}"


def expected_off_policy(lag: Lag, reward: Reward) -> Tensor:
    """Prefixes of behavior; actions of the policy, or of behavior if the row is blind; continuations of behavior.

    Or answers, by a mixture of both or by the policy, where the row looks at them whole.
    """
    place, policy, possible, shape = lag.place, lag.policy, lag.possible(reward), lag.shape(reward)
    if lag.kind is OffPolicy.REGULARISED:
        pull = lag.pull()
        assert pull.any(), "nothing draws it back to behavior"
        return (possible.chance[place.answer] * (shape + pull)) @ place.scores(policy)
    if lag.kind is OffPolicy.WEIGHTED:
        return (possible.chance[place.answer] * lag.weighted(reward)) @ place.scores(policy)
    if lag.kind is OffPolicy.TAPERED:
        raised, lowered = lag.signed(reward)
        smaller = torch.minimum(possible.chance, place.chances(policy))
        return (possible.chance * raised + smaller * lowered) @ place.per_answer(place.scores(policy))
    if lag.kind in (OffPolicy.GEOMETRIC, OffPolicy.SEQUENCE):
        own = 1 / place.lengths.to(policy.dtype) if lag.kind is OffPolicy.GEOMETRIC else 1.0
        mixed = possible.chance ** (1 - own) * place.chances(policy) ** own
        return (mixed[place.answer] * shape) @ place.scores(policy)
    if lag.kind is OffPolicy.TIMESTEP:
        size = getattr(lag.case.row.ratio, "keywords", {}).get("timestep")
        assert size, "the ratio has no timestep"
        first = place.lengths.cumsum(0) - place.lengths
        return timestep_gradient(place, size, policy=policy, behavior=lag.behavior, rewards=shape[first]).mean
    scores = place.scores(policy).reshape(len(place.prefix), place.prefixes, -1)
    actions = (lag.behavior if lag.kind is OffPolicy.ON_POLICY else policy).log_softmax(1).exp()
    total = torch.zeros_like(policy)
    for prefix, action in itertools.product(range(place.prefixes), range(3)):
        tokens = [t for t in range(len(place.prefix)) if place.prefix[t] == prefix and place.choice[t] == action]
        reach = sum(float(possible.chance[y]) for y in _through(place, prefix))
        weight = possible.chance[place.answer[tokens]]
        value = float(weight @ shape[tokens] / weight.sum())
        total = total + reach * float(actions[prefix, action]) * value * scores[tokens[0]]
    return total.flatten()


def _through(place: World, prefix: int) -> list[int]:
    return sorted({int(place.answer[t]) for t in range(len(place.prefix)) if place.prefix[t] == prefix})


def select(tokens: Tokens, chosen: Tensor) -> Tokens:
    """Some tokens of a batch, in the order asked for."""
    values = {field.name: getattr(tokens, field.name) for field in fields(tokens)}
    return Tokens(**{name: None if value is None else value[chosen] for name, value in values.items()})


def check_additive(case: Case, step: Step, parts: Sequence[int]) -> None:
    """κ of a token is the same in a micro-batch as in the whole step, bit for bit.

    `parts` names the micro-batch of what the row's reach keeps together, by turns: of a token, a rollout or a group.
    """
    if refused(case, step.rewards):
        return
    tokens, sizes = step.tokens(case.row), step.denominators()
    tokens = replace(tokens, length=tokens.lengths)
    whole = case.row.coefficients(tokens, sizes)
    kept = {
        Reach.TOKEN: torch.arange(len(tokens)),
        Reach.SEQUENCE: tokens.sequence,
        Reach.GROUP: tokens.group,
        Reach.STEP: torch.zeros_like(tokens.group),
    }[case.row.reach]
    of = torch.tensor([parts[unit % len(parts)] for unit in kept.tolist()], dtype=torch.int64)
    for part in set(of.tolist()):
        chosen = (of == part).nonzero()[:, 0]
        alone = case.row.coefficients(select(tokens, chosen), sizes)
        assert torch.equal(alone, whole[chosen]), f"micro-batch {part} has other coefficients than the step"


def check_order(case: Case, step: Step, seed: int) -> None:
    """Shuffling rollouts in their group, and tokens in their batch, shuffles κ and changes nothing else."""
    if refused(case, step.rewards):
        return
    generator = torch.Generator().manual_seed(seed)
    tokens, sizes = step.tokens(case.row), step.denominators()
    order = torch.randperm(len(tokens), generator=generator)
    shuffled = case.row.coefficients(select(tokens, order), sizes)
    assert torch.equal(shuffled, case.row.coefficients(tokens, sizes)[order]), "the order of tokens matters"
    places = torch.randperm(len(step.rewards[0]), generator=generator).tolist()
    marked = replace(step, values=[float(t) for t in range(len(step.logp))])
    back = torch.tensor(marked.moved(places).values, dtype=torch.int64)
    moved, kept = case.row.credits(step.moved(places).seen()), case.row.credits(step.seen())
    assert torch.allclose(moved, kept[back], rtol=0, atol=1e-12), "the order of rollouts matters"
    if case.row.scope is Scope.GROUP:
        assert groups_are_alone(case.row, step), "groups see each other"
    elif step is EDGE_STEPS["mixed"]:  # There every group decides something; in the other step one does not.
        alone = [groups_are_alone(case.row, EDGE_STEPS[name]) for name in ("mixed", "none correct")]
        assert not all(alone), "groups do not see each other"


def groups_are_alone(row: Objective, step: Step) -> bool:
    """Whether every group of a step has the credit that it has in a step of its own."""
    apart = torch.cat([row.credits(step.only(group).seen()) for group in range(len(step.rewards))])
    return torch.allclose(row.credits(step.seen()), apart, rtol=0, atol=1e-12)


def check_shift(case: Case, steps: Sequence[Step]) -> None:
    """A constant on all that is earned changes nothing if a baseline is claimed, and something if none is.

    Whether a rollout earns it in one part or in several; where returns are compared over a step or in a state, in one.
    """
    claimed = case.row.baseline not in (Baseline.NONE, Baseline.CRITIC) or case.row.rewards is Rewards.NONE
    for segments in (1,) if case.row.baseline in (Baseline.STATE, Baseline.TURNS, Baseline.STEP) else (1, 3):
        same = []
        for step in steps:
            before = replace(step, segments=segments)
            after = replace(
                before,
                rewards=[[reward + 3.0 for reward in group] for group in step.rewards],
                early=[[[reward + 3.0 for reward in rollout] for rollout in group] for group in step.early],
                reward_parts=[[[part + 3.0 for part in rollout] for rollout in group] for group in step.reward_parts],
                greedy=[[reward + 3.0 for reward in group] for group in step.greedy],
                visits=[[[n, mean + 3.0 * (n > 0), v] for n, mean, v in group] for group in step.visits],
            )
            if refused(case, after.rewards):
                return
            kappas = [case.row.coefficients(here.tokens(case.row), step.denominators()) for here in (before, after)]
            same.append(torch.allclose(*kappas, rtol=1e-9, atol=1e-12))
        if claimed:
            assert all(same), "a shift of all rewards changes the coefficients"
        else:
            assert not all(same), "a shift of all rewards changes nothing"


def check_needs(case: Case) -> None:
    """The row looks at log-probabilities, reference, critic and entropies if it asks for them, and only then.

    In some step: of groups with several rewards, and of one with a single reward.
    """
    row = case.row
    steps = [step for step in (EDGE_STEPS["mixed"], EDGE_STEPS["none correct"]) if not refused(case, step.rewards)]
    if not steps:
        return
    fields = {"proximal": Need.LOGP, "reference": Need.REFERENCE, "values": Need.VALUES}
    fields |= {"entropy": Need.ENTROPY, "collision": Need.COLLISION}
    for name, need in fields.items():
        looks, asks = any(_looks(row, step, name, need) for step in steps), need in row.asks
        assert looks == asks, (
            f"{need} is {'asked for' if asks else 'looked at'} and not {'looked at' if asks else 'asked for'}"
        )
    looks, asks = any(_looks_at_visits(row, step) for step in steps), Need.VISITS in row.asks
    assert looks == asks, f"earlier visits are {'asked for' if asks else 'looked at'} and not the other way"
    looks, asks = any(_looks_beyond(row, step) for step in steps), Need.BEYOND in row.asks
    assert looks == asks, f"a value beyond the end is {'asked for' if asks else 'looked at'} and not the other way"
    if row.baseline in (Baseline.NONE, Baseline.CRITIC):
        assert (row.baseline is Baseline.CRITIC) == (Need.VALUES in row.needs), "a critic is no baseline, or none is"


def _looks(row: Objective, step: Step, name: str, need: Need) -> bool:
    """Whether anything becomes of a step by what tokens have of that name."""
    moved = replace(step, **{name: [v + 30 * (t % 5 - 2) for t, v in enumerate(getattr(step, name))]})
    if need is Need.REFERENCE:  # Pairs and penalties look at it as the gradient is taken; a hinge only from afar.
        sizes = step.denominators()
        return not torch.equal(*(row.coefficients(here.tokens(row), sizes) for here in (step, moved)))
    return not torch.equal(row.credits(step.seen()), row.credits(moved.seen()))


def _looks_at_visits(row: Objective, step: Step) -> bool:
    """Whether anything becomes of a step by how often its tasks were visited before."""
    moved = replace(step, visits=[[[3.0, 0.1, 0.5]] * len(group) for group in step.visits])
    return not torch.equal(row.credits(step.seen()), row.credits(moved.seen()))


def _looks_beyond(row: Objective, step: Step) -> bool:
    """Whether anything becomes of a step by what a critic expects after its rollouts."""
    moved = replace(step, beyond=[[value + 30.0 for value in group] for group in step.beyond])
    return not torch.equal(row.credits(step.seen()), row.credits(moved.seen()))


def check_textbook(case: Case, step: Step, dtype: torch.dtype) -> None:
    """κ is the derivative of the textbook loss in the log-probability of every token."""
    if refused(case, step.rewards):
        return
    tokens = step.tokens(case.row, dtype)
    expected = slope(case, step, tokens.logp)
    found = case.row.coefficients(tokens, step.denominators())
    assert found.dtype == dtype and found.shape == tokens.logp.shape
    limit = 1e-12 if dtype == torch.float64 else 2e-6
    assert torch.allclose(found, expected, rtol=10 * limit, atol=limit), (
        f"κ differs from the textbook by {float((found - expected).abs().max()):.2g}"
    )


LASTING = {id(value) for value in (*EDGE_STEPS.values(), *(case.loss for case in CASES.values()))}
SLOPES: dict[tuple[int, int, torch.dtype], Tensor] = {}
"""Of textbook losses on edge steps, which mutants share with the row they come from."""


def slope(case: Case, step: Step, logp: Tensor) -> Tensor:
    """The derivative of the textbook loss, by autodiff."""
    lasting = case.loss in [known.loss for known in CASES.values()] and any(
        step is edge for edge in EDGE_STEPS.values()
    )
    key = (id(case.loss), id(step), logp.dtype)
    if lasting and key in SLOPES:
        return SLOPES[key]
    logp = logp.clone().requires_grad_()
    loss = case.loss(step, logp)
    (found,) = torch.autograd.grad(loss, logp) if loss.requires_grad else (torch.zeros_like(logp),)
    if lasting:
        SLOPES[key] = found
    return found


def check_detached(case: Case) -> None:
    """κ carries no gradient, so the loss −Σ κ·logp has the gradient −κ in logp and none anywhere else."""
    step = EDGE_STEPS["decoupled" if case.row.min_group <= 3 else "decoupled, four"]
    tokens = step.tokens(case.row)
    tokens = replace(tokens, length=tokens.lengths)
    inputs = {f.name: getattr(tokens, f.name) for f in fields(tokens)}
    inputs = {n: v.clone().requires_grad_() if v.is_floating_point() else v for n, v in inputs.items()}
    kappa = case.row.coefficients(Tokens(**inputs), step.denominators())
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
            right=torch.arange(count) % 2 == 0,
        )
        sizes = Denominators(groups=count, sequences=count, tokens=count, max_tokens=1, group_tokens=(1,) * count)
        kappa = case.row.coefficients(tokens, sizes)
        assert torch.isfinite(kappa).all(), f"κ of {kappa[~torch.isfinite(kappa)][0]} at a log-ratio of ±80"


def check_steps(check: Callable[[Case, Step], None], case: Case) -> None:
    for step in EDGE_STEPS.values():
        check(case, step)


def _alternating(case: Case, step: Step) -> None:
    count = len(step.rollouts())
    check_additive(case, step, [s % 2 for s in range(count)])
    if count <= 12:
        check_additive(case, step, list(range(count)))


SUITE: dict[str, Callable[[Case], None]] = {
    **{
        f"expectation of {n}, {reward.__name__}": partial(check_expectation, group=n, reward=reward)
        for n in (1, 2, 3, 4)
        for reward in (correct, graded_reward)
    },
    "singleton": check_singleton,
    "negative control": check_negative_control,
    "off policy, order": check_off_policy_order,
    "off policy, one token": check_off_policy_one_token,
    "off policy, states": check_off_policy_states,
    "mismatch, one token": partial(check_off_policy_one_token, sampler=True),
    "mismatch, states": partial(check_off_policy_states, sampler=True),
    "additive": partial(check_steps, _alternating),
    "order": partial(check_steps, partial(check_order, seed=0)),
    "shift": lambda case: check_shift(case, [EDGE_STEPS["mixed"], EDGE_STEPS["six"]]),
    "needs": check_needs,
    "textbook, float32": partial(check_steps, partial(check_textbook, dtype=torch.float32)),
    "textbook, float64": partial(check_steps, partial(check_textbook, dtype=torch.float64)),
    "detached": check_detached,
    "finite": check_finite,
}
"""Every check, by name, ready to run on a case."""
