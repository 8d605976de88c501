"""The address of rollouts in a run, and what is recorded there."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from gnomon.errors import ConfigError
from gnomon.store import Record, RunReader

__all__ = ["Address", "address_in", "parse_address", "rollout_records", "task_at"]


@dataclass(frozen=True, slots=True)
class Address:
    """The place of rollouts in a run.

    `kind` is `rollout` in training, and `held_out` or `held_out.SET` in evaluations.
    """

    kind: str
    step: int | None
    """None for every step."""
    task: int | None = None
    sample: int | None = None
    attempt: int = 0
    """Number of the attempt; 0 for the run itself."""

    def __str__(self) -> str:
        discarded = [f"attempt-{self.attempt}"] if self.attempt else []
        held_out = [] if self.kind == "rollout" else [self.kind.replace("_", "-", 1)]
        parts = ["task" if self.step is None else self.step, self.task, self.sample]
        return ":".join([*discarded, *held_out, *(str(part) for part in parts if part is not None)])


ADDRESS = re.compile(
    r"(attempt-\d{1,9}:)?(held-out(?:\.[A-Za-z_]\w*)?:)?(?:task:(\d{1,15})|(\d{1,15})(:\d{1,15})?(:\d{1,15})?)",
    re.ASCII,
)


def parse_address(text: str) -> Address:
    """Parse `STEP`, `STEP:TASK`, `STEP:TASK:SAMPLE` or `task:TASK`, after optional `attempt-N:` and `held-out:`.

    `held-out.SET:` selects an evaluation set.

    Raises: ConfigError E004.
    """
    match = ADDRESS.fullmatch(text)
    if match is None:
        fix = "use STEP, STEP:TASK, STEP:TASK:SAMPLE or task:TASK, with held-out: before it for held-out tasks"
        raise ConfigError("E004", f"{text!r} is not a rollout address", fix=fix)
    attempt, held_out, through, *parts = match.groups()
    kind = held_out[:-1].replace("-", "_", 1) if held_out else "rollout"
    number = int(attempt[8:-1]) if attempt else 0
    if through:
        return Address(kind, None, int(through), attempt=number)
    step, task, sample = (None if part is None else int(part.lstrip(":")) for part in parts)
    return Address(kind, step, task, sample, number)


def address_in(reader: RunReader, address: Address) -> Address:
    """The address; if only attempts have rollouts there, with the last such attempt."""
    if address.attempt or reader.rollout_rows(kind=address.kind, step=address.step, task=address.task):
        return address
    for attempt in reversed(reader.attempts):
        if reader.rollout_rows(kind=address.kind, step=address.step, task=address.task, attempt=attempt.number):
            return replace(address, attempt=attempt.number)
    return address


def rollout_records(reader: RunReader, address: Address) -> Iterator[Record]:
    """The rollouts at an address; none for an attempt that does not exist."""
    if address.attempt <= len(reader.attempts):
        yield from reader.records(address.kind, address.step, address.task, attempt=address.attempt)


def task_at(reader: RunReader, address: Address) -> Mapping[str, Any]:
    """The task of a rollout. The task may be in the run while the rollout is in an attempt."""
    for attempt in dict.fromkeys((address.attempt, *range(len(reader.attempts) + 1))):
        for record in reader.records("task", address.step, address.task, attempt=attempt):
            if record.body["of"] == address.kind:
                return record.body
    raise reader.absent(address.kind, address.step, address.task)
