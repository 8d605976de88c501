"""The expected gradient of an objective as a finite sum, in a world small enough to write down.

A group is a multiset of answers with its multinomial chance, so nothing is sampled.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace

import torch
from torch import Tensor

from gnomon.objectives.credit import Rollouts, terminal
from gnomon.objectives.declaration import Need
from gnomon.objectives.row import Objective, Scope
from gnomon.objectives.table import objective
from gnomon.objectives.target import ClosedForm, Target, TokenShape
from gnomon.objectives.tokens import Denominators, Reach, Tokens
from gnomon.theory.world import Outcomes, World, correct, outcomes, outcomes_for, step_of, world

__all__ = [
    "ExactReport",
    "Moments",
    "declared_gradient",
    "moments",
    "multisets",
    "report",
    "shapes",
]

LARGEST = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Moments:
    """Mean and spread of the gradient of one group."""

    mean: Tensor
    """[parameters] E[g] of the maximised objective."""
    variance: float
    """Trace of the covariance of g."""
    groups: int
    """Multisets summed over."""


def moments(
    row: Objective,
    space: World,
    *,
    policy: Tensor,
    behavior: Tensor,
    possible: Outcomes,
    group: int,
    proximal: Tensor | None = None,
) -> Moments:
    """Mean and covariance trace of the row's gradient of one group, sampled from `behavior`, taken at `policy`.

    Args: policy, behavior, [prefixes, 3] logits; possible, the outcomes of one rollout; group, rollouts per group;
        proximal, [prefixes, 3] logits, those of the behavior unless given.
    Raises: ValueError where the row refuses such a group.
    """
    members, orderings = multisets(len(possible.answer), group)
    chance = orderings * possible.chance[members].prod(dim=1)
    answer = possible.answer[members].flatten()
    lengths = space.lengths[answer]
    sequence = torch.repeat_interleave(torch.arange(len(answer)), lengths)
    first = (space.lengths.cumsum(0) - space.lengths)[answer] - (lengths.cumsum(0) - lengths)
    token = torch.arange(len(sequence)) + first[sequence]
    if row.credit is terminal:
        advantage = row.advantage(possible.reward[members]).flatten()[sequence]
    elif row.scope is Scope.GROUP:
        advantage = row.credits(step_of(space, possible, members))
    else:
        steps = _one_by_one(step_of(space, possible, members))
        advantage = torch.cat([row.credits(step) for step in steps])
    policy_logp, behavior_logp = space.logp(policy)[token], space.logp(behavior)[token]
    proximal_logp = behavior_logp if proximal is None else space.logp(proximal)[token]
    supplied = None if possible.demonstrated is None else possible.demonstrated[members].flatten()[sequence]
    right = possible.reward[members].flatten()[sequence] >= 1
    totals = lengths.reshape(-1, group).sum(dim=1)
    kappa = torch.zeros_like(advantage)
    for total, part in _alike(totals, sequence // group, alone=row.reach is Reach.STEP):
        tokens = Tokens(
            logp=policy_logp[part],
            behavior_logp=behavior_logp[part],
            proximal_logp=proximal_logp[part],
            reference_logp=policy_logp[part],
            advantage=advantage[part],
            sequence=sequence[part],
            group=sequence[part] // group,
            demonstrated=None if supplied is None else supplied[part],
            right=right[part],
        )
        sizes = Denominators(
            groups=1, sequences=group, tokens=total, max_tokens=space.max_tokens, group_tokens=tuple(totals.tolist())
        )
        kappa[part] = row.coefficients(tokens, sizes)
    weighted = kappa[:, None] * space.scores(policy)[token]
    gradient = torch.zeros(len(members), weighted.shape[1], dtype=weighted.dtype)
    gradient.index_add_(0, sequence // group, weighted)
    mean = chance @ gradient
    variance = chance @ (gradient - mean).square().sum(dim=1)
    return Moments(mean=mean, variance=float(variance), groups=len(members))


def _alike(totals: Tensor, owner: Tensor, *, alone: bool) -> Iterator[tuple[int, Tensor]]:
    """Tokens per group and which tokens of all: groups of equal size share their denominators, so one call serves them.

    Args: totals, [groups] tokens of each; owner, [T] the group of every token; alone, whether each group is a step.
    """
    if alone:
        ends = totals.cumsum(0)
        for total, end in zip(totals.tolist(), ends.tolist(), strict=True):
            yield total, torch.arange(end - total, end)
        return
    for total in sorted(set(totals.tolist())):
        yield total, (totals == total)[owner]


def _one_by_one(step: Rollouts) -> Iterator[Rollouts]:
    """Every group of a step as a step of its own."""
    tensors = {field.name: getattr(step, field.name) for field in fields(step)}
    tensors = {name: values for name, values in tensors.items() if values is not None}
    sizes = step.lengths.sum(dim=1).tolist()
    parts = {
        name: values.split_with_sizes([1] * len(sizes) if values.dim() > 1 else sizes)
        for name, values in tensors.items()
    }
    for group in zip(*parts.values(), strict=True):
        yield Rollouts(**dict(zip(parts, group, strict=True)))


@functools.lru_cache(maxsize=16)
def multisets(kinds: int, size: int) -> tuple[Tensor, Tensor]:
    """[groups, size] every multiset of that size, and [groups] the number of its orderings."""
    members = list(itertools.combinations_with_replacement(range(kinds), size))
    orderings = [math.factorial(size) / math.prod(map(math.factorial, Counter(m).values())) for m in members]
    return torch.tensor(members), torch.tensor(orderings, dtype=torch.float64)


def declared_gradient(target: Target, space: World, *, policy: Tensor, possible: Outcomes, group: int) -> Tensor:
    """[parameters] the expected gradient that the target claims: Σ π(y) h(y) ∇log π(y).

    An answer that occurs with several rewards counts once: its outcomes share π(y) as they do where it was sampled.
    Args: policy, the logits whose π and ∇log π are meant; possible, whose law the shape h is frozen at.
    """
    supplied = possible.demonstrated
    sampled_chance = possible.chance if supplied is None else torch.where(supplied, 0.0, possible.chance)
    whole = torch.zeros(len(space.answers), dtype=sampled_chance.dtype).index_add(0, possible.answer, sampled_chance)
    share = torch.where(sampled_chance > 0, sampled_chance / whole[possible.answer], sampled_chance)
    chance = sampled_chance.sum() * share * space.chances(policy)[possible.answer]
    if supplied is not None:
        chance = torch.where(supplied, possible.chance, chance)
    weight = shapes(target, space, possible=possible, group=group) * chance[space.owner(possible)]
    return weight @ space.scores(policy)[space.tokens(possible)]


def shapes(target: Target, space: World, *, possible: Outcomes, group: int) -> Tensor:
    """[tokens of every outcome, end to end] the shape h of a target, frozen where `possible` was sampled."""
    if isinstance(target, TokenShape | ClosedForm):
        chances = space.chances_of(possible)
        if isinstance(target, TokenShape):
            values = [value for own, _ in chances for value in target.shape(own, chances, group, space.max_tokens)]
        else:
            shape = target.shape(chances, group, space.max_tokens)
            if shape is None:
                raise ValueError(f"no closed form is known for groups of {group}")
            values = [value for own, _ in chances for value in shape(own)]
        return torch.tensor(values, dtype=torch.float64)
    law = possible.law(space)
    lengths = space.lengths[possible.answer]
    each = [
        target.shape(reward, length, law, group, space.max_tokens)
        for reward, length in zip(possible.reward.tolist(), lengths.tolist(), strict=True)
    ]
    return torch.tensor(each, dtype=torch.float64).repeat_interleave(lengths)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExactReport:
    """What enumeration says of a row, on policy."""

    name: str
    group: int
    """Rollouts per group."""
    target: str
    """The declared expectation."""
    bias: float
    """Largest error of the expected gradient, relative to the largest entry of the target."""
    cosine: float
    """Between the expected gradient and the policy gradient ∇p. NaN where nothing moves."""
    variance: float
    """Trace of the covariance of the gradient of one group."""
    noise: float
    """√variance over the norm of the expected gradient. Infinite where nothing moves."""
    expected_norm: float
    target_norm: float
    success: float
    """p, the expected reward."""
    groups: int
    """Multisets summed over."""
    turns: tuple[float, ...] = ()
    """Of a row that reads rewards of turns: its expected gradient on the choices of turn 1, 2, …, as a multiple of
    ∇E[Σ_k r_k] there. Equal numbers and `turns_cosine` 1: it maximises what turns earn."""
    turns_cosine: float | None = None
    """Between the expected gradient and ∇E[Σ_k r_k]."""

    def __str__(self) -> str:
        rows = [
            ("target", self.target, ""),
            ("bias", f"{self.bias:.1e}", "largest error relative to the target"),
            ("cosine", "—" if math.isnan(self.cosine) else f"{self.cosine:.6f}", "with the policy gradient ∇p"),
            ("variance", f"{self.variance:.4g}", "trace of the covariance, per group"),
            ("noise", "—" if math.isinf(self.noise) else f"{self.noise:.4g}", "√variance / norm of the expectation"),
        ]
        if self.turns_cosine is not None:
            rows += [
                ("earned", f"{self.turns_cosine:.6f}", "cosine with the gradient of what turns earn, ∇E[Σ_k r_k]"),
                ("by turn", " ".join(f"{size:.3g}" for size in self.turns), "times that gradient, turn by turn"),
            ]
        head = f"{self.name}, group of {self.group}: {self.groups} groups enumerated, p = {self.success:.3f}"
        width = max(len(value) for _, value, note in rows if note)
        lines = [f"  {label:<9} {value:<{width}}  {note}".rstrip() for label, value, note in rows]
        return "\n".join([head, *lines])


def report(row: str | Objective, *, group: int = 4, reward: Callable[[str], float] = correct) -> ExactReport:
    """Enumerate a row in the world of 15 answers and hold it against its target.

    Args: row, a name of the table or an objective; group, rollouts per group, 1 … 6; reward, of an answer.
    Raises: ValueError for an unknown name, a group out of range, or one that the row refuses.
    """
    if not 1 <= group <= LARGEST:
        raise ValueError(f"groups of 1 to {LARGEST} can be enumerated, not of {group}")
    declared_row = objective(row) if isinstance(row, str) else row
    space = world()
    policy = space.logits()
    plain, possible = outcomes(space, policy, reward), outcomes_for(declared_row, space, policy, reward)
    row_moments = moments(declared_row, space, policy=policy, behavior=policy, possible=possible, group=group)
    claim = declared_gradient(declared_row.target, space, policy=policy, possible=possible, group=group)
    truth = space.per_answer(space.scores(policy)).T @ (plain.chance * plain.reward)
    size, norm = float(claim.abs().max()), float(row_moments.mean.norm())
    turns, turns_cosine = _by_turn(declared_row, space, possible, row_moments.mean)
    return ExactReport(
        name=declared_row.name,
        group=group,
        target=declared_row.expected_gradient,
        bias=float((row_moments.mean - claim).abs().max()) / (size or 1.0),
        cosine=float(row_moments.mean @ truth) / (norm * float(truth.norm())) if norm else math.nan,
        variance=row_moments.variance,
        noise=math.sqrt(row_moments.variance) / norm if norm else math.inf,
        expected_norm=norm,
        target_norm=float(claim.norm()),
        success=float(plain.chance @ plain.reward),
        groups=row_moments.groups,
        turns=turns,
        turns_cosine=turns_cosine,
    )


def _by_turn(row: Objective, space: World, possible: Outcomes, mean: Tensor) -> tuple[tuple[float, ...], float | None]:
    """`turns` and `turns_cosine` of a report; turns are tokens here, and every prefix has parameters of its own."""
    if Need.BUDGETS in row.needs:
        return (), None
    step = step_of(space, possible, torch.arange(len(possible.answer))[None])
    if torch.equal(row.credits(step), row.credits(replace(step, segment_rewards=None))):
        return (), None
    depth = torch.arange(space.max_tokens)
    earned = torch.where(depth < space.lengths[:, None], space.early(possible), 0.0).sum(dim=1)
    logits = space.logits()
    truth = (space.per_answer(space.scores(logits)).T @ (space.chances(logits) * earned)).reshape(space.prefixes, -1)
    of_prefix = torch.zeros(space.prefixes, dtype=torch.int64)
    start = space.lengths.cumsum(0) - space.lengths
    of_prefix[space.prefix] = torch.arange(len(space.prefix)) - start[space.answer]
    gradient = mean.reshape(truth.shape)
    products, squares = (
        torch.zeros(space.max_tokens, dtype=truth.dtype).index_add(0, of_prefix, (one * truth).sum(dim=1))
        for one in (gradient, truth)
    )
    cosine = float((gradient * truth).sum() / (gradient.norm() * truth.norm()))
    return tuple((products / squares).tolist()), cosine
