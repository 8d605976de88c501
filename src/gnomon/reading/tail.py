"""The steps of a run as lines of text, as they are stored."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

from gnomon.reading.address import Address
from gnomon.store import Record, RunReader, RunStatus
from gnomon.store.layout import of_set, set_of, unpack
from gnomon.terminal import one_line

__all__ = ["follow"]

SECONDS = 0.5
"""Between two looks at the run folder."""
SHOWN = ("reward", "correct", "length", "truncated", "all_right", "all_wrong", "entropy", "grad_norm")
"""Metrics of a line."""
EXCERPT = 160
"""Characters of a reply."""


def follow(folder: Path, *, last: int = 10, texts: int = 0, going_on: bool = True) -> Iterator[str]:
    """Lines for the last steps of a run, then one for each new step and evaluation, until the run ends.

    Args: last: number of steps to begin with; texts: rollouts to quote below each step; going_on: wait for new steps.
    """
    with RunReader(folder) as reader:
        steps = [record.seq for record in reader.records("step")]
        position = steps[-last - 1] + 1 if 0 <= last < len(steps) else 0
        if last == 0 and steps:
            position = steps[-1] + 1
        head = reader.head(position)
        while True:
            running = reader.status is RunStatus.RUNNING  # Asked first, so that the last records are not missed.
            if reader.head(position) != head:
                again = next(attempt for attempt in reversed(reader.attempts) if not attempt.failed)
                yield f"the run went back to step {again.step}; its older records are kept as an attempt"
                position = min(position, again.seq)
            for row in reader.rows(position):
                position = row[0] + 1
                if row[1].partition(".")[0] in ("step", "baseline", "evaluation"):
                    yield from lines(reader, unpack(row)[0], texts)
            head = reader.head(position)
            if not (running and going_on):
                reason = f" ({one_line(reader.reason)})" if reader.reason else ""
                yield f"{reader.status.value}{reason}: {reader.steps} steps"
                return
            time.sleep(SECONDS)


def lines(reader: RunReader, record: Record, texts: int) -> Iterator[str]:
    """A step or an evaluation, and the first rollouts of it."""
    yield step_line(record) if record.kind == "step" else evaluation_line(record)
    if texts:
        kind = "rollout" if record.kind == "step" else of_set("held_out", set_of(record.kind))
        for row in reader.rollout_rows(record.step, kind=kind)[:texts]:
            assert row.step is not None and row.task is not None and row.sample is not None
            reply = one_line(reader.rollout(row.step, row.task, row.sample, kind).body["reply"])
            address = Address(kind, row.step, row.task, row.sample)
            excerpt = reply if len(reply) <= EXCERPT else f"{reply[:EXCERPT]} …"
            yield f"    {address}   {row.status}   {number(row.reward)}   {excerpt}"


def step_line(record: Record) -> str:
    metrics = record.body["metrics"]
    numbers = [f"{name} {number(metrics[name])}" for name in SHOWN if name in metrics]
    return "  ".join([f"step {record.step}", *numbers])


def evaluation_line(record: Record) -> str:
    rates = [f"pass@{k} {i['value']:.3f} [{i['low']:.3f}, {i['high']:.3f}]" for k, i in record.body["pass_at"].items()]
    return "  ".join([f"{record.kind} after {record.step} steps", *rates, f"length {number(record.body['length'])}"])


def number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"
