"""What the pages show, as plain values read from a run folder."""

from __future__ import annotations

import math
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, groupby
from operator import attrgetter
from pathlib import Path
from typing import Any

from gnomon.config.sections import DEFAULTS
from gnomon.launch.read import Address, asked_at, breakdown, question
from gnomon.launch.runs import pass_at_1
from gnomon.metrics import EVALUATION, METRICS, current, meaning
from gnomon.monitoring.alarms import ADVICE
from gnomon.store import Record, RunReader
from gnomon.store.layout import of_set, set_of
from gnomon.terminal import printable
from gnomon.viewer.history import Steps
from gnomon.viewer.pages import page_of

__all__ = ["MEASURED", "charts", "group_rows", "overview", "step_facts", "task_charts", "task_facts"]

EXCERPT = 160
"""Characters of a reply that a list shows."""
POINTS = 1000
"""Points of a curve."""
MOST = 256
"""Rollouts on the page of a task."""
ENDS = 3
"""Rollouts with the highest rewards, and as many with the lowest, on the page of a run."""
BESIDE = {"low": "interval", "high": "interval", "baseline": "baseline"}
"""Series that are drawn dashed, beside the measured one: what each is."""
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
CHARTS = (
    ("Reward", ("reward", "correct")),
    ("Length in tokens", ("length",)),
    ("Groups all right or all wrong", ("all_right", "all_wrong")),
    ("Truncated and failed", ("truncated", "failed")),
    ("Entropy in nats", ("entropy",)),
    ("Gradient norm", ("grad_norm",)),
    ("Drift from the start of the step in nats", ("drift",)),
    ("Clipped tokens", ("clipped",)),
    ("Largest sampler-learner difference", ("logp_mismatch",)),
    ("Learning rate", ("lr",)),
)
"""Title of each chart, and the metrics that it draws."""


def objective_of(recipe: str) -> str:
    """The name of the objective of a recipe."""
    return str(tomllib.loads(recipe).get("objective", {}).get("type", DEFAULTS["objective"]["type"]))


def overview(name: str, reader: RunReader, steps: Steps) -> dict[str, Any]:
    """What the page of one run shows, apart from its curves."""
    metrics = [found for _, found in steps]
    differences = [found["logp_mismatch"] for found in metrics if found.get("logp_mismatch") is not None]
    return {
        "name": name,
        "status": str(reader.status),
        "reason": reader.reason,
        "fingerprint": reader.fingerprint,
        "varies": reader.varies,
        "tier": reader.manifest.get("tier"),
        "steps": len(steps),
        "seconds": sum(float(row["seconds"]) for row in reader.timings()),
        "baseline": reader.baseline,
        "held_out": reader.held_out,
        "max_logp_mismatch": max(differences, default=None),
        "alarms": reader.alarms(),
        "advice": ADVICE,
        "breakdown": breakdown(metrics),
        "metrics": [(metric, value, meaning(metric)) for metric, value in sorted(metrics[-1].items())] if steps else [],
        "evaluation_steps": reader.steps_with(MEASURED),
        "sets": {name: [record.step or 0 for record in reader.evaluations(name)] for name in reader.sets},
        "seq": reader.length,
        "recipe": reader.recipe,
        "newest": steps[-1][0] if steps else None,
        "rollouts": extreme_rows(reader, steps[-1][0]) if steps else [],
        "imported": reader.imported,
        "rule": reader.genesis.get("imported", {}).get("correct", ""),
        "objective": objective_of(reader.recipe),
    }


def charts(reader: RunReader, steps: Steps) -> dict[str, Any]:
    """Every curve of a run: steps on the x axis, and per chart its series; the held-out series has its own steps."""
    metrics, numbers = [found for _, found in steps], [step for step, _ in steps]
    held_out = [chart for name in ("", *reader.sets) for chart in measured(reader.evaluations(name), name)]
    alarms = [{"step": alarm["step"], "name": printable(alarm["name"])} for alarm in reader.alarms()]
    drawn = [
        {"title": title, "x": numbers, "series": [series(name, metrics) for name in names], "page": "step"}
        for title, names in CHARTS
        if any(name in step for step in metrics for name in names)
    ]
    parts = sorted(name for name in set().union(*metrics) if name.startswith("part/"))
    if parts:
        found = [series(name, metrics) for name in parts]
        drawn.append({"title": "Parts of the reward", "x": numbers, "series": found, "page": "step"})
    return {"charts": [*held_out, *map(thinned, drawn)], "alarms": alarms}


def thinned(chart: dict[str, Any]) -> dict[str, Any]:
    """The chart with at most about `POINTS` points: of every few steps the lowest and the highest value of each series,
    in the order in which they stand."""
    steps = chart["x"]
    if len(steps) <= POINTS:
        return chart
    size = math.ceil(2 * len(steps) / POINTS)
    starts = range(0, len(steps), size)
    places = [place for start in starts for place in (start, min(start + size // 2, len(steps) - 1))]

    def extremes(values: Sequence[float | None]) -> Iterator[float | None]:
        for start in starts:
            found = [value for value in values[start : start + size] if value is not None]
            if not found:
                yield from (None, None)
                continue
            low, high = min(found), max(found)
            yield from (low, high) if found.index(low) < found.index(high) else (high, low)

    series = [{**line, "values": list(extremes(line["values"]))} for line in chart["series"]]
    note = f"The lowest and the highest value of every {size} steps."
    return {**chart, "note": note, "x": [steps[place] for place in places], "series": series}


def series(name: str, metrics: Sequence[Mapping[str, float]]) -> dict[str, Any]:
    return {"label": printable(name), "values": [step.get(name) for step in metrics], "meaning": METRICS.get(name, "")}


def measured(records: Sequence[Record], name: str = "") -> list[dict[str, Any]]:
    """The chart of the held-out pass rate, with its interval; none for a run that was not measured.

    Args: name: of the evaluation set; empty for the main evaluation.
    """
    points = [(record.step or 0, found) for record in records if (found := pass_at_1(record.body))]
    if not points:
        return []
    lines = [
        {"label": label, "values": [found[key] for _, found in points], "meaning": EVALUATION["pass_at"]}
        for label, key in (("pass@1", "value"), ("low", "low"), ("high", "high"))
    ]
    if records[0].kind.partition(".")[0] == "baseline":
        values = [points[0][1]["value"]] * len(points)
        lines.append({"label": "baseline", "values": values, "meaning": "pass@1 before training"})
    lines = [{**line, "beside": BESIDE[line["label"]]} if line["label"] in BESIDE else line for line in lines]
    title = f"Held-out pass@1, set {name}" if name else "Held-out pass@1"
    return [{"title": title, "x": [step for step, _ in points], "series": lines, "page": of_set("held-out", name)}]


def step_facts(folder: Path, kind: str, step: int, status: str, text: str) -> dict[str, Any]:
    """The groups of a step. Args: status and text: only rollouts with this status and this text; empty for all.

    Raises: RunError E409 when the step has no rollouts.
    """
    with RunReader(folder) as reader, reader.snapshot():
        records = list(reader.records(kind, step))
        if not records:
            raise reader.absent(kind, step)
        tasks = {task: asked_at(reader, Address(kind, step, task)) for task in dict.fromkeys(r.task for r in records)}
        ends = ("step",) if kind == "rollout" else tuple(of_set(end, set_of(kind)) for end in MEASURED)
        previous, following = reader.steps_near(step, ends)
        end = next((record.body for each in ends for record in reader.records(each, step)), {})
    statuses: dict[str, int] = {}
    for record in records:
        statuses[record.body["status"]] = statuses.get(record.body["status"], 0) + 1
    wanted = [r for r in records if status in ("", r.body["status"]) and text.lower() in r.body["reply"].lower()]
    return {
        "step": step,
        "kind": kind,
        "set": set_of(kind),
        "statuses": statuses,
        "count": len(records),
        "shown": len(wanted),
        "numbers": numbers(end),
        "pass_at_1": pass_at_1(end) if "pass_at" in end else None,
        "previous": previous,
        "next": following,
        "groups": [
            {"task": task, "question": question(tasks[task]), "id": tasks[task]["id"], "rows": group_rows(list(found))}
            for task, found in groupby(wanted, attrgetter("task"))
        ],
    }


def numbers(end: Mapping[str, Any]) -> list[tuple[str, float | None]]:
    """The main numbers of a step or an evaluation, of those that its last record has."""
    found = current(end["metrics"]) if "metrics" in end else end
    return [(label, found[name]) for label, name in SHOWN.items() if name in found]


def group_rows(records: Sequence[Record]) -> list[dict[str, Any]]:
    """Rollouts as rows of a list, with the beginning of each reply."""
    return [
        {
            "step": record.step,
            "task": record.task,
            "sample": record.sample,
            "reward": record.body["reward"],
            "status": record.body["status"],
            "tokens": record.body["tokens"],
            "advantage": record.body.get("advantage"),
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
    return group_rows([reader.record(row.seq) for row in (*high, *low)])


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
        found = {step: list(reader.records(kind, step, task)) for step in steps}
        asked = asked_at(reader, Address(kind, rows[-1].step, task))
    return {
        "task": task,
        "kind": kind,
        "set": set_of(kind),
        "id": asked["id"],
        "question": question(asked),
        "sampled": len({row.step for row in rows}),
        "earlier": steps[-1] if len(steps) < len(sizes) else None,
        "steps": [{"step": step, "rows": group_rows(records)} for step, records in found.items()],
    }


def newest(sizes: Mapping[int, int], most: int) -> list[int]:
    """The last steps, newest first, that hold at most so many rollouts together; at least one step if there is one."""
    order = sorted(sizes, reverse=True)
    totals = accumulate(sizes[step] for step in order)
    return [step for place, (step, total) in enumerate(zip(order, totals, strict=True)) if place == 0 or total <= most]


def task_charts(folder: Path, kind: str, task: int) -> dict[str, Any]:
    """How often one task was solved in each step that sampled it, and its mean reward."""
    with RunReader(folder) as reader:
        rows = reader.rollout_rows(task=task, kind=kind)
    groups = [(step or 0, list(found)) for step, found in groupby(rows, attrgetter("step"))]
    right = [sum(row.status == "correct" for row in found) / len(found) for _, found in groups]
    reward = [sum(row.reward or 0.0 for row in found) / len(found) for _, found in groups]
    lines = [{"label": "correct", "values": right}, {"label": "reward", "values": reward}]
    title, page = "This task in each step that sampled it", f"../{page_of(kind)}"
    return {
        "charts": [{"title": title, "x": [step for step, _ in groups], "series": lines, "page": page}],
        "alarms": [],
    }
