"""Optimiser steps in plain numbers, at every edge, for rows to be run on."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from gnomon.objectives import Denominators, Objective, Rollouts, Tokens

ROLLOUTS = ("rewards", "lengths", "answers", "early", "observations", "past", "greedy", "ended", "beyond", "visits")
ROLLOUTS += ("reward_parts", "demonstrated")
"""Fields with a value for every rollout."""
TOKENS = ("logp", "proximal", "behavior", "reference", "values", "entropy", "collision")
"""What a step has of every token."""
EDGES = [0.8, 0.9, 1.1, 1.2, 1.3]
"""Every edge of a clip band that a case uses."""


@dataclass(frozen=True, kw_only=True)
class Step:
    """A whole optimiser step in plain numbers. Token lists run over groups, then rollouts, then positions."""

    rewards: list[list[float]]
    lengths: list[list[int]]
    max_tokens: int
    logp: list[float]
    proximal: list[float]
    behavior: list[float]
    reference: list[float]
    decoupled: bool
    """Whether a proximal policy apart from behavior exists."""
    answers: list[list[int]]
    early: list[list[list[float]]]
    """Three rewards per rollout, as its segments end."""
    observations: list[list[list[int]]]
    """What each of three segments replies to."""
    past: list[list[float]]
    """What the run's past expects of each rollout."""
    greedy: list[list[float]]
    """What the greedy rollout of its task earned, for each rollout."""
    visits: list[list[list[float]]]
    """Earlier visits of each task, and the mean and variance of rewards over them: the same for a whole group."""
    ended: list[list[int]]
    """What ended each rollout: 0 itself, 1 the token limit of its last reply, 2 a limit between two turns."""
    beyond: list[list[float]]
    """What the critic expects after the last token of each."""
    values: list[float]
    reward_parts: list[list[list[float]]]
    """Two of every reward: the reward itself and something beside it, which counts by half."""
    entropy: list[float]
    """Of the policy before each token."""
    collision: list[float]
    """Σπ² of the policy before each token."""
    demonstrated: list[list[bool]]
    segments: int = 3
    """At most, in a rollout: each is a token, the last one all that follow."""

    def parts(self, length: int) -> list[int]:
        """The segment of every token of a rollout."""
        return [min(place, self.segments - 1) for place in range(length)]

    def seen(self, dtype: torch.dtype = torch.float64) -> Rollouts:
        """The step as credit sees it."""
        return Rollouts(
            rewards=torch.tensor(self.rewards, dtype=dtype),
            lengths=torch.tensor(self.lengths),
            answers=torch.tensor(self.answers),
            baseline=torch.tensor(self.past, dtype=dtype),
            greedy=torch.tensor(self.greedy, dtype=dtype),
            visits=torch.tensor(self.visits, dtype=dtype),
            ended=torch.tensor(self.ended),
            beyond=torch.tensor(self.beyond, dtype=dtype),
            parts=torch.tensor(self.reward_parts, dtype=dtype),
            part_weights=torch.tensor([1.0, 0.5], dtype=dtype).expand(len(self.rewards), len(self.rewards[0]), 2),
            demonstrated=torch.tensor(self.demonstrated),
            segment=torch.tensor([part for _, _, row in self.rollouts() for part in self.parts(len(row))]).long(),
            observation=torch.tensor(
                [self.observations[g][i][part] for g, i, row in self.rollouts() for part in self.parts(len(row))]
            ).long(),
            segment_rewards=torch.tensor(self.early, dtype=dtype),
            values=torch.tensor(self.values, dtype=dtype),
            logp=torch.tensor(self.proximal, dtype=dtype),
            reference_logp=torch.tensor(self.reference, dtype=dtype),
            entropy=torch.tensor(self.entropy, dtype=dtype),
            collision=torch.tensor(self.collision, dtype=dtype),
        )

    def moved(self, places: Sequence[int]) -> Step:
        """The step with the rollouts of every group in another order."""

        def tokens(values: list[float]) -> list[float]:
            rows = {(g, i): row for g, i, row in self.rollouts()}
            return [values[t] for g in range(len(self.rewards)) for i in places for t in rows[g, i]]

        moved = {n: [[g[i] for i in places] for g in getattr(self, n)] for n in ROLLOUTS}
        return replace(
            self,
            **moved,
            **{n: tokens(getattr(self, n)) for n in TOKENS},
        )

    def only(self, group: int) -> Step:
        """One group of the step, as a step of its own."""
        mine = [t for g, _, row in self.rollouts() for t in row if g == group]
        alone = {n: [getattr(self, n)[group]] for n in ROLLOUTS}
        return replace(
            self,
            **alone,
            **{n: [getattr(self, n)[t] for t in mine] for n in TOKENS},
        )

    def tokens(self, row: Objective, dtype: torch.dtype = torch.float64) -> Tokens:
        lengths = torch.tensor([n for group in self.lengths for n in group])
        sequence = torch.repeat_interleave(torch.arange(len(lengths)), lengths)

        def vector(values: list[float]) -> Tensor:
            return torch.tensor(values, dtype=dtype)

        return Tokens(
            logp=vector(self.logp),
            behavior_logp=vector(self.behavior),
            proximal_logp=vector(self.proximal) if self.decoupled else None,
            reference_logp=vector(self.reference),
            advantage=row.credits(self.seen(dtype)),
            sequence=sequence,
            group=sequence // len(self.rewards[0]),
            position=torch.tensor([place for _, _, row in self.rollouts() for place in range(len(row))]).long(),
            demonstrated=torch.tensor(self.demonstrated).flatten()[sequence],
            right=torch.tensor(self.rewards).flatten()[sequence] >= 1,
        )

    def denominators(self) -> Denominators:
        groups, size = len(self.rewards), len(self.rewards[0])
        return Denominators(
            groups=groups,
            sequences=groups * size,
            tokens=len(self.logp),
            max_tokens=self.max_tokens,
            group_tokens=tuple(sum(group) for group in self.lengths),
        )

    def rollouts(self) -> list[tuple[int, int, list[int]]]:
        """Group, place in the group and token positions of every rollout."""
        rows, start = [], 0
        for g, group in enumerate(self.lengths):
            for i, length in enumerate(group):
                rows.append((g, i, list(range(start, start + length))))
                start += length
        return rows


def _palette() -> list[float]:
    """Log-ratios at one, far away, and just inside and outside every clip edge."""
    near = [edge * (1 + side) for edge in EDGES for side in (-2e-4, 2e-4)]
    return [math.log(ratio) for ratio in [0.02, 0.5, 0.97, 1.0, 1.03, 1.25, 2.0, 30.0, *near]]


def make_step(
    seed: int, rewards: Sequence[Sequence[float]], lengths: Sequence[Sequence[int]], *, decoupled: bool = False
) -> Step:
    """A step far from on-policy, its ratios drawn from the palette."""
    draw, palette = random.Random(seed), _palette()
    count = sum(map(sum, lengths))
    proximal = [draw.uniform(-3, -0.1) for _ in range(count)]
    return Step(
        rewards=[list(map(float, group)) for group in rewards],
        lengths=[list(group) for group in lengths],
        max_tokens=6,
        logp=[value + draw.choice(palette) for value in proximal],
        proximal=proximal,
        behavior=[value + draw.uniform(-1.5, 1.5) for value in proximal] if decoupled else proximal,
        reference=[value + draw.uniform(-1, 1) for value in proximal],
        decoupled=decoupled,
        answers=[[draw.randrange(3) for _ in group] for group in rewards],
        early=[[[draw.choice([0.0, 0.5, 1.0]) for _ in range(3)] for _ in group] for group in rewards],
        observations=[
            [[(seed + 3 * i + g + i * k) % 2 for k in range(3)] for i in range(len(group))]
            for g, group in enumerate(rewards)
        ],
        past=[[draw.uniform(-0.5, 0.5) for _ in group] for group in rewards],
        greedy=[[round(math.sin(seed + 3 * g), 2)] * len(group) for g, group in enumerate(rewards)],
        visits=[
            [list(((0.0, 0.0, 0.0), (1.0, 0.3, 0.2), (4.0, 0.6, 0.0))[(seed + g) % 3])] * len(group)
            for g, group in enumerate(rewards)
        ],
        ended=[[(seed + g + 2 * i) % 3 for i in range(len(group))] for g, group in enumerate(rewards)],
        beyond=[[round(math.cos(seed + 3 * g + 5 * i), 2) for i in range(len(x))] for g, x in enumerate(rewards)],
        values=[draw.uniform(-1, 1) for _ in range(count)],
        demonstrated=[[draw.random() < 0.25 for _ in group] for group in rewards],
        entropy=[round(draw.uniform(0, 2), 1) for _ in range(count)],
        collision=[math.exp(2 * value) + (1 - math.exp(value)) ** 2 * (t % 7) / 7 for t, value in enumerate(proximal)],
        reward_parts=[[[float(reward), draw.choice([0.0, 0.5, 2.0])] for reward in group] for group in rewards],
    )


def _clip_edges() -> Step:
    """Every ratio of the palette, once with a positive and once with a negative advantage."""
    step, palette = make_step(11, [[1, 0]] * 3, [[6, 6]] * 3), _palette()
    assert len(palette) == 18
    ratios = [ratio for start in (0, 6, 12) for ratio in palette[start : start + 6] * 2]
    return replace(step, logp=[old + ratio for old, ratio in zip(step.proximal, ratios, strict=True)])


WHOLE = [
    *(0.5, 0.83, 0.998, 0.999, 0.9997, 1.0004, 1.001, 1.0025, 1.23, 1.28, 1.7, 2.0, 3.0, 5.0, 10.0),
    *(math.exp(-0.4), math.exp(0.4)),
]
"""Edges of whole-answer bands, of log bands and of caps."""


def _whole_edges(*, of_sampler: bool) -> Step:
    """Answers of one token just inside and outside every edge, once with either sign of the advantage."""
    ratios = [math.log(edge * (1 + side)) for edge in [*EDGES, *WHOLE] for side in (-5e-5, 5e-5)]
    step = make_step(13, [[1, 0]] * len(ratios), [[1, 1]] * len(ratios), decoupled=of_sampler)
    apart = [ratio for ratio in ratios for _ in range(2)]
    if of_sampler:
        near = {"behavior": [old - by for old, by in zip(step.proximal, apart, strict=True)]}
    else:
        near = {"logp": [old + by for old, by in zip(step.proximal, apart, strict=True)]}
    return replace(step, **near)


def _near(*, of_sampler: bool) -> Step:
    """Answers whose mean log-ratio lies in every narrow band and whose product does not."""
    step = make_step(14, [[1, 0, 0], [1, 1, 0]], [[6, 5, 4], [5, 4, 6]], decoupled=of_sampler)
    if of_sampler:
        return replace(step, behavior=[old - 7e-4 for old in step.proximal], logp=[old + 0.01 for old in step.proximal])
    return replace(step, logp=[old + 2e-4 * (-1) ** (i % 5 == 0) for i, old in enumerate(step.proximal)])


EDGE_STEPS = {
    "near": _near(of_sampler=False),
    "near the sampler": _near(of_sampler=True),
    "whole edges": _whole_edges(of_sampler=False),
    "whole edges of the sampler": _whole_edges(of_sampler=True),
    "clip edges": _clip_edges(),
    "mixed": make_step(1, [[1, 0, 0, 1], [0, 0, 1, 0], [1, 1, 0, 1]], [[3, 5, 1, 2], [6, 2, 4, 4], [1, 1, 2, 6]]),
    "six": make_step(15, [[1, 0, 0, 1, 1, 0], [0, 1, 1, 1, 0, 1]], [[3, 5, 1, 2, 6, 4], [6, 2, 4, 4, 1, 2]]),
    "none correct": make_step(2, [[0, 0, 0], [0, 1, 1]], [[3, 5, 1], [2, 2, 6]]),
    "all correct": make_step(3, [[1, 1, 1], [0, 1, 1]], [[3, 5, 1], [2, 2, 6]]),
    "equal real rewards": make_step(4, [[0.1, 0.1, 0.1], [1.1, 1.1, 1.1]], [[3, 5, 1], [2, 2, 6]]),
    "real rewards": make_step(5, [[1.1, 0.1, 0.0, 1.0], [-0.5, 0.1, 0.1, 2.0]], [[3, 5, 1, 6], [2, 2, 6, 1]]),
    "empty responses": make_step(6, [[1, 0, 0], [0, 1, 1]], [[0, 5, 0], [2, 0, 6]]),
    "nothing but empty": make_step(7, [[1, 0], [0, 1]], [[0, 0], [0, 0]]),
    "one token each": make_step(8, [[1, 0], [0, 1], [1, 1]], [[1, 1], [1, 1], [1, 1]]),
    "identical responses": replace(
        make_step(9, [[1, 1], [1, 0]], [[2, 2], [2, 2]]),
        logp=[-0.5, -1.0] * 4,
        proximal=[-0.6, -0.9] * 4,
        behavior=[-0.6, -0.9] * 4,
        reference=[-0.4, -1.2] * 4,
    ),
    "decoupled": make_step(10, [[1, 0, 0], [0, 1, 1]], [[3, 5, 1], [2, 2, 6]], decoupled=True),
    "decoupled, four": make_step(12, [[1, 0, 0, 1], [0, 1, 0, 0]], [[3, 5, 1, 2], [2, 2, 6, 0]], decoupled=True),
}
