"""The groups of training that a run has recorded, found by their task and read back one by one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from gnomon.store.codec import decode
from gnomon.store.layout import Record
from gnomon.store.reader import RolloutRow, RunReader
from gnomon.types import Group, Origin, Status, Task

__all__ = ["RecordedGroups"]


class RecordedGroups:
    """The groups that the finished steps of a run sampled and could judge, spare ones too.

    Args:
        seed: of the run.
        tasks: the task at an index of a split, as in `decode`.
    """

    def __init__(self, folder: Path, seed: int, tasks: Callable[[str, int], Task]) -> None:
        self.folder, self.seed, self._task = folder, seed, tasks
        self._steps: dict[int, list[int]] = {}
        self._wrong: dict[int, list[tuple[int, int]]] = {}
        self._next = 0

    def steps(self, before: int | None = None) -> Mapping[int, Sequence[int]]:
        """The steps that played each task, in order, by index of the task.

        Args: before: number of the first step to leave out; None means all.
        """
        end = self._scan(before)
        earlier = {task: [step for step in steps if step < end] for task, steps in self._steps.items()}
        return {task: steps for task, steps in earlier.items() if steps}

    def wrong(self, before: int | None = None) -> Mapping[int, Sequence[tuple[int, int]]]:
        """The step and the sample of every failed reply to a whole prompt, in order, by index of the task.

        Args: as in `steps`.
        """
        end = self._scan(before)
        earlier = {
            task: [address for address in addresses if address[0] < end] for task, addresses in self._wrong.items()
        }
        return {task: addresses for task, addresses in earlier.items() if addresses}

    def read(self, step: int, task: int) -> list[Group]:
        """The groups of a task in a step, one per learning player. Raises: RunError E142 for another task."""
        with RunReader(self.folder) as reader:
            records = list(reader.records(step=step, task=task))
        return list(decode([record for record in records if of_training(record)], self._task))

    def _scan(self, before: int | None) -> int:
        """Read the steps that were not read yet. Returns: the first step to leave out."""
        with RunReader(self.folder) as reader:
            end = reader.steps if before is None else before
            for step in range(self._next, end):
                self._add(reader, step)
        self._next = max(self._next, end)
        return end

    def _add(self, reader: RunReader, step: int) -> None:
        rows = reader.rollout_rows(step)
        failed = {row.task for row in rows if row.status == Status.FAILED}
        prefilled = {
            record.task: continues(record)
            for record in reader.records("task", step)
            if record.task is not None and of_training(record) and "replayed" not in record.body
        }
        for task in prefilled:
            if task not in failed:
                self._steps.setdefault(task, []).append(step)
        for row in rows:
            if row.task in prefilled and row.task not in failed and not prefilled[row.task] and is_wrong(row):
                self._wrong.setdefault(row.task, []).append((step, row.sample or 0))


def of_training(record: Record) -> bool:
    """Whether a record of a step is part of a group of training."""
    return record.kind in ("rollout", "greedy") or record.body.get("of") == "rollout"


def continues(task_record: Record) -> bool:
    """Whether the rollouts of a task continue a prefix. Args: task_record: its `task` record."""
    return any(origin == Origin.POLICY for origin, _ in task_record.body.get("origins", ())[-1:])


def is_wrong(row: RolloutRow) -> bool:
    """Whether a reply was judged and is not correct."""
    return row.status is not None and Status(row.status) not in (Status.CORRECT, Status.UNJUDGED, Status.FAILED)
