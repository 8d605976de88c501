"""Faults of the tasks: held-out ones among those trained on, all too hard, all too easy, learned by heart."""

from __future__ import annotations

import math
from collections.abc import Iterator

from gnomon.doctor.evidence import END, Evidence, Group
from gnomon.doctor.finding import Finding
from gnomon.doctor.rates import ERRORS, level, percent, pick, share
from gnomon.types import Kind

__all__ = ["find"]

LEAKED = 0.05
"""Share of the held-out tasks that may occur among the train tasks."""
ONE_SIDED = 0.9
"""Share of groups with equal outcomes from which on a run cannot learn."""
SELDOM = 0.02
"""Share of right rollouts below which the tasks are too hard for the first weights."""
NEARLY_ALL = 0.95
"""Share of right rollouts above which the tasks are too easy."""
GAP = 0.15
"""Difference between the share of right rollouts in training and on held-out tasks that means learning by heart."""


def find(evidence: Evidence) -> Iterator[Finding]:
    for check in (leak, too_hard, too_easy, memorisation):
        if finding := check(evidence):
            yield finding


def leak(evidence: Evidence) -> Finding | None:
    """Held-out tasks that are train tasks, but for case and white space."""
    train = {(body["id"], prompt(body)) for (split, _), body in evidence.tasks.items() if split == "train"}
    train |= {(name, normal(text)) for name, text in evidence.train_tasks}
    ids, texts = {name for name, _ in train}, {text for _, text in train if text}
    test = {task: body for (split, task), body in evidence.tasks.items() if split == "test"}
    shared = {task for task, body in test.items() if body["id"] in ids or prompt(body) in texts}
    if len(shared) < 3 or len(shared) <= LEAKED * len(test):
        return None
    groups = [group for group in evidence.held_out if group[0].task in shared]
    return Finding(
        name="data.leak",
        sentence=f"{len(shared)} of {len(test)} held-out tasks are also train tasks, apart from case and white space, "
        "so the held-out results do not measure new tasks",
        fix="remove these tasks from the train rows, or split by a key that copies share (env.split)",
        read=pick(groups, lambda rollout: True),
    )


def prompt(body: object) -> str:
    """The text of a task, without what copies differ in."""
    assert isinstance(body, dict)
    return normal(" ".join(str(message["content"]) for message in body["messages"]))


def normal(text: str) -> str:
    return "".join(text.casefold().split())


def too_hard(evidence: Evidence) -> Finding | None:
    """Nearly all groups are all wrong, although the replies are complete and can be parsed."""
    right = share(evidence.start, lambda rollout: rollout.right)
    groups = real_groups(evidence)
    if right is None or right.mean > SELDOM or not groups:
        return None
    wrong = [group for group in groups if not any(rollout.right for rollout in group)]
    rollouts = [rollout for group in wrong for rollout in group]
    scored = sum(
        rollout.verdict.status.kind in (Kind.SCORED, Kind.REJECTED) and not rollout.cut for rollout in rollouts
    )
    if len(wrong) < ONE_SIDED * len(groups) or scored < len(rollouts) / 2:
        return None
    return Finding(
        name="data.too_hard",
        sentence=f"in {percent(len(wrong) / len(groups))} of the groups every rollout is wrong, and the first weights "
        f"solve {percent(right.mean)} of the tasks; {percent(scored / len(rollouts))} of the wrong rollouts have a "
        "complete, parsed answer",
        fix=f"use easier tasks (options: gnomon config show env={evidence.recipe.get('env.type', 'ENV')}), add solved "
        "examples (env.shots=2), or warm the policy up: objective=sft rollout.demonstrations=FILE.jsonl",
        read=pick(wrong, lambda rollout: not rollout.cut),
    )


def too_easy(evidence: Evidence) -> Finding | None:
    """Nearly all groups are all right from the start, and the answers within a group agree."""
    right, groups = share(evidence.start, lambda rollout: rollout.right), real_groups(evidence)
    if right is None or right.mean < NEARLY_ALL or not groups or contradictory(groups) > 0.1:
        return None
    solved = [group for group in groups if all(rollout.right for rollout in group)]
    if len(solved) < ONE_SIDED * len(groups):
        return None
    return Finding(
        name="data.too_easy",
        sentence=f"in {percent(len(solved) / len(groups))} of the groups every rollout is right, and the first weights "
        f"solve {percent(right.mean)} of the tasks",
        fix="use harder tasks, or replace groups without a difference: " + evidence.again("rollout.refill=10"),
        read=pick(solved, lambda rollout: True),
    )


def contradictory(groups: list[Group]) -> float:
    """Share of the groups in which different answers to one task are all judged right."""
    conflicts = [len({rollout.verdict.extracted for rollout in group if rollout.right}) > 1 for group in groups]
    return sum(conflicts) / len(conflicts)


def memorisation(evidence: Evidence) -> Finding | None:
    """Right in training and not on held-out tasks, while both began alike."""
    last = max((group[0].step for group in evidence.held_out), default=0)
    early = share([g for g in evidence.groups if g[0].step == 0], lambda rollout: rollout.right)
    before = share([g for g in evidence.held_out if g[0].step == 0], lambda rollout: rollout.right)
    after = share([g for g in evidence.held_out if g[0].step == last], lambda rollout: rollout.right)
    training = level(evidence.end, lambda rollout: float(rollout.right))
    selective = evidence.recipe.get("rollout.refill", 0) or evidence.recipe.get("rollout.candidates", 1) > 1
    if selective or last == 0 or early is None or before is None or after is None or training is None:
        return None
    gap = (training.mean - after.mean) - (early.mean - before.mean)
    error = math.sqrt(sum(each.variance for each in (training, after, early, before)))
    if gap < GAP or gap < ERRORS * error:
        return None
    return Finding(
        name="data.memorised",
        sentence=f"{percent(training.mean)} of the rollouts of the last {END} steps are right, and "
        f"{percent(after.mean)} of the held-out ones; before training it was {percent(early.mean)} and "
        f"{percent(before.mean)}",
        fix="train on more distinct tasks, for fewer steps, or with regularize.kl=0.01",
        since=max(1, last),
        read=pick([g for g in evidence.held_out if g[0].step == last], lambda rollout: not rollout.right),
    )


def real_groups(evidence: Evidence) -> list[Group]:
    """Groups of training with at least two judged rollouts."""
    return [group for group in evidence.groups if len(group) > 1 and all(rollout.judged for rollout in group)]
