"""Reward breakdown: each part's share of the return and of the within-group variance."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gnomon.stats import Mean, Stats
from gnomon.types import Group
from gnomon.verifiers.prices import payments

__all__ = ["Entry", "Line", "breakdown", "entries", "lines"]

Entry = Mapping[str, float]
"""The amount that each part added to the reward of one rollout."""
PREFIX = "breakdown/"


def entries(groups: Sequence[Group]) -> list[list[Entry]]:
    """The entries of every group, without rollouts on which the verifier failed."""
    return [[payments(rollout.verdict.parts) for rollout in group.rollouts] for group in groups if group.judged]


def breakdown(groups: Sequence[Sequence[Entry]]) -> Stats:
    """For each part `return`, its mean, and `variance`, its within-group covariance with the reward.

    Both are per rollout and in units of reward. A part that a verdict does not name counts as 0. Returns add up
    to the mean reward. Variances add up to the mean within-group variance of the reward, which is the signal that
    remains after a baseline. `tied` is the fraction of groups whose rewards are all equal; their variance is 0.

    Equation: Var r = Σ_p Cov(x_p, r), for r = Σ_p x_p.
    """
    names = sorted({name for group in groups for entry in group for name in entry})
    size = sum(map(len, groups))
    totals = {name: [entry.get(name, 0.0) for group in groups for entry in group] for name in names}
    covariances: dict[str, list[float]] = {name: [] for name in names}
    tied = []
    for group in groups:
        rewards = [math.fsum(entry.values()) for entry in group]
        tied.append(min(rewards) == max(rewards))
        if tied[-1]:
            continue
        mean = math.fsum(rewards) / len(rewards)
        for name in names:
            own = [entry.get(name, 0.0) for entry in group]
            centre = math.fsum(own) / len(own)
            covariances[name] += [(x - centre) * (r - mean) for x, r in zip(own, rewards, strict=True)]
    stats: Stats = {f"{PREFIX}tied": Mean(float(sum(tied)), float(len(tied)))} if tied else {}
    for name in names:
        stats[f"{PREFIX}{name}/return"] = Mean(math.fsum(totals[name]), float(size))
        stats[f"{PREFIX}{name}/variance"] = Mean(math.fsum(covariances[name]), float(size))
    return stats


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One part of the reward over some steps."""

    part: str
    paid: float
    """Mean per rollout."""
    return_share: float | None
    """None if the parts sum to 0."""
    variance_share: float | None
    """None if every group is tied. Negative for a part that pays more to rollouts with a lower reward."""


def lines(steps: Sequence[Mapping[str, float]]) -> tuple[Line, ...]:
    """The breakdown over steps, from their metrics. The shares of each column sum to 1. Empty if none was recorded."""
    names = sorted({n[len(PREFIX) : -len("/return")] for step in steps for n in step if n.endswith("/return")})
    sums = {
        (name, what): math.fsum(step.get(f"{PREFIX}{name}/{what}", 0.0) for step in steps)
        for name in names
        for what in ("return", "variance")
    }
    whole = {what: math.fsum(sums[name, what] for name in names) for what in ("return", "variance")}

    def share(name: str, what: str) -> float | None:
        return sums[name, what] / whole[what] if whole[what] else None

    return tuple(
        Line(
            part=name,
            paid=sums[name, "return"] / len(steps),
            return_share=share(name, "return"),
            variance_share=share(name, "variance"),
        )
        for name in names
    )
