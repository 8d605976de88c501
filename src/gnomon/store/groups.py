"""The groups of training that a run has recorded, found by their task and read back one by one."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

from gnomon.store.codec import decode
from gnomon.store.layout import Record
from gnomon.store.reader import RunReader
from gnomon.types import Group, Status, Task

__all__ = ["RecordedGroups"]


class RecordedGroups:
    """The groups that the finished steps of a run sampled and could judge, spare ones too.

    Args:
        seed: of the run.
        tasks: the task at an index of a split, as of `decode`.
    """

    def __init__(self, folder: Path, seed: int, tasks: Callable[[str, int], Task]) -> None:
        self.folder, self.seed, self._task = folder, seed, tasks
        self._steps: dict[int, list[int]] = {}
        self._next = 0

    def steps(self, before: int | None = None) -> Mapping[int, Collection[int]]:
        """The steps that played each task, in order, by index of the task.

        Args: before: number of the first step to leave out; None means all. Calls must not go back.
        """
        with RunReader(self.folder) as reader:
            end = reader.steps if before is None else before
            for step in range(self._next, end):
                for task in sampled_tasks(reader, step):
                    self._steps.setdefault(task, []).append(step)
        self._next = max(self._next, end)
        return self._steps

    def read(self, step: int, task: int) -> list[Group]:
        """The groups of a task in a step, one per learning player. Raises: RunError E142 for another task."""
        with RunReader(self.folder) as reader:
            records = list(reader.records(step=step, task=task))
        kept = [record for record in records if of_training(record)]
        return list(decode(kept, self._task))


def sampled_tasks(reader: RunReader, step: int) -> list[int]:
    """The tasks of a step whose groups it sampled itself and judged."""
    failed = {row.task for row in reader.rollout_rows(step) if row.status == Status.FAILED}
    asked: Mapping[int | None, Any] = {
        record.task: record.body for record in reader.records("task", step) if of_training(record)
    }
    return [task for task, body in asked.items() if task is not None and task not in failed and "replayed" not in body]


def of_training(record: Record) -> bool:
    """Whether a record of a step is part of a group of training."""
    return record.kind in ("rollout", "greedy") or record.body.get("of") == "rollout"
