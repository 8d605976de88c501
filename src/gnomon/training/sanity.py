"""A sanity check of training: on tasks that the policy sometimes solves, nearly all rollouts must become correct.

Source: Qi et al. 2025, arXiv 2510.26788, where the tasks are those solved in 20 to 80 % of 40 rollouts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gnomon.keys import Key
from gnomon.rollout.actor import Actor
from gnomon.types import Conclusion, Task

__all__ = ["BAND", "OWN", "PASS_AT", "ROLLOUTS", "WINDOW", "Sanity", "answered", "gate", "solvable"]

ROLLOUTS = 40
"""Rollouts per candidate task."""
OWN = 20
"""Rollouts per task if the trained rollouts are not the policy's own answers."""
BAND = (0.2, 0.8)
"""Range of the fraction of correct rollouts for a task to be kept."""
PASS_AT = 0.95
"""Fraction of correct rollouts at the end of training that is needed to pass."""
WINDOW = 5
"""Number of steps over which that fraction is measured."""
RISING = 0.02
"""Smallest increase between the last two windows that makes the result inconclusive."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sanity:
    """The result of the check."""

    gate: Conclusion
    """INCONCLUSIVE: below the threshold, and still increasing at the end of the budget."""
    tasks: int
    """Number of kept tasks, of `candidates`."""
    candidates: int
    right: float
    """Fraction of correct rollouts over the last steps."""
    before: float
    """The same, one window earlier."""
    steps: int

    def __str__(self) -> str:
        low, high = BAND
        return (
            f"{self.gate.value}  after {self.steps} steps {self.right:.3f} of the training rollouts are correct; "
            f"PASS needs {PASS_AT}\n"
            f"{self.tasks} of {self.candidates} tasks, solved in {low:.0%} to {high:.0%} of {ROLLOUTS} rollouts"
        )


async def solvable(actor: Actor, candidates: Sequence[tuple[int, Task]], key: Key) -> list[int]:
    """Indices of the tasks that the current policy sometimes solves."""
    low, high = BAND
    groups = await actor.rollouts(candidates, key, ROLLOUTS)
    shares = [sum(rollout.verdict.correct for rollout in group.rollouts) / ROLLOUTS for group in groups]
    return [group.index for group, share in zip(groups, shares, strict=True) if low <= share <= high]


async def answered(actor: Actor, tasks: Sequence[tuple[int, Task]], key: Key) -> float:
    """The fraction of correct answers among the policy's own."""
    groups = await actor.rollouts(tasks, key, OWN)
    return sum(rollout.verdict.correct for group in groups for rollout in group.rollouts) / (OWN * len(groups))


def conclusion(last: float, before: float) -> Conclusion:
    if last >= PASS_AT:
        return Conclusion.PASS
    return Conclusion.INCONCLUSIVE if last - before > RISING else Conclusion.FAIL


def gate(right: Sequence[float], *, tasks: int, candidates: int) -> Sanity:
    """The verdict on a curve.

    Args: right: share of right training rollouts, step by step.
    Raises: ValueError for fewer steps than two windows.
    """
    if len(right) < 2 * WINDOW:
        raise ValueError(f"the gate reads two windows of {WINDOW} steps, and the run has {len(right)} steps")
    last, before = (sum(part) / WINDOW for part in (right[-WINDOW:], right[-2 * WINDOW : -WINDOW]))
    verdict = conclusion(last, before)
    return Sanity(gate=verdict, tasks=tasks, candidates=candidates, right=last, before=before, steps=len(right))
