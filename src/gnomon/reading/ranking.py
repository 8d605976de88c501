"""The tasks of a run by how much their rewards varied: what a data set may keep a few of."""

from __future__ import annotations

from collections import defaultdict
from statistics import fmean, pvariance
from typing import Any

from gnomon.errors import RunError
from gnomon.store import RunReader

__all__ = ["MEASURES", "rank"]

MEASURES = ("variance", "drift")


def rank(reader: RunReader, by: str = "variance") -> dict[str, Any]:
    """The train tasks that a run visited, the most varied first, in plain values.

    `variance` is that of all rewards a task earned, whichever step; `drift` that of its mean reward from visit to
    visit, by which one-shot training chose its example. Both are divided by the count, and a judge that broke
    counts for nothing. Indices of one id are one task, such as the rows of a data set that `repeat` holds more than
    once; `index` is the least of them.

    Args: by: one of `MEASURES`.
    Raises: RunError E159 for a run that visited no task.
    Source: of drift, Wang et al. 2025, arXiv 2504.20571.
    """
    names = {r.task: r.body["id"] for r in reader.records("task") if r.body["of"] == "rollout"}
    first: dict[str, int] = {}
    visits: dict[str, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in reader.rollout_rows():
        if row.status != "failed" and row.task is not None and row.step is not None and row.reward is not None:
            name = names[row.task]
            first[name] = min(row.task, first.get(name, row.task))
            visits[name][row.step].append(row.reward)
    if not visits:
        raise RunError("E159", "the run has no rollouts of train tasks", where=str(reader.folder))
    ranking: list[dict[str, Any]] = []
    for name, steps in visits.items():
        rewards = [reward for step in steps.values() for reward in step]
        facts = {"id": name, "index": first[name], "visits": len(steps), "mean": fmean(rewards)}
        facts |= {"variance": pvariance(rewards), "drift": pvariance([fmean(step) for step in steps.values()])}
        ranking.append(facts)
    # Ties are broken by the id, so that the same run gives the same file.
    ranking.sort(key=lambda facts: (-facts[by], facts["id"]))
    return {"run": reader.uuid, "by": by, "tasks": ranking}
