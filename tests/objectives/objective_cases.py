"""What the suite runs over: every row of the table with its textbook loss, and steps to run them on.

The textbook losses are written from the papers, with loops and autodiff, and share nothing with the code.
"""

from __future__ import annotations

import inspect
import math
import random
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from gnomon.objectives import TABLE, Denominators, FrozenShape, Objective, PolicyGradient, Tokens, truncated

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

    def tokens(self, row: Objective, dtype: torch.dtype = torch.float64) -> Tokens:
        advantage = row.advantage(torch.tensor(self.rewards, dtype=dtype)).flatten()
        lengths = torch.tensor([n for group in self.lengths for n in group])
        sequence = torch.repeat_interleave(torch.arange(len(lengths)), lengths)

        def vector(values: list[float]) -> Tensor:
            return torch.tensor(values, dtype=dtype)

        return Tokens(
            logp=vector(self.logp),
            behavior_logp=vector(self.behavior),
            proximal_logp=vector(self.proximal) if self.decoupled else None,
            reference_logp=vector(self.reference),
            advantage=advantage[sequence],
            sequence=sequence,
            group=sequence // len(self.rewards[0]),
        )

    def denominators(self) -> Denominators:
        groups, size = len(self.rewards), len(self.rewards[0])
        return Denominators(groups=groups, sequences=groups * size, tokens=len(self.logp), max_tokens=self.max_tokens)

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
    )


def _clip_edges() -> Step:
    """Every ratio of the palette, once with a positive and once with a negative advantage."""
    step, palette = make_step(11, [[1, 0]] * 3, [[6, 6]] * 3), _palette()
    assert len(palette) == 18
    ratios = [ratio for start in (0, 6, 12) for ratio in palette[start : start + 6] * 2]
    return replace(step, logp=[old + ratio for old, ratio in zip(step.proximal, ratios, strict=True)])


EDGE_STEPS = {
    "clip edges": _clip_edges(),
    "mixed": make_step(1, [[1, 0, 0, 1], [0, 0, 1, 0], [1, 1, 0, 1]], [[3, 5, 1, 2], [6, 2, 4, 4], [1, 1, 2, 6]]),
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
}

Loss = Callable[[Step, Tensor], Tensor]
"""The maximised textbook objective of a step, as a function of the policy's log-probabilities [T]."""


def reinforce_loss(step: Step, logp: Tensor) -> Tensor:
    total = logp.new_zeros(())
    for g, i, tokens in step.rollouts():
        total = total + step.rewards[g][i] * logp[tokens].sum()
    return total / len(step.rollouts())


def rloo_loss(step: Step, logp: Tensor) -> Tensor:
    total = logp.new_zeros(())
    for g, i, tokens in step.rollouts():
        others = [reward for j, reward in enumerate(step.rewards[g]) if j != i]
        total = total + (step.rewards[g][i] - sum(others) / len(others)) * logp[tokens].sum()
    return total / len(step.rollouts())


def _old(step: Step, tokens: list[int], logp: Tensor) -> Tensor:
    return torch.tensor([step.proximal[t] for t in tokens], dtype=logp.dtype)


def _surrogate(ratio: Tensor, advantage: float, low: float, high: float) -> Tensor:
    return torch.minimum(ratio * advantage, ratio.clamp(1 - low, 1 + high) * advantage)


def grpo_loss(
    step: Step, logp: Tensor, clip_low: float, clip_high: float, epsilon: float, reference_weight: float
) -> Tensor:
    total = logp.new_zeros(())
    for g, i, tokens in step.rollouts():
        group = step.rewards[g]
        advantage = 0.0
        if len(set(group)) > 1:
            advantage = (group[i] - statistics.fmean(group)) / (statistics.pstdev(group) + epsilon)
        ratio = (logp[tokens] - _old(step, tokens, logp)).exp()
        log_reference = torch.tensor([step.reference[t] for t in tokens], dtype=logp.dtype) - logp[tokens]
        kl = log_reference.exp() - log_reference - 1
        each = _surrogate(ratio, advantage, clip_low, clip_high) - reference_weight * kl
        if tokens:
            total = total + each.sum() / len(tokens)
    return total / len(step.rollouts())


def dr_grpo_loss(step: Step, logp: Tensor, clip_low: float, clip_high: float, cap: float | None = None) -> Tensor:
    total = logp.new_zeros(())
    for g, i, tokens in step.rollouts():
        advantage = step.rewards[g][i] - statistics.fmean(step.rewards[g])
        old = _old(step, tokens, logp)
        each = _surrogate((logp[tokens] - old).exp(), advantage, clip_low, clip_high)
        if cap is not None:
            sampler = torch.tensor([step.behavior[t] for t in tokens], dtype=logp.dtype)
            each = each * torch.minimum((old - sampler).exp(), torch.tensor(cap, dtype=logp.dtype))
        total = total + each.sum() / step.max_tokens
    return total / len(step.rollouts())


LOSSES: dict[str, Callable[..., Tensor]] = {
    "dr_grpo": dr_grpo_loss,
    "grpo": grpo_loss,
    "reinforce": reinforce_loss,
    "rloo": rloo_loss,
}
"""Textbook loss of every row; it takes the row's options under the row's names."""

VARIANTS: dict[str, list[dict[str, float]]] = {
    "dr_grpo": [{"clip_low": 0.1, "clip_high": 0.3}],
    "grpo": [{"clip_low": 0.1, "clip_high": 0.3}, {"epsilon": 0.0}, {"reference_weight": 0.3}],
}


@dataclass(frozen=True, kw_only=True)
class Case:
    """A row under test, with its textbook loss."""

    name: str
    row: Objective
    loss: Loss


class Unclaimed(Exception):
    """A row that nothing can be held against."""


def collect(
    table: Mapping[str, Callable[..., Any]],
    losses: Mapping[str, Callable[..., Tensor]],
    variants: Mapping[str, list[dict[str, float]]],
) -> list[Case]:
    """Every row of a table with default options and in its variants.

    Raises: Unclaimed for a row without a target or without a textbook loss; under pytest this fails collection.
    """
    cases = []
    for name, build in table.items():
        for options in [{}, *variants.get(name, [])]:
            row = build(**options)
            if not isinstance(getattr(row, "target", None), PolicyGradient | FrozenShape):
                raise Unclaimed(f"objective {name!r} declares no target")
            if name not in losses:
                raise Unclaimed(f"objective {name!r} has no textbook loss in the tests")
            bound = inspect.signature(build).bind(**options)
            bound.apply_defaults()
            label = name + "".join(f",{key}={value}" for key, value in options.items())
            cases.append(Case(name=label, row=row, loss=partial(losses[name], **bound.arguments)))
    return cases


def composed() -> list[Case]:
    """Compositions of the same parts that no row of the table uses yet."""
    row = replace(TABLE["dr_grpo"](), name="dr_grpo truncated", correction=partial(truncated, cap=2.0))
    return [Case(name=row.name, row=row, loss=partial(dr_grpo_loss, clip_low=0.2, clip_high=0.2, cap=2.0))]


CASES = {case.name: case for case in [*collect(TABLE, LOSSES, VARIANTS), *composed()]}
