"""A world small enough to write down, in which every expectation is a finite sum.

A tabular policy writes up to three tokens out of "a", "b" and the end ".": 15 answers, 7 prefixes, 21
parameters.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from gnomon.objectives.credit import Rollouts
from gnomon.objectives.declaration import Need
from gnomon.objectives.row import Objective
from gnomon.objectives.target import Chances, Law, Seen

__all__ = [
    "GREEDY",
    "PAST",
    "Outcomes",
    "World",
    "correct",
    "graded_reward",
    "outcomes",
    "outcomes_for",
    "parts",
    "step_of",
    "with_demonstrations",
    "world",
]

ALPHABET = "ab."
PAST = 0.3
"""What the run's past expects of every rollout."""
PART_WEIGHTS = (1.0, 0.5)
"""Of the two parts of every reward."""
GREEDY = 0.8
"""What the greedy rollout of every task earned."""


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

    def endings(self) -> Tensor:
        """[answers] what ended each: the token limit, for "bbb" a limit between two turns, else the answer itself."""
        cut = [0 if text.endswith(".") else 2 if set(text) == {"b"} else 1 for text in self.answers]
        return torch.tensor(cut)

    def beyond(self) -> Tensor:
        """[answers] what a critic that is wrong expects after the last token of each."""
        return torch.sin(0.7 * torch.arange(len(self.answers), dtype=torch.float64) + 0.4)

    def anchor(self) -> Tensor:
        """[prefixes, 3] logits of a reference policy that stands apart."""
        count = self.prefixes * len(ALPHABET)
        return torch.cos(0.9 * torch.arange(count, dtype=torch.float64) + 0.5).reshape(self.prefixes, -1)

    def entropy(self, logp: Tensor) -> Tensor:
        """[T] entropy of the distribution that each token was drawn from. Args: logp, [T] of every token."""
        table = torch.zeros(self.prefixes, len(ALPHABET), dtype=logp.dtype)
        table[self.prefix, self.choice] = logp
        return -(table.exp() * table).sum(dim=1)[self.prefix]

    def collision(self, logp: Tensor) -> Tensor:
        """[T] Σ_v π(v)² of the distribution that each token was drawn from. Args: logp, [T] of every token."""
        table = torch.zeros(self.prefixes, len(ALPHABET), dtype=logp.dtype)
        table[self.prefix, self.choice] = logp
        return table.exp().square().sum(dim=1)[self.prefix]

    def observation(self) -> Tensor:
        """[T] what each token replies to, if all that is seen of a prefix is whether it ends in "b"."""
        first = self.answer != self.answer.roll(1)
        return torch.where(first, 0, self.choice.roll(1))

    def early(self, possible: Outcomes) -> Tensor:
        """[outcomes, max_tokens] what arrives after 1, 2, … tokens: the binary reward of an answer cut there."""
        if possible.early is not None:
            return possible.early
        table = [[correct(text[: cut + 1]) for cut in range(self.max_tokens)] for text in self.answers]
        return torch.tensor(table, dtype=torch.float64)[possible.answer]

    def tokens(self, possible: Outcomes) -> Tensor:
        """[tokens of every outcome, end to end] index of each among the [T] of the world."""
        start, lengths = self.lengths.cumsum(0) - self.lengths, self.lengths[possible.answer]
        first = start[possible.answer] - (lengths.cumsum(0) - lengths)
        return first.repeat_interleave(lengths) + torch.arange(int(lengths.sum()))

    def owner(self, possible: Outcomes) -> Tensor:
        """[tokens of every outcome, end to end] the outcome that each belongs to."""
        return torch.arange(len(possible.answer)).repeat_interleave(self.lengths[possible.answer])

    def rollouts(self, possible: Outcomes) -> list[Seen]:
        """Every outcome in plain numbers."""
        token = self.tokens(possible)
        sizes = self.lengths[possible.answer].tolist()
        mine = (possible.logp, self.entropy(possible.logp), self.collision(possible.logp))
        per_token = (self.guess()[self.prefix], self.logp(self.anchor()), *mine)
        values, reference, logp, entropy, collision = (torch.split(x[token], sizes) for x in per_token)
        observations = torch.split(self.observation()[token], sizes)
        early, split = self.early(possible).tolist(), parts(possible.reward).tolist()
        ended, beyond = self.endings()[possible.answer].tolist(), self.beyond()[possible.answer].tolist()
        return [
            Seen(
                reward=float(possible.reward[i]),
                length=sizes[i],
                answer=int(possible.answer[i]),
                early=tuple(early[i]),
                values=tuple(values[i].tolist()),
                logp=tuple(logp[i].tolist()),
                baseline=PAST,
                ended=ended[i],
                beyond=beyond[i],
                parts=tuple(split[i]),
                part_weights=PART_WEIGHTS,
                demonstrated=possible.demonstrated is not None and bool(possible.demonstrated[i]),
                reference=tuple(reference[i].tolist()),
                entropy=tuple(entropy[i].tolist()),
                collision=tuple(collision[i].tolist()),
                observations=tuple(observations[i].tolist()),
            )
            for i in range(len(sizes))
        ]

    def chances_of(self, possible: Outcomes) -> Chances:
        """Every outcome in plain numbers, with its chance."""
        return list(zip(self.rollouts(possible), possible.chance.tolist(), strict=True))

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


def graded_reward(answer: str) -> float:
    """The real-valued reward: `correct`, and 0.1 more for an answer that ends by itself."""
    return correct(answer) + 0.1 * answer.endswith(".")


def parts(reward: Tensor) -> Tensor:
    """[…, 2] the parts of rewards: the reward itself, and how far it is from 0.4, squared."""
    return torch.stack([reward, (reward - 0.4).square()], dim=-1)


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

    def law(self, space: World) -> Law:
        """The joint distribution of reward and length."""
        chance: dict[tuple[float, int], float] = {}
        lengths = space.lengths[self.answer].tolist()
        for reward, length, share in zip(self.reward.tolist(), lengths, self.chance.tolist(), strict=True):
            chance[reward, length] = chance.get((reward, length), 0.0) + share
        return tuple((reward, length, share) for (reward, length), share in chance.items())


def outcomes(space: World, behavior: Tensor, reward: Callable[[str], float]) -> Outcomes:
    """The answers, with their chances under `behavior` logits and the reward of each."""
    rewards = torch.tensor([reward(text) for text in space.answers], dtype=behavior.dtype)
    return Outcomes(
        answer=torch.arange(len(space.answers)),
        chance=space.chances(behavior),
        reward=rewards,
        logp=space.logp(behavior),
    )


SHOWN = {2: 0.15, 9: 0.1}
"""Answers that demonstrations give, and how often a rollout is one: a right one and a wrong one."""


def with_demonstrations(possible: Outcomes) -> Outcomes:
    """The same rollouts, some given instead of sampled."""
    answers, share = torch.tensor(list(SHOWN)), torch.tensor(list(SHOWN.values()), dtype=possible.chance.dtype)
    return replace(
        possible,
        answer=torch.cat([possible.answer, answers]),
        chance=torch.cat([possible.chance * (1 - share.sum()), share]),
        reward=torch.cat([possible.reward, possible.reward[answers]]),
        demonstrated=torch.arange(len(possible.answer) + len(answers)) >= len(possible.answer),
    )


def outcomes_for(row: Objective, space: World, behavior: Tensor, reward: Callable[[str], float]) -> Outcomes:
    """`outcomes`, with demonstrations among them for a row that asks for some."""
    possible = outcomes(space, behavior, reward)
    return with_demonstrations(possible) if Need.DEMONSTRATIONS in row.needs else possible


def step_of(space: World, possible: Outcomes, members: Tensor) -> Rollouts:
    """A step: everything that credit may look at.

    The critic is a fixed guess at every prefix, and wrong, as is what the past expects. The reference stands apart
    from the policy. Segments are single tokens; each pays what the answer would, were it cut there.
    Args: members, [groups, N] which outcomes.
    """
    answers = possible.answer[members]
    token = space.tokens(replace(possible, answer=answers.flatten()))
    start = space.lengths.cumsum(0) - space.lengths
    return Rollouts(
        rewards=possible.reward[members],
        lengths=space.lengths[answers],
        answers=answers,
        baseline=torch.full(answers.shape, PAST, dtype=torch.float64),
        greedy=torch.full(answers.shape, GREEDY, dtype=torch.float64),
        ended=space.endings()[answers],
        beyond=space.beyond()[answers],
        demonstrated=None if possible.demonstrated is None else possible.demonstrated[members],
        parts=parts(possible.reward[members]),
        part_weights=torch.tensor(PART_WEIGHTS, dtype=torch.float64).expand(*answers.shape, -1),
        segment=token - start[space.answer[token]],
        observation=space.observation()[token],
        segment_rewards=space.early(possible)[members],
        values=space.guess()[space.prefix[token]],
        logp=possible.logp[token],
        reference_logp=space.logp(space.anchor())[token],
        entropy=space.entropy(possible.logp)[token],
        collision=space.collision(possible.logp)[token],
    )
