"""The rollouts of an imported run, to be judged again: of the tasks as they were stored."""

from __future__ import annotations

from collections.abc import Iterator

from gnomon.errors import ConfigError
from gnomon.reasoning import open_marker
from gnomon.store import Record, RunReader, decode
from gnomon.store.codec import rollout_of
from gnomon.types import Rollout, Task

__all__ = ["need_verifier", "replies", "rollouts", "tasks"]


def rollouts(reader: RunReader) -> Iterator[tuple[Record, Rollout]]:
    """Every rollout, trained on or held out."""
    task_record: Record | None = None
    for record in reader.records():
        if record.kind == "task":
            task_record = record
        elif record.kind in ("rollout", "held_out"):
            assert task_record is not None
            yield record, rollout_of(task_record, record)


def replies(rollout: Rollout) -> tuple[str, ...]:
    """What the policy wrote, turn by turn, after the reasoning that the text of the prompt has opened."""
    return tuple(
        open_marker(turn.messages[-1].content if turn.messages else "") + turn.completion.text for turn in rollout.turns
    )


def tasks(reader: RunReader) -> dict[int, Task]:
    """The tasks of training by index."""
    return {group.index: group.task for group in decode(reader.records())}


def need_verifier(reader: RunReader) -> ConfigError:
    """The error of a replay that names no verifier."""
    return ConfigError(
        "E070", "an imported run has no verifier of its own", where=str(reader.folder),
        why=f"its rollouts come from a log of {reader.import_format}",
        fix="name one: --verifier file.py:Class, or a shipped environment whose answers have the same form",
    )  # fmt: skip
