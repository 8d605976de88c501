"""Two runs side by side: settings that differ, and their rewards paired by held-out task."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from gnomon.reading.text import Address, question
from gnomon.stats import Interval, difference_interval
from gnomon.store import RunReader
from gnomon.store.compare import unequal
from gnomon.types import Status
from gnomon.viewer.facts import MEASURED
from gnomon.viewer.group import columns

__all__ = ["SORTED", "comparison", "task_of_both"]

EXCERPT = 120
"""Characters of a question that the table shows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One held-out task in one run: the rollouts of an evaluation."""

    task: int
    """Index in the run."""
    question: str
    rewards: Sequence[float]
    correct: Sequence[bool]
    """Of the rollouts that have a verdict."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """The same held-out task in both runs."""

    id: str
    a: Measured
    b: Measured

    @property
    def reward(self) -> float:
        """Mean reward in `b` less that in `a`."""
        return fmean(self.b.rewards) - fmean(self.a.rewards)

    @property
    def correct(self) -> float | None:
        """Fraction of right rollouts in `b` less that in `a`; None where one has no verdicts."""
        return fmean(self.b.correct) - fmean(self.a.correct) if self.a.correct and self.b.correct else None


SORTED = {
    "apart": lambda pair: (-abs(pair.reward), pair.a.task),
    "a": lambda pair: (pair.reward, pair.a.task),
    "b": lambda pair: (-pair.reward, pair.a.task),
    "task": lambda pair: (pair.a.task,),
}
"""Orders of the table: the largest differences first, those in favour of either run, or by index."""


def comparison(a: RunReader, b: RunReader, steps: tuple[int | None, int | None], order: str) -> dict[str, Any]:
    """What the page of two runs shows, apart from curves.

    Args: steps: of the evaluations to compare; None for the last one of a run; order: of `SORTED`.
    """
    evaluations = [reader.steps_with(MEASURED) for reader in (a, b)]
    at = [max(every, default=None) if step is None else step for every, step in zip(evaluations, steps, strict=True)]
    tasks_a, tasks_b = measured_tasks(a, at[0]), measured_tasks(b, at[1])
    pairs = [Pair(id=name, a=tasks_a[name], b=tasks_b[name]) for name in tasks_a if name in tasks_b]
    return {
        "steps": at,
        "evaluations": evaluations,
        "only": (len(tasks_a) - len(pairs), len(tasks_b) - len(pairs)),
        "pairs": sorted(pairs, key=SORTED[order]),
        "reward": interval([pair.reward for pair in pairs]),
        "correct": interval([pair.correct for pair in pairs if pair.correct is not None]),
        "better": (sum(pair.reward < 0 for pair in pairs), sum(pair.reward > 0 for pair in pairs)),
        "settings": unequal(a.genesis, b.genesis),
    }


def interval(differences: Sequence[float]) -> Interval | None:
    """Mean difference over tasks; None without a task that both runs have."""
    return difference_interval(differences) if differences else None


def measured_tasks(reader: RunReader, step: int | None) -> dict[str, Measured]:
    """The held-out tasks of an evaluation by id. A task that stands several times in the split counts once."""
    if step is None:
        return {}
    tasks = {record.task: record.body for record in reader.records("task", step) if record.body["of"] == "held_out"}
    rows: dict[str, list[Any]] = {}
    for row in reader.rollout_rows(step=step, kind="held_out"):
        if row.status != "failed":
            rows.setdefault(tasks[row.task]["id"], []).append(row)
    return {
        name: Measured(
            task=rollouts[0].task,
            question=question(tasks[rollouts[0].task])[:EXCERPT],
            rewards=[row.reward or 0.0 for row in rollouts],
            correct=[row.status == Status.CORRECT for row in rollouts if row.status != Status.UNJUDGED],
        )
        for name, rollouts in rows.items()
    }


def task_of_both(
    a: RunReader, b: RunReader, steps: tuple[int | None, int | None], task: int | None
) -> dict[str, Any] | None:
    """The rollouts of one held-out task in both runs, compared with the first one of `a`. None where one has none.

    Args: task: its index in `a`.
    """
    pairs = comparison(a, b, steps, "task")
    pair = next((pair for pair in pairs["pairs"] if pair.a.task == task), None)
    if pair is None:
        return None
    at = zip(pairs["steps"], (pair.a, pair.b), strict=True)
    addresses = [Address("held_out", step, side.task) for step, side in at]
    records = [list(reader.records("held_out", p.step, p.task)) for reader, p in zip((a, b), addresses, strict=True)]
    task_body = next(
        record.body
        for record in a.records("task", addresses[0].step, addresses[0].task)
        if record.body["of"] == "held_out"
    )
    base = records[0][0]
    return {
        "asked": task_body,
        "runs": [(address, columns(rows, base, task_body)) for address, rows in zip(addresses, records, strict=True)],
    }
