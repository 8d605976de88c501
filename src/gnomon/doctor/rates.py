"""Rates of rollouts with their standard errors between groups, at the start of a run and at its end."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from gnomon.doctor.evidence import END, Evidence, Group, RecordedRollout
from gnomon.monitoring.summary import Level, level_of

__all__ = [
    "ERRORS",
    "Excess",
    "apart",
    "exceeds",
    "excess_of",
    "fell",
    "level",
    "percent",
    "pick",
    "rose",
    "share",
    "windows",
]

ERRORS = 4.0
"""Standard errors by which a rate must exceed a threshold, or a level another one."""
GROUPS = 8
"""Groups below which no rate is judged."""
READ = 3
"""Rollouts that are named to be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Excess:
    """A rate that is too high."""

    rate: float
    since: int
    """The first step that shows it; 0 where the first weights show it."""
    addresses: tuple[str, ...]

    @property
    def when(self) -> str:
        return "before any update" if self.since == 0 else f"from step {self.since} on"


def level(groups: Sequence[Group], value: Callable[[RecordedRollout], float]) -> Level | None:
    """Mean over groups of the mean of a value; None for fewer than `GROUPS` groups."""
    return level_of([[value(rollout) for rollout in group] for group in groups]) if len(groups) >= GROUPS else None


def share(groups: Sequence[Group], holds: Callable[[RecordedRollout], bool]) -> Level | None:
    return level(groups, lambda rollout: float(holds(rollout)))


def exceeds(rate: Level | None, threshold: float) -> bool:
    """Whether a rate is above a threshold by `ERRORS` standard errors."""
    return rate is not None and rate.mean - ERRORS * math.sqrt(rate.variance) > threshold


def excess_of(evidence: Evidence, holds: Callable[[RecordedRollout], bool], threshold: float) -> Excess | None:
    """Where more than a share of the rollouts has a property: at the start, or else at the end of the run."""
    rate = share(evidence.start, holds)
    if rate is not None and exceeds(rate, threshold):
        return Excess(rate=rate.mean, since=0, addresses=pick(evidence.start, holds))
    rate = share(evidence.end, holds)
    if rate is None or not exceeds(rate, threshold):
        return None
    return Excess(rate=rate.mean, since=first_step(evidence, holds, threshold), addresses=pick(evidence.end, holds))


def first_step(evidence: Evidence, holds: Callable[[RecordedRollout], bool], threshold: float) -> int:
    """The first step after 0 whose rate is above a threshold."""
    for step, groups in by_step(evidence):
        rollouts = [rollout for group in groups for rollout in group]
        if step > 0 and sum(map(holds, rollouts)) > threshold * len(rollouts):
            return step
    return evidence.read[-END]


def by_step(evidence: Evidence) -> Iterator[tuple[int, list[Group]]]:
    for step, groups in groupby(evidence.groups, key=lambda group: group[0].step):
        yield step, list(groups)


def pick(groups: Sequence[Group], holds: Callable[[RecordedRollout], bool]) -> tuple[str, ...]:
    """Addresses of rollouts with a property, of different groups as far as there are any."""
    matches = [[rollout.address for rollout in group if holds(rollout)] for group in groups]
    first = [addresses[0] for addresses in matches if addresses]
    rest = [address for addresses in matches for address in addresses[1:]]
    return tuple([*first, *rest][:READ])


def windows(
    evidence: Evidence, value: Callable[[RecordedRollout], float]
) -> tuple[tuple[Level, int], tuple[Level, int]] | None:
    """The best window of `END` steps before the last one, and the last, each with its last step.

    What the first weights sampled counts as a window of its own. None for a run that is too short.
    """
    last = level(evidence.end, value)
    if last is None:
        return None
    steps, levels = evidence.read, []
    if (start := level(evidence.start, value)) is not None:
        levels.append((start, 0))
    for end in range(END, len(steps) - END + 1):
        inside = set(steps[end - END : end])
        if (here := level([g for g in evidence.groups if g[0].step in inside], value)) is not None:
            levels.append((here, steps[end - 1]))
    return (max(levels, key=lambda pair: pair[0].mean), (last, steps[-1])) if levels else None


def apart(a: Level, b: Level) -> float:
    """The difference a − b in standard errors; infinite where both are without noise and differ."""
    error = math.sqrt(a.variance + b.variance)
    if error:
        return (a.mean - b.mean) / error
    return math.copysign(math.inf, a.mean - b.mean) if a.mean != b.mean else 0.0


def fell(then: Level, now: Level) -> bool:
    return apart(then, now) >= ERRORS


def rose(then: Level, now: Level) -> bool:
    return apart(now, then) >= ERRORS


def percent(rate: float) -> str:
    return f"{rate:.0%}"
