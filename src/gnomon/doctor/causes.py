"""Where the rollouts of a run went: for each the first reason why it taught nothing, or something wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from gnomon.doctor.evidence import Evidence, Group, Seen
from gnomon.doctor.judge import unearned
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
        counts.update(of_rollout(seen, group) or common or rest for seen in group)
    return {name: count / counts.total() for name, count in counts.most_common()}


def of_group(group: Group) -> str:
    """Why a group has no difference to learn from; empty where it has one."""
    if len(group) > 1 and all(seen.right for seen in group):
        return "group all right"
    return "group all wrong" if len(group) > 1 and not any(seen.right for seen in group) else ""


def of_rollout(seen: Seen, group: Group) -> str:
    """Why a rollout by itself taught nothing, or something wrong; empty where it did not."""
    if has_markers(seen):
        return "wrong template"
    if seen.failed:
        return "verifier failed"
    if seen.cut and not seen.right:
        return "truncated"
    if seen.ending is Ending.UNREADABLE:
        return "no parsed answer"
    mean = sum(map(beyond_parts, group)) / len(group)
    return "rewarded although wrong" if seen.judged and not seen.right and beyond_parts(seen) > mean + 1e-9 else ""


def beyond_parts(seen: Seen) -> float:
    """The reward without what declared parts pay that need no right answer, such as one for the format."""
    return seen.reward - unearned(seen)
