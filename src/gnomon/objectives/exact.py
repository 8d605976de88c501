"""The expected gradient of an objective as a finite sum, in a world small enough to write down.

A tabular policy writes up to three tokens out of "a", "b" and the end ".": 15 answers, 7 prefixes, 21
parameters. A group is a multiset of answers with its multinomial chance, so nothing is sampled.
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
from gnomon.objectives.row import Need, Objective, Scope
from gnomon.objectives.table import objective
from gnomon.objectives.target import Law, Seen, Target, TokenShape
from gnomon.objectives.tokens import Denominators, Tokens

__all__ = [
    "ExactReport",
    "Moments",
    "Outcomes",
    "World",
    "correct",
    "declared_gradient",
    "graded",
    "moments",
    "multisets",
    "outcomes",
    "outcomes_for",
    "report",
    "shapes",
    "step_of",
    "with_demonstrations",
    "world",
]

ALPHABET = "ab."
LARGEST = 6
PAST = 0.3
"""What the run's past expects of every rollout."""


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """Every answer of up to `max_tokens` tokens. [T] counts the tokens of all answers laid end to end."""

    max_tokens: int
    answers: tuple[str, ...]
    """The end token is written "."; an answer cut by the limit has none."""
    prefix: Tensor
    """[T] which of the prefixes each token follows."""
    choice: Tensor
    """[T] which token of the alphabet it is."""
    answer: Tensor
    """[T] which answer it belongs to."""
    lengths: Tensor
    """[answers] tokens per answer, the end included."""
    prefixes: int

    def logits(self) -> Tensor:
        """[prefixes, 3] a fixed policy without symmetries, float64."""
        count = self.prefixes * len(ALPHABET)
        return torch.sin(1.7 * torch.arange(count, dtype=torch.float64) + 0.3).reshape(self.prefixes, -1)

    def logp(self, logits: Tensor) -> Tensor:
        """[T] log-probability of every token, given the answer's earlier ones."""
        return logits.log_softmax(dim=1)[self.prefix, self.choice]

    def scores(self, logits: Tensor) -> Tensor:
        """[T, parameters] gradient of `logp` in the logits."""
        rows = torch.zeros(len(self.prefix), *logits.shape, dtype=logits.dtype)
        token = torch.arange(len(self.prefix))
        rows[token, self.prefix] -= logits.softmax(dim=1)[self.prefix]
        rows[token, self.prefix, self.choice] += 1
        return rows.flatten(1)

    def chances(self, logits: Tensor) -> Tensor:
        """[answers] probability of every answer."""
        return self.per_answer(self.logp(logits)).exp()

    def guess(self) -> Tensor:
        """[prefixes] what a critic that is wrong expects."""
        return torch.cos(1.3 * torch.arange(self.prefixes, dtype=torch.float64) + 0.2)

    def anchor(self) -> Tensor:
        """[prefixes, 3] logits of a reference policy that stands apart."""
        count = self.prefixes * len(ALPHABET)
        return torch.cos(0.9 * torch.arange(count, dtype=torch.float64) + 0.5).reshape(self.prefixes, -1)

    def early(self, possible: Outcomes) -> Tensor:
        """[outcomes, max_tokens] what arrives after 1, 2, … tokens: the binary reward of an answer cut there."""
        if possible.early is not None:
            return possible.early
        table = [[correct(text[: cut + 1]) for cut in range(self.max_tokens)] for text in self.answers]
        return torch.tensor(table, dtype=torch.float64)[possible.answer]

    def tokens(self, possible: Outcomes) -> Tensor:
        """[tokens of every outcome, end to end] index of each among the [T] of the world."""
        start = self.lengths.cumsum(0) - self.lengths
        spans = zip(start[possible.answer].tolist(), self.lengths[possible.answer].tolist(), strict=True)
        return torch.cat([torch.arange(first, first + length) for first, length in spans])

    def owner(self, possible: Outcomes) -> Tensor:
        """[tokens of every outcome, end to end] the outcome that each belongs to."""
        return torch.arange(len(possible.answer)).repeat_interleave(self.lengths[possible.answer])

    def seen(self, possible: Outcomes) -> list[Seen]:
        """Every outcome in plain numbers."""
        token = self.tokens(possible)
        sizes = self.lengths[possible.answer].tolist()
        known = (self.guess()[self.prefix], possible.logp, self.logp(self.anchor()))
        values, logp, reference = (torch.split(x[token], sizes) for x in known)
        early = self.early(possible).tolist()
        return [
            Seen(
                reward=float(possible.reward[i]),
                length=sizes[i],
                answer=int(possible.answer[i]),
                early=tuple(early[i]),
                values=tuple(values[i].tolist()),
                logp=tuple(logp[i].tolist()),
                baseline=PAST,
                demonstrated=possible.demonstrated is not None and bool(possible.demonstrated[i]),
                reference=tuple(reference[i].tolist()),
            )
            for i in range(len(sizes))
        ]

    def per_answer(self, values: Tensor) -> Tensor:
        """[answers, …] sum over the tokens of each answer of [T, …] values."""
        total = torch.zeros(len(self.answers), *values.shape[1:], dtype=values.dtype)
        return total.index_add(0, self.answer, values)


@functools.cache
def world(max_tokens: int = 3) -> World:
    """The world with that length limit: 2^(max_tokens + 1) − 1 answers."""
    prefixes = ["".join(p) for length in range(max_tokens) for p in itertools.product("ab", repeat=length)]
    cut = ["".join(p) for p in itertools.product("ab", repeat=max_tokens)]
    answers = (*(prefix + "." for prefix in prefixes), *cut)
    index = {prefix: i for i, prefix in enumerate(prefixes)}
    rows = [(i, index[text[:t]], ALPHABET.index(text[t])) for i, text in enumerate(answers) for t in range(len(text))]
    answer, prefix, choice = torch.tensor(rows).unbind(1)
    lengths = torch.tensor([len(text) for text in answers])
    return World(
        max_tokens=max_tokens,
        answers=answers,
        prefix=prefix,
        choice=choice,
        answer=answer,
        lengths=lengths,
        prefixes=len(prefixes),
    )


def correct(answer: str) -> float:
    """The binary reward: one for exactly one "a"."""
    return float(answer.count("a") == 1)


def graded(answer: str) -> float:
    """The real-valued reward: `correct`, and 0.1 more for an answer that ends by itself."""
    return correct(answer) + 0.1 * answer.endswith(".")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcomes:
    """What one rollout can turn out to be. [Y] counts the outcomes; an answer may occur with several rewards."""

    answer: Tensor
    """[Y] index of the answer."""
    chance: Tensor
    """[Y] probability under the behavior; sums to one."""
    reward: Tensor
    """[Y]"""
    logp: Tensor
    """[T] log-probability of every token of the world under the behavior."""
    demonstrated: Tensor | None = None
    """[Y] bool, whether it is given rather than sampled. None: none is."""
    early: Tensor | None = None
    """[Y, max_tokens] what arrives after each token. None: the reward of the answer, were it cut there."""

    def law(self, place: World) -> Law:
        """The joint distribution of reward and length."""
        chance: dict[tuple[float, int], float] = {}
        lengths = place.lengths[self.answer].tolist()
        for reward, length, share in zip(self.reward.tolist(), lengths, self.chance.tolist(), strict=True):
            chance[reward, length] = chance.get((reward, length), 0.0) + share
        return tuple((reward, length, share) for (reward, length), share in chance.items())


def outcomes(place: World, behavior: Tensor, reward: Callable[[str], float]) -> Outcomes:
    """The answers, with their chances under `behavior` logits and the reward of each."""
    rewards = torch.tensor([reward(text) for text in place.answers], dtype=behavior.dtype)
    return Outcomes(
        answer=torch.arange(len(place.answers)),
        chance=place.chances(behavior),
        reward=rewards,
        logp=place.logp(behavior),
    )


SHOWN = {2: 0.15, 9: 0.1}
"""Answers that demonstrations give, and how often a rollout is one: a right one and a wrong one."""


def with_demonstrations(possible: Outcomes) -> Outcomes:
    """The same rollouts, some given instead of sampled."""
    shown, share = torch.tensor(list(SHOWN)), torch.tensor(list(SHOWN.values()), dtype=possible.chance.dtype)
    return replace(
        possible,
        answer=torch.cat([possible.answer, shown]),
        chance=torch.cat([possible.chance * (1 - share.sum()), share]),
        reward=torch.cat([possible.reward, possible.reward[shown]]),
        demonstrated=torch.arange(len(possible.answer) + len(shown)) >= len(possible.answer),
    )


def outcomes_for(row: Objective, place: World, behavior: Tensor, reward: Callable[[str], float]) -> Outcomes:
    """`outcomes`, with demonstrations among them for a row that asks for some."""
    possible = outcomes(place, behavior, reward)
    return with_demonstrations(possible) if Need.DEMONSTRATIONS in row.needs else possible


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
    place: World,
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
    lengths = place.lengths[answer]
    sequence = torch.repeat_interleave(torch.arange(len(answer)), lengths)
    first = (place.lengths.cumsum(0) - place.lengths)[answer] - (lengths.cumsum(0) - lengths)
    token = torch.arange(len(sequence)) + first[sequence]
    if row.credit is terminal:
        advantage = row.advantage(possible.reward[members]).flatten()[sequence]
    elif row.scope is Scope.GROUP:
        advantage = row.credits(step_of(place, possible, members))
    else:
        steps = _one_by_one(step_of(place, possible, members))
        advantage = torch.cat([row.credits(step) for step in steps])
    policy_logp, behavior_logp = place.logp(policy)[token], place.logp(behavior)[token]
    proximal_logp = behavior_logp if proximal is None else place.logp(proximal)[token]
    given = None if possible.demonstrated is None else possible.demonstrated[members].flatten()[sequence]
    totals = lengths.reshape(-1, group).sum(dim=1)
    kappa = torch.zeros_like(advantage)
    # Groups of equal size share their denominators, so one call serves them all.
    for total in sorted(set(totals.tolist())):
        part = (totals == total)[sequence // group]
        tokens = Tokens(
            logp=policy_logp[part],
            behavior_logp=behavior_logp[part],
            proximal_logp=proximal_logp[part],
            reference_logp=policy_logp[part],
            advantage=advantage[part],
            sequence=sequence[part],
            group=sequence[part] // group,
            demonstrated=None if given is None else given[part],
        )
        sizes = Denominators(
            groups=1, sequences=group, tokens=total, max_tokens=place.max_tokens, group_tokens=tuple(totals.tolist())
        )
        kappa[part] = row.coefficients(tokens, sizes)
    weighted = kappa[:, None] * place.scores(policy)[token]
    gradient = torch.zeros(len(members), weighted.shape[1], dtype=weighted.dtype)
    gradient.index_add_(0, sequence // group, weighted)
    mean = chance @ gradient
    variance = chance @ (gradient - mean).square().sum(dim=1)
    return Moments(mean=mean, variance=float(variance), groups=len(members))


def step_of(place: World, possible: Outcomes, members: Tensor) -> Rollouts:
    """A step: everything that credit may look at.

    The critic is a fixed guess at every prefix, and wrong, as is what the past expects. The reference stands apart
    from the policy. Segments are single tokens; each pays what the answer would, were it cut there.
    Args: members, [groups, N] which outcomes.
    """
    answers = possible.answer[members]
    token = place.tokens(replace(possible, answer=answers.flatten()))
    start = place.lengths.cumsum(0) - place.lengths
    return Rollouts(
        rewards=possible.reward[members],
        lengths=place.lengths[answers],
        answers=answers,
        baseline=torch.full(answers.shape, PAST, dtype=torch.float64),
        demonstrated=None if possible.demonstrated is None else possible.demonstrated[members],
        segment=token - start[place.answer[token]],
        segment_rewards=place.early(possible)[members],
        values=place.guess()[place.prefix[token]],
        logp=possible.logp[token],
        reference_logp=place.logp(place.anchor())[token],
    )


def _one_by_one(step: Rollouts) -> Iterator[Rollouts]:
    """Every group of a step as a step of its own."""
    known = {field.name: getattr(step, field.name) for field in fields(step)}
    known = {name: values for name, values in known.items() if values is not None}
    sizes = step.lengths.sum(dim=1).tolist()
    parts = {
        name: values.split_with_sizes([1] * len(sizes) if values.dim() > 1 else sizes) for name, values in known.items()
    }
    for group in zip(*parts.values(), strict=True):
        yield Rollouts(**dict(zip(parts, group, strict=True)))


@functools.lru_cache(maxsize=16)
def multisets(kinds: int, size: int) -> tuple[Tensor, Tensor]:
    """[groups, size] every multiset of that size, and [groups] the number of its orderings."""
    members = list(itertools.combinations_with_replacement(range(kinds), size))
    orderings = [math.factorial(size) / math.prod(map(math.factorial, Counter(m).values())) for m in members]
    return torch.tensor(members), torch.tensor(orderings, dtype=torch.float64)


def declared_gradient(target: Target, place: World, *, policy: Tensor, possible: Outcomes, group: int) -> Tensor:
    """[parameters] the expected gradient that the target claims: Σ π(y) h(y) ∇log π(y).

    Args: policy, the logits whose π and ∇log π are meant; possible, whose law the shape h is frozen at.
    """
    chance = place.chances(policy)[possible.answer]
    if possible.demonstrated is not None:
        sampled = possible.chance[~possible.demonstrated].sum()
        chance = torch.where(possible.demonstrated, possible.chance, sampled * chance)
    weight = shapes(target, place, possible=possible, group=group) * chance[place.owner(possible)]
    return weight @ place.scores(policy)[place.tokens(possible)]


def shapes(target: Target, place: World, *, possible: Outcomes, group: int) -> Tensor:
    """[tokens of every outcome, end to end] the shape h of a target, frozen where `possible` was sampled."""
    if isinstance(target, TokenShape):
        seen = place.seen(possible)
        chances = list(zip(seen, possible.chance.tolist(), strict=True))
        found = [value for own in seen for value in target.shape(own, chances, group, place.max_tokens)]
        return torch.tensor(found, dtype=torch.float64)
    law = possible.law(place)
    lengths = place.lengths[possible.answer]
    each = [
        target.shape(reward, length, law, group, place.max_tokens)
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

    def __str__(self) -> str:
        rows = [
            ("target", self.target, ""),
            ("bias", f"{self.bias:.1e}", "largest error relative to the target"),
            ("cosine", "—" if math.isnan(self.cosine) else f"{self.cosine:.6f}", "with the policy gradient ∇p"),
            ("variance", f"{self.variance:.4g}", "trace of the covariance, per group"),
            ("noise", "—" if math.isinf(self.noise) else f"{self.noise:.4g}", "√variance / norm of the expectation"),
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
    chosen = objective(row) if isinstance(row, str) else row
    place = world()
    policy = place.logits()
    plain, possible = outcomes(place, policy, reward), outcomes_for(chosen, place, policy, reward)
    found = moments(chosen, place, policy=policy, behavior=policy, possible=possible, group=group)
    claim = declared_gradient(chosen.target, place, policy=policy, possible=possible, group=group)
    truth = place.per_answer(place.scores(policy)).T @ (plain.chance * plain.reward)
    size, norm = float(claim.abs().max()), float(found.mean.norm())
    return ExactReport(
        name=chosen.name,
        group=group,
        target=chosen.target.text,
        bias=float((found.mean - claim).abs().max()) / (size or 1.0),
        cosine=float(found.mean @ truth) / (norm * float(truth.norm())) if norm else math.nan,
        variance=found.variance,
        noise=math.sqrt(found.variance) / norm if norm else math.inf,
        expected_norm=norm,
        target_norm=float(claim.norm()),
        success=float(plain.chance @ plain.reward),
        groups=found.groups,
    )
