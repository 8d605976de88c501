"""Faults of the advantages: their sign is swapped, or they are all zero although rewards differ."""

from __future__ import annotations

import math
from collections.abc import Iterator

from gnomon.doctor.evidence import Evidence, Group
from gnomon.doctor.finding import Finding
from gnomon.doctor.rates import ERRORS, percent, pick

__all__ = ["find"]

GROUPS = 8
"""Groups with different rewards below which nothing is reported."""


def find(evidence: Evidence) -> Iterator[Finding]:
    """What the recorded advantages show. A run that recorded none shows nothing."""
    groups = [group for group in evidence.groups if differ(group)]
    if len(groups) < GROUPS:
        return
    flat = [group for group in groups if all(rollout.advantage == 0 for rollout in group)]
    if len(flat) > 0.9 * len(groups):
        yield Finding(
            name="advantage.zero",
            sentence=f"{len(flat)} of {len(groups)} groups with different rewards have only advantages of 0",
            fix="check the objective's advantage: gnomon exact NAME computes its expected gradient",
            read=pick(flat, lambda rollout: True),
        )
        return
    signs = [(covariance(group), group) for group in groups if group not in flat]
    against = [group for value, group in signs if value < 0]
    rate = len(against) / len(signs)
    error = math.sqrt(max(rate * (1 - rate), 1e-9) / len(signs))
    if rate - ERRORS * error > 0.5:
        yield Finding(
            name="advantage.sign",
            sentence=f"in {percent(rate)} of {len(signs)} groups rollouts with a higher reward have a lower advantage; "
            "training makes rewarded replies less likely",
            fix="the advantage must increase with the reward: check its sign, and the reward that the objective gets "
            "(gnomon exact NAME)",
            read=pick(against, lambda rollout: True),
        )


def differ(group: Group) -> bool:
    """Whether a group was trained on, has advantages and different rewards."""
    complete = all(rollout.advantage is not None and not rollout.spare for rollout in group)
    return complete and len({rollout.reward for rollout in group}) > 1


def covariance(group: Group) -> float:
    """Of reward and advantage within a group, times its size."""
    mean = math.fsum(rollout.reward for rollout in group) / len(group)
    return math.fsum((rollout.reward - mean) * (rollout.advantage or 0.0) for rollout in group)
