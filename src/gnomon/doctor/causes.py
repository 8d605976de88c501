"""Where the rollouts of a run went: for each the first reason why it taught nothing, or something wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from gnomon.doctor.evidence import Evidence, Group, RecordedRollout
from gnomon.doctor.judge import unearned_reward
from gnomon.doctor.rollout import has_markers
from gnomon.monitoring.endings import Ending

__all__ = ["WHOLE", "causes"]

WHOLE = {
    "rollout.template": "wrong template",
    "judge.constant": "constant reward",
    "judge.paid_elsewhere": "paid without a right answer",
    "advantage.sign": "swapped advantage",
    "advantage.zero": "no advantage",
    "update.stale": "stale weights",
    "update.mismatch": "sampler-learner mismatch",
    "update.too_large": "learning rate too large",
    "update.too_small": "learning rate too small",
}
"""Findings that concern every rollout that nothing before explains, with their names."""


def causes(evidence: Evidence, findings: Collection[str]) -> dict[str, float]:
    """Share of the rollouts of training by cause, the largest first; the shares sum to 1.

    Each rollout counts once, for the first of: markers of a template, verifier failed, truncated, no parsed answer, all
    wrong, all right, rewarded although wrong, a finding about the whole run, nothing. Args: findings: names.
    """
    rest = next((words for name, words in WHOLE.items() if name in findings), "no fault found")
    counts: Counter[str] = Counter()
    for group in evidence.groups:
        common = of_group(group)
        counts.update(of_rollout(rollout, group) or common or rest for rollout in group)
    return {name: count / counts.total() for name, count in counts.most_common()}


def of_group(group: Group) -> str:
    """Why a group has no difference to learn from; empty where it has one."""
    if len(group) > 1 and all(rollout.right for rollout in group):
        return "group all right"
    return "group all wrong" if len(group) > 1 and not any(rollout.right for rollout in group) else ""


def of_rollout(rollout: RecordedRollout, group: Group) -> str:
    """Why a rollout by itself taught nothing, or something wrong; empty where it did not."""
    if has_markers(rollout):
        return "wrong template"
    if rollout.failed:
        return "verifier failed"
    if rollout.cut and not rollout.right:
        return "truncated"
    if rollout.ending is Ending.UNREADABLE:
        return "no parsed answer"
    mean = sum(map(beyond_parts, group)) / len(group)
    return (
        "rewarded although wrong"
        if rollout.judged and not rollout.right and beyond_parts(rollout) > mean + 1e-9
        else ""
    )


def beyond_parts(rollout: RecordedRollout) -> float:
    """The reward without what declared parts pay that need no right answer, such as one for the format."""
    return rollout.reward - unearned_reward(rollout)
