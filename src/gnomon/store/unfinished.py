"""Finished episodes of steps that are not recorded yet, so that a run that dies samples only the others again.

One file for each step, to which every finished episode is appended as a line: its SHA-256 and its records as canonical
JSON. The file is deleted when its step is recorded. A line that was not written to its end is not read.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from shutil import rmtree
from typing import Any

from gnomon.store.codec import decode
from gnomon.store.journal import faults
from gnomon.store.layout import UNFINISHED, Record, canonical, of_set, set_of
from gnomon.store.reader import RunReader
from gnomon.types import Group, Task

__all__ = ["Recorded", "Unfinished", "ends"]


class Unfinished:
    """Args: folder: of the run. Several threads may use it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._found: dict[int, dict[str, list[Record]]] = {}
        """Episodes that were stored before this process began, by step and name."""
        self.read: dict[int, int] = {}
        """Number of them that were used, by step."""

    def get(self, step: int, name: str) -> list[Record]:
        """The records of an episode that finished before the run was resumed; none if it did not."""
        if step not in self._found:
            with faults(self.folder):
                self._found.setdefault(step, dict(episodes(self._path(step), step)))
        records = self._found[step].pop(name, [])
        if records:
            self.read[step] = self.read.get(step, 0) + 1
        return records

    def add(self, step: int, name: str, records: Sequence[Record]) -> None:
        """Store an episode. A killed process does not lose it; a machine without power may.

        Raises: ResourceError E501 if the disk is full.
        """
        parts = [[record.kind, record.task, record.sample, record.body] for record in records]
        text = canonical([name, parts])
        path = self._path(step)
        with faults(self.folder):
            path.parent.mkdir(exist_ok=True)
            with path.open("ab", buffering=0) as file:
                file.write(b"%s %s\n" % (sha256(text).hexdigest().encode(), text))

    def drop(self, step: int) -> int:
        """Delete the episodes of a step, which is recorded. Returns: how many of them were read."""
        with suppress(OSError):
            self._path(step).unlink(missing_ok=True)
        self._found.pop(step, None)
        return self.read.pop(step, 0)

    def clear(self) -> None:
        """Delete all episodes: they may no longer be those that the run would sample."""
        rmtree(self.folder / UNFINISHED, ignore_errors=True)
        self._found.clear()

    def _path(self, step: int) -> Path:
        return self.folder / UNFINISHED / f"{step:06d}.jsonl"


def episodes(path: Path, step: int) -> list[tuple[str, list[Record]]]:
    """The episodes of a file, by name. A damaged line is left out: its episode is sampled again."""
    result = []
    for line in path.read_bytes().split(b"\n") if path.exists() else []:
        digest, _, text = line.partition(b" ")
        if digest == sha256(text).hexdigest().encode():
            name, parts = json.loads(text)
            records = [Record(kind=kind, step=step, task=task, sample=s, body=body) for kind, task, s, body in parts]
            result.append((name, records))
    return result


def ends(kind: str) -> Collection[str]:
    """The kinds of the records that follow the rollouts of a kind where they are complete."""
    return {"step"} if kind == "rollout" else {of_set(end, set_of(kind)) for end in ("baseline", "evaluation")}


class Recorded:
    """Reads rollouts back from the chain, or from what was given up since the run was resumed.

    Records are given up where the learner does not repeat its metrics; the rollouts after them are as good as before.

    Args:
        tasks: the task at an index of a split, as in `decode`.
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
