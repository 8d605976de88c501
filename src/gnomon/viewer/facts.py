"""What the pages show, as plain values read from a run folder."""

from __future__ import annotations

import math
import shlex
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby
from operator import attrgetter
from pathlib import Path
from typing import Any

from gnomon.comparison import change_card
from gnomon.comparison.gain_card import card_of, row_name, sentences, title
from gnomon.config import leaves
from gnomon.config.sections import DEFAULTS
from gnomon.extensions import panels
from gnomon.metrics import meaning
from gnomon.monitoring import failures
from gnomon.reading.address import Address, task_at
from gnomon.reading.breakdown import breakdown
from gnomon.reading.folders import pass_at_1
from gnomon.reading.reasons import verdict_reason
from gnomon.store import Record, RunReader
from gnomon.store.layout import RunStatus, of_set, set_of
from gnomon.store.notes import note_of
from gnomon.types import Status
from gnomon.viewer.history import Steps

__all__ = ["MEASURED", "RolloutFilter", "group_rows", "overview", "settings_of", "step_facts", "task_facts"]

EXCERPT = 160
"""Characters of a reply that a list shows."""
MOST = 256
"""Rollouts on the page of a task."""
ENDS = 3
"""Rollouts with the highest rewards, and as many with the lowest, on the page of a run."""
EXAMINED = 10_000
"""Most training rollouts with which the page of a run shows the doctor's findings: they take a second or two."""
GROUPS = 100
"""Groups on the page of a step."""
KINDS = ("mixed", "equal rewards", "all wrong", "all right")
"""Kinds of groups, in the order of a page. A group whose rewards differ has a gradient."""
MEASURED = ("baseline", "evaluation")
"""Kinds of the records of a measurement on held-out tasks."""
SHOWN = {
    "mean reward": "reward",
    "fraction correct": "correct",
    "tokens per rollout": "length",
    "fraction truncated": "truncated",
    "groups all right": "all_right",
    "groups all wrong": "all_wrong",
}
"""Numbers on the page of a step, by their labels."""


def settings_of(reader: RunReader) -> dict[str, Any]:
    """Every setting of a run by its full key; those of its recipe, and the defaults."""
    return {**leaves(DEFAULTS), **leaves(tomllib.loads(reader.recipe))}


def overview(name: str, reader: RunReader, steps: Steps) -> dict[str, Any]:
    """What the page of one run shows, apart from its curves."""
    metrics = [values for _, values in steps]
    differences = [values["logp_mismatch"] for values in metrics if values.get("logp_mismatch") is not None]
    return {
        "name": name,
        "status": str(reader.status),
        "reason": reader.reason,
        "fingerprint": reader.fingerprint,
        "varies": reader.varies,
        "tier": reader.manifest.get("tier"),
        "steps": len(steps),
        "seconds": sum(float(row["seconds"]) for row in reader.timings()),
        "cpu_seconds": sum(float(row.get("cpu_seconds", 0.0)) for row in reader.timings()),
        "baseline": reader.baseline,
        "held_out": reader.held_out,
        "max_logp_mismatch": max(differences, default=None),
        "alarms": [{"advice": "", **alarm} for alarm in reader.alarms()],
        "breakdown": breakdown(metrics),
        "metrics": [(metric, value, meaning(metric)) for metric, value in sorted(metrics[-1].items())] if steps else [],
        "evaluation_steps": reader.steps_with(MEASURED),
        "sets": {name: [record.step or 0 for record in reader.evaluations(name)] for name in reader.sets},
        "seq": reader.length,
        "recipe": reader.recipe,
        "newest": steps[-1][0] if steps else None,
        "rollouts": extreme_rows(reader, steps[-1][0]) if steps else [],
        "imported": reader.import_format,
        "rule": reader.genesis.get("imported", {}).get("correct", ""),
        "settings": settings_of(reader),
        "note": note_of(reader.folder),
        "gain": gain_facts(reader),
        "panels": [*failures.panel(reader), *change_card.panel(reader), *panels(reader)],
        "examined": reader.status is not RunStatus.RUNNING and reader.count("rollout") <= EXAMINED,
    }


def gain_facts(reader: RunReader) -> dict[str, Any] | None:
    """The card of `gnomon gain`, or the command that measures it. None for a run that has none or is not finished."""
    card = card_of(reader.folder)
    if card is not None and reader.fingerprint in card.runs.values():
        rows = [(row_name(row), row) for row in card.gain.rows]
        return {"title": title(card), "k": card.gain.k, "rows": rows, "sentences": list(sentences(card))}
    measurable = reader.complete and reader.held_out is not None and not reader.import_format
    return {"command": f"gnomon gain {shlex.quote(str(reader.folder))}"} if measurable else None


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutFilter:
    """Which rollouts of a step are shown; empty for all."""

    status: str = ""
    text: str = ""
    """In the reply, in upper or lower case."""
    low: float | None = None
    """The least reward."""
    high: float | None = None

    def __bool__(self) -> bool:
        return self != RolloutFilter()

    def admits(self, record: Record) -> bool:
        body, reward = record.body, record.body["reward"]
        limits = ((self.low, 1), (self.high, -1))
        return (
            self.status in ("", body["status"])
            and self.text.lower() in body["reply"].lower()
            and all(limit is None or (reward is not None and sign * (reward - limit) >= 0) for limit, sign in limits)
        )


def step_facts(folder: Path, kind: str, step: int, only: RolloutFilter, begin: int = 0) -> dict[str, Any]:
    """The groups of a step, those with a gradient first. Args: begin: groups that an earlier page showed.

    Raises: RunError E409 when the step has no rollouts.
    """
    with RunReader(folder) as reader, reader.snapshot():
        records = list(reader.records(kind, step))
        if not records:
            raise reader.absent(kind, step)
        tasks = {task: task_at(reader, Address(kind, step, task)) for task in dict.fromkeys(r.task for r in records)}
        ends = ("step",) if kind == "rollout" else tuple(of_set(end, set_of(kind)) for end in MEASURED)
        previous, following = reader.steps_near(step, ends)
        end = next((record.body for each in ends for record in reader.records(each, step)), {})
    whole = {task: list(of_task) for task, of_task in groupby(records, attrgetter("task"))}
    selected = {task: rows for task, of_task in whole.items() if (rows := [r for r in of_task if only.admits(r)])}
    kinds = Counter(kind_of_group(of_task) for of_task in whole.values())
    order = sorted(selected, key=lambda task: (KINDS.index(kind_of_group(whole[task])), task))
    return {
        "step": step,
        "kind": kind,
        "set": set_of(kind),
        "statuses": Counter(record.body["status"] for record in records),
        "count": len(records),
        "shown": sum(map(len, selected.values())),
        "kinds": {kind: count for kind in KINDS if (count := kinds[kind])},
        "numbers": numbers(end),
        "pass_at_1": pass_at_1(end) if "pass_at" in end else None,
        "previous": previous,
        "next": following,
        "begin": begin,
        "following": begin + GROUPS if begin + GROUPS < len(order) else None,
        "groups": [
            {
                "task": task,
                "asked": tasks[task],
                "kind": kind_of_group(whole[task]),
                "verdicts": [{"status": record.body["status"]} for record in whole[task]],
                "rows": group_rows(selected[task], tasks[task]),
            }
            for task in order[begin : begin + GROUPS]
        ],
    }


def kind_of_group(records: Sequence[Record]) -> str:
    """One of `KINDS`, by the rewards and verdicts of a group of rollouts."""
    if len({record.body["reward"] for record in records}) > 1:
        return "mixed"
    statuses = {record.body["status"] for record in records}
    if statuses == {Status.CORRECT}:
        return "all right"
    return "equal rewards" if statuses & {Status.CORRECT, Status.UNJUDGED} else "all wrong"


def numbers(end: Mapping[str, Any]) -> list[tuple[str, float | None]]:
    """The main numbers of a step or an evaluation, of those that its last record has."""
    values = end.get("metrics", end)
    return [(label, values[name]) for label, name in SHOWN.items() if name in values]


def group_rows(records: Sequence[Record], task_body: Mapping[str, Any] | None = None) -> list[dict[str, Any]]:
    """Rollouts as rows of a list, with the beginning of each reply. Args: task_body: to say why a reply is wrong."""
    return [
        {
            "step": record.step,
            "task": record.task,
            "sample": record.sample,
            "reward": record.body["reward"],
            "status": record.body["status"],
            "tokens": record.body["tokens"],
            "advantage": record.body.get("advantage"),
            "why": "" if task_body is None else verdict_reason(record.body, task_body)[:EXCERPT],
            "excerpt": record.body["reply"][:EXCERPT],
            "longer": len(record.body["reply"]) > EXCERPT,
        }
        for record in records
    ]


def extreme_rows(reader: RunReader, step: int) -> list[dict[str, Any]]:
    """The rollouts of a step with the highest rewards, then those with the lowest; at most one of a task in each."""
    rows = sorted(reader.rollout_rows(step), key=lambda row: math.inf if row.reward is None else -row.reward)
    best = {row.task: row for row in reversed(rows)}
    worst = {row.task: row for row in rows}
    high = sorted(best.values(), key=rows.index)[:ENDS]
    low = [row for row in sorted(worst.values(), key=rows.index)[-ENDS:] if row not in high]
    records = [reader.record(row.seq) for row in (*high, *low)]
    tasks = {record.task: task_at(reader, Address("rollout", step, record.task)) for record in records}
    return [row for record in records for row in group_rows([record], tasks[record.task])]


def task_facts(folder: Path, kind: str, task: int, before: int | None = None) -> dict[str, Any]:
    """One task through time: the rollouts of the last steps that sampled it.

    Args: before: only steps before this one; none for all. Raises: RunError E409 when no step sampled the task.
    """
    with RunReader(folder) as reader, reader.snapshot():
        rows = reader.rollout_rows(task=task, kind=kind)
        if not rows:
            raise reader.absent(kind, None, task)
        sizes = Counter(row.step or 0 for row in rows if before is None or (row.step or 0) < before)
        steps = newest(sizes, MOST)
        by_step = {step: list(reader.records(kind, step, task)) for step in steps}
        task_body = task_at(reader, Address(kind, rows[-1].step, task))
    return {
        "task": task,
        "kind": kind,
        "set": set_of(kind),
        "asked": task_body,
        "sampled": len({row.step for row in rows}),
        "earlier": steps[-1] if len(steps) < len(sizes) else None,
        "steps": [{"step": step, "rows": group_rows(records, task_body)} for step, records in by_step.items()],
    }


def newest(sizes: Mapping[int, int], most: int) -> list[int]:
    """The last steps, newest first, that hold at most so many rollouts together; at least one step if there is one."""
    order = sorted(sizes, reverse=True)
    totals = accumulate(sizes[step] for step in order)
    return [step for i, (step, total) in enumerate(zip(order, totals, strict=True)) if i == 0 or total <= most]
