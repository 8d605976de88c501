"""The tasks of a run that several steps sampled, each with how often it was solved in them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from operator import itemgetter
from typing import Any

from gnomon.reading.address import Address, task_at
from gnomon.store import RunReader
from gnomon.store.codec import text_of

__all__ = ["tasks_through"]

MOST = 200
"""Tasks on a page."""
STEPS = 40
"""Steps of a task that are shown: the last ones."""
EXCERPT = 120
"""Characters of a prompt."""


def tasks_through(reader: RunReader, begin: int) -> dict[str, Any]:
    """Held-out tasks first, then those of training. Args: begin: tasks that an earlier page showed."""
    rows = [row for kind in reader.rollout_kinds for row in through(reader, kind)]
    often = [row for row in rows if len(row["steps"]) > 1 or row["kind"] != "rollout"]
    page = often[begin : begin + MOST]
    return {
        "rows": [{**row, "prompt": prompt(reader, row)} for row in page],
        "count": len(often),
        "once": len(rows) - len(often),
        "begin": begin,
        "following": begin + MOST if begin + MOST < len(often) else None,
    }


def through(reader: RunReader, kind: str) -> Iterator[dict[str, Any]]:
    """Each task of one kind with the fraction that was right in each step, by its index."""
    for task, own in groupby(reader.success_counts(kind), itemgetter(0)):
        steps = [{"step": step, "right": right, "of": of, "rate": right / of} for _, step, right, of in own]
        change = steps[-1]["rate"] - steps[0]["rate"]
        yield {"kind": kind, "task": task, "steps": steps[-STEPS:], "last": steps[-1]["rate"], "change": change}


def prompt(reader: RunReader, row: dict[str, Any]) -> str:
    """The beginning of the last message of a task."""
    task_body = task_at(reader, Address(row["kind"], row["steps"][-1]["step"], row["task"]))
    return text_of(task_body["messages"][-1])[:EXCERPT] if task_body["messages"] else ""
