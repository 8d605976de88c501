"""Rollouts that a run recorded after the checkpoint from which it goes on, for runs whose sampling does not repeat."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

from gnomon.store.codec import decode
from gnomon.store.layout import Record, of_set, set_of
from gnomon.store.reader import RunReader
from gnomon.types import Group, Task

__all__ = ["Recorded", "ends"]


def ends(kind: str) -> Collection[str]:
    """The kinds of the records that follow the rollouts of a kind where they are complete."""
    return {"step"} if kind == "rollout" else {of_set(end, set_of(kind)) for end in ("baseline", "evaluation")}


class Recorded:
    """Reads rollouts back from the chain, or from what was given up since the run was resumed.

    Records are given up where the learner does not repeat its metrics; the rollouts after them are as good as before.

    Args:
        tasks: the task at an index of a split, as of `decode`.
        note: keeps an event of the run; takes its kind and body.
    """

    def __init__(
        self, folder: Path, tasks: Callable[[str, int], Task], note: Callable[[str, Mapping[str, Any]], None]
    ) -> None:
        self.folder, self.tasks, self.note = folder, tasks, note
        with RunReader(folder) as reader:
            self.before = len(reader.attempts)

    def __call__(self, kind: str, step: int) -> list[Group]:
        """The groups of a step, of training or of an evaluation; none where they are not complete.

        Args: kind: `rollout`, `held_out` or `held_out.SET`.
        """
        with RunReader(self.folder) as reader:
            records = self._records(reader, kind, step)
        groups = list(decode(records, self.tasks))
        if groups:
            self.note("read", {"step": step, "of": kind, "rollouts": sum(len(group.rollouts) for group in groups)})
        return groups

    def _records(self, reader: RunReader, kind: str, step: int) -> list[Record]:
        since = [attempt.number for attempt in reader.attempts[self.before :] if not attempt.failed]
        for attempt in (0, *reversed(since)):
            records = list(reader.records(step=step, attempt=attempt))
            if any(record.kind in ends(kind) for record in records):
                return [record for record in records if kind in (record.kind, record.body.get("of"))]
        return []
