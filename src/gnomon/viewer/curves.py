"""The curves of a run, and of several runs in the same charts, as plain values.

A chart has `title`, `x` and `series`; `page` is the address below which a step of it has a page. A series has `label`
and `values`, a `place` among the colours, and perhaps `low` and `high`: a band around it.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from statistics import fmean
from typing import Any

from gnomon.metrics import EVALUATION, METRICS
from gnomon.reading.folders import pass_at_1
from gnomon.store import Record, RunReader
from gnomon.store.layout import of_set
from gnomon.terminal import printable
from gnomon.viewer.history import Steps
from gnomon.viewer.pages import page_of

__all__ = ["charts", "group_charts", "overlaid", "task_charts"]

POINTS = 1000
"""Points of a curve."""
SPEED = "tokens/s"
CHARTS: tuple[tuple[str, Sequence[str]], ...] = (
    ("Reward", ("reward", "correct")),
    ("Length in tokens", ("length",)),
    ("Sampled tokens per second", (SPEED,)),
    ("Groups all right or all wrong", ("all_right", "all_wrong")),
    ("Replies without a legal action per rollout", ("illegal",)),
    ("Truncated and failed", ("truncated", "failed")),
    ("Entropy in nats", ("entropy",)),
    ("KL divergence to the initial policy in nats", ("kl",)),
    ("KL divergence from sampler to learner in nats", ("mismatch/kl",)),
    ("Drift from the start of the step in nats", ("drift",)),
    ("Gradient norm", ("grad_norm",)),
    ("Clipped tokens", ("clipped",)),
    ("Largest sampler-learner difference", ("logp_mismatch",)),
    ("Learning rate", ("lr",)),
)
"""Title of each chart, and the metrics that it draws."""

Chart = dict[str, Any]


def charts(reader: RunReader, steps: Steps) -> dict[str, Any]:
    """Every curve of a run: steps on the x axis, and per chart its series; the held-out series has its own steps."""
    metrics, numbers = [values for _, values in steps], [step for step, _ in steps]
    held_out = [chart for name in ("", *reader.sets) for chart in held_out_charts(reader.evaluations(name), name)]
    alarms = [{"step": alarm["step"], "name": printable(alarm["name"])} for alarm in reader.alarms()]
    parts = sorted(name for name in set().union(*metrics) if name.startswith("part/"))
    timed = with_speed(reader, steps)
    curves = [
        {"title": title, "x": numbers, "series": [series(name, timed) for name in names], "page": "step"}
        for title, names in (*CHARTS, ("Parts of the reward", parts))
        if any(name in step for step in timed for name in names)
    ]
    return {"charts": [*held_out, *map(thin, curves)], "alarms": alarms}


def with_speed(reader: RunReader, steps: Steps) -> list[Mapping[str, float]]:
    """The metrics of each step, with the tokens that it sampled by its time without evaluation, where a clock ran."""
    times = ((row["step"], row.get("training", row.get("seconds"))) for row in reader.timings())
    seconds = {step: float(time) for step, time in times if time}
    return [
        {**values, SPEED: values["tokens"] / seconds[step]} if step in seconds and "tokens" in values else values
        for step, values in steps
    ]


def thin(chart: Chart) -> Chart:
    """The chart with at most about `POINTS` points: of every few steps the lowest and the highest value of each series,
    in the order in which they stand."""
    steps = chart["x"]
    if len(steps) <= POINTS:
        return chart
    size = math.ceil(2 * len(steps) / POINTS)
    starts = range(0, len(steps), size)
    points = [at for start in starts for at in (start, min(start + size // 2, len(steps) - 1))]

    def extremes(values: Sequence[float | None]) -> Iterator[float | None]:
        for start in starts:
            present = [value for value in values[start : start + size] if value is not None]
            if not present:
                yield from (None, None)
                continue
            low, high = min(present), max(present)
            yield from (low, high) if present.index(low) < present.index(high) else (high, low)

    lines = [{**line, "values": list(extremes(line["values"]))} for line in chart["series"]]
    note = f"The lowest and the highest value of every {size} steps."
    return {**chart, "note": note, "x": [steps[at] for at in points], "series": lines}


def series(name: str, metrics: Sequence[Mapping[str, float]]) -> dict[str, Any]:
    """A metric over the steps. A value that is not a finite number is left out: JSON has none."""
    values = [value if math.isfinite(value := step.get(name, math.nan)) else None for step in metrics]
    return {"label": printable(name), "values": values, "meaning": METRICS.get(name, "")}


def held_out_charts(records: Sequence[Record], name: str = "") -> list[Chart]:
    """The chart of the held-out pass rate, with its interval; none for a run that was not measured.

    Args: name: of the evaluation set; empty for the main evaluation.
    """
    points = [(record.step or 0, rate) for record in records if (rate := pass_at_1(record.body))]
    if not points:
        return []
    band = {key: [rate[key] for _, rate in points] for key in ("low", "high")}
    values = [rate["value"] for _, rate in points]
    lines: list[dict[str, Any]] = [{"label": "pass@1", "values": values, "meaning": EVALUATION["pass_at"], **band}]
    if records[0].kind.partition(".")[0] == "baseline":
        before = {"label": "baseline", "values": values[:1] * len(points), "meaning": "pass@1 before training"}
        lines.append({**before, "place": -1, "dashed": True})
    title = f"Held-out pass@1, set {name}" if name else "Held-out pass@1"
    chart = {"title": title, "x": [step for step, _ in points], "series": lines, "page": of_set("held-out", name)}
    return [{**chart, "note": "The band is the 95 % interval over different tasks.", "smooth": False}]


def task_charts(folder: Path, kind: str, task: int) -> dict[str, Any]:
    """How often one task was solved in each step that sampled it, and its mean reward."""
    with RunReader(folder) as reader:
        rows = reader.rollout_rows(task=task, kind=kind)
    groups = [(step or 0, list(rollouts)) for step, rollouts in groupby(rows, attrgetter("step"))]
    right = [sum(row.status == "correct" for row in rollouts) / len(rollouts) for _, rollouts in groups]
    reward = [sum(row.reward or 0.0 for row in rollouts) / len(rollouts) for _, rollouts in groups]
    lines = [{"label": "correct", "values": right}, {"label": "reward", "values": reward}]
    title, page = "This task in each step that sampled it", f"../{page_of(kind)}"
    return {
        "charts": [{"title": title, "x": [step for step, _ in groups], "series": lines, "page": page, "smooth": False}],
        "alarms": [],
    }


def overlaid(runs: Sequence[tuple[str, Mapping[str, Any]]]) -> dict[str, Any]:
    """The curves of several runs in the same charts: a chart for each metric, and in it a colour for each run.

    Args: runs: the label of each run, and its `charts`.
    """
    return several([(label, [own]) for label, own in runs])


def group_charts(groups: Mapping[str, Sequence[Mapping[str, Any]]]) -> dict[str, Any]:
    """The mean curves of groups of runs: a chart for each metric, in it a colour for each group, and around its mean a
    band from the lowest to the highest of its runs. Args: groups: the `charts` of the runs of each group."""
    return several([(f"{name} ({len(runs)})", runs) for name, runs in groups.items()])


def several(groups: Sequence[tuple[str, Sequence[Mapping[str, Any]]]]) -> dict[str, Any]:
    """One chart for each metric that any run has, in the order of the first run that has it."""
    lines = [(label, [dict(metric_lines(run)) for run in runs]) for label, runs in groups]
    titles = dict.fromkeys(title for _, runs in lines for run in runs for title in run)
    result = []
    for title in titles:
        curves = [(i, label, [run[title] for run in runs if title in run]) for i, (label, runs) in enumerate(lines)]
        result.append(together(title, [each for each in curves if each[2]]))
    return {"charts": result, "alarms": []}


def metric_lines(run: Mapping[str, Any]) -> Iterator[tuple[str, tuple[Chart, dict[str, Any]]]]:
    """Every measured line of a run with its chart, by a title of its own."""
    for chart in run["charts"]:
        own = [line for line in chart["series"] if not line.get("dashed")]
        for line in own:
            title = chart["title"] if len(own) == 1 else line["label"].replace("_", " ").capitalize()
            yield title, (chart, line)


def together(title: str, groups: Sequence[tuple[int, str, Sequence[tuple[Chart, dict[str, Any]]]]]) -> Chart:
    """One metric over the steps of all runs. A group of one run keeps its own band and its own steps."""
    steps = sorted({step for _, _, runs in groups for chart, _ in runs for step in chart["x"]})
    first = groups[0][2][0][0]
    lines = []
    for index, label, runs in groups:
        line: dict[str, Any] = {"label": printable(label), "place": index}
        if len(runs) == 1:
            chart, own = runs[0]
            line |= {name: over(steps, chart["x"], own[name]) for name in ("values", "low", "high") if name in own}
        else:
            columns = [between(steps, chart["x"], own["values"]) for chart, own in runs]
            line |= {name: each_step(columns, how) for name, how in (("values", fmean), ("low", min), ("high", max))}
        lines.append(line)
    notes = {chart["note"] for _, _, runs in groups for chart, _ in runs if "note" in chart}
    note = " ".join(sorted(notes)) if all(len(runs) == 1 for _, _, runs in groups) else ""
    smooth = first.get("smooth", True)
    return {"title": title, "note": note, "x": steps, "series": lines, "page": "", "smooth": smooth}


def over(steps: Sequence[int], x: Sequence[int], values: Sequence[float | None]) -> list[float | None]:
    """Values at the steps of a chart that holds more of them."""
    by_step = dict(zip(x, values, strict=True))
    return [by_step.get(step) for step in steps]


def between(steps: Sequence[int], x: Sequence[int], values: Sequence[float | None]) -> list[float | None]:
    """Values at other steps than those that were measured: on the line between two neighbours, None outside."""
    points = [(step, value) for step, value in zip(x, values, strict=True) if value is not None]
    known_steps = [step for step, _ in points]
    result: list[float | None] = []
    for step in steps:
        at = bisect_left(known_steps, step)
        if at < len(points) and known_steps[at] == step:
            result.append(points[at][1])
        elif 0 < at < len(points):
            (left, low), (right, high) = points[at - 1], points[at]
            result.append(low + (high - low) * (step - left) / (right - left))
        else:
            result.append(None)
    return result


def each_step(columns: Sequence[list[float | None]], how: Callable[[list[float]], float]) -> list[float | None]:
    """A statistic over the runs that have a value at a step."""
    rows = ([value for value in row if value is not None] for row in zip(*columns, strict=True))
    return [how(row) if row else None for row in rows]
