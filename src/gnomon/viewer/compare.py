"""The pages that compare runs: two paired by held-out task, or any number in the same charts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response

from gnomon.reading.address import Address
from gnomon.reading.folders import glance
from gnomon.reading.rollouts import question
from gnomon.stats import Interval, difference_interval
from gnomon.store import RunReader
from gnomon.store.compare import unequal
from gnomon.types import Status
from gnomon.viewer.curves import group_charts, overlaid
from gnomon.viewer.facts import MEASURED
from gnomon.viewer.group import columns
from gnomon.viewer.pages import TEMPLATES
from gnomon.viewer.requests import NotShown, compared_runs, evaluations, whole
from gnomon.viewer.runs import Runs

__all__ = ["SORTED", "Comparisons", "comparison", "task_of_both"]

EXCERPT = 120
"""Characters of a question that the table shows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One held-out task in one run: the rollouts of an evaluation."""

    task: int
    """Index in the run."""
    question: str
    rewards: Sequence[float]
    correct: Sequence[bool]
    """Of the rollouts that have a verdict."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """The same held-out task in both runs."""

    id: str
    a: Measured
    b: Measured

    @property
    def reward(self) -> float:
        """Mean reward in `b` less that in `a`."""
        return fmean(self.b.rewards) - fmean(self.a.rewards)

    @property
    def correct(self) -> float | None:
        """Fraction of right rollouts in `b` less that in `a`; None where one has no verdicts."""
        return fmean(self.b.correct) - fmean(self.a.correct) if self.a.correct and self.b.correct else None


SORTED = {
    "apart": lambda pair: (-abs(pair.reward), pair.a.task),
    "a": lambda pair: (pair.reward, pair.a.task),
    "b": lambda pair: (-pair.reward, pair.a.task),
    "task": lambda pair: (pair.a.task,),
}
"""Orders of the table: the largest differences first, those in favour of either run, or by index."""


def comparison(a: RunReader, b: RunReader, steps: tuple[int | None, int | None], order: str) -> dict[str, Any]:
    """What the page of two runs shows, apart from curves.

    Args: steps: of the evaluations to compare; None for the last one of a run; order: of `SORTED`.
    """
    evaluations = [reader.steps_with(MEASURED) for reader in (a, b)]
    at = [max(every, default=None) if step is None else step for every, step in zip(evaluations, steps, strict=True)]
    tasks_a, tasks_b = measured_tasks(a, at[0]), measured_tasks(b, at[1])
    pairs = [Pair(id=name, a=tasks_a[name], b=tasks_b[name]) for name in tasks_a if name in tasks_b]
    return {
        "steps": at,
        "evaluations": evaluations,
        "only": (len(tasks_a) - len(pairs), len(tasks_b) - len(pairs)),
        "pairs": sorted(pairs, key=SORTED[order]),
        "reward": interval([pair.reward for pair in pairs]),
        "correct": interval([pair.correct for pair in pairs if pair.correct is not None]),
        "better": (sum(pair.reward < 0 for pair in pairs), sum(pair.reward > 0 for pair in pairs)),
        "settings": unequal(a.genesis, b.genesis),
    }


def interval(differences: Sequence[float]) -> Interval | None:
    """Mean difference over tasks; None without a task that both runs have."""
    return difference_interval(differences) if differences else None


def measured_tasks(reader: RunReader, step: int | None) -> dict[str, Measured]:
    """The held-out tasks of an evaluation by id. A task that stands several times in the split counts once."""
    if step is None:
        return {}
    tasks = {record.task: record.body for record in reader.records("task", step) if record.body["of"] == "held_out"}
    rows: dict[str, list[Any]] = {}
    for row in reader.rollout_rows(step=step, kind="held_out"):
        if row.status != "failed":
            rows.setdefault(tasks[row.task]["id"], []).append(row)
    return {
        name: Measured(
            task=rollouts[0].task,
            question=question(tasks[rollouts[0].task])[:EXCERPT],
            rewards=[row.reward or 0.0 for row in rollouts],
            correct=[row.status == Status.CORRECT for row in rollouts if row.status != Status.UNJUDGED],
        )
        for name, rollouts in rows.items()
    }


def task_of_both(
    a: RunReader, b: RunReader, steps: tuple[int | None, int | None], task: int | None
) -> dict[str, Any] | None:
    """The rollouts of one held-out task in both runs, compared with the first one of `a`. None where one has none.

    Args: task: its index in `a`.
    """
    pairs = comparison(a, b, steps, "task")
    pair = next((pair for pair in pairs["pairs"] if pair.a.task == task), None)
    if pair is None:
        return None
    at = zip(pairs["steps"], (pair.a, pair.b), strict=True)
    addresses = [Address("held_out", step, side.task) for step, side in at]
    records = [list(reader.records("held_out", p.step, p.task)) for reader, p in zip((a, b), addresses, strict=True)]
    task_body = next(
        record.body
        for record in a.records("task", addresses[0].step, addresses[0].task)
        if record.body["of"] == "held_out"
    )
    base = records[0][0]
    return {
        "asked": task_body,
        "runs": [(address, columns(rows, base, task_body)) for address, rows in zip(addresses, records, strict=True)],
    }


GROUPS = {
    "": "each run",
    "objective": "objective",
    "policy": "model",
    "env": "environment",
    "lr": "learning rate",
    "tags": "tags",
}
"""What runs can be grouped by: a fact of `glance`, and its name on the page."""
MOST = 64
"""Runs in one chart."""


class Comparisons:
    """A page per method."""

    def __init__(self, runs: Runs) -> None:
        self.runs = runs

    def compare(self, request: Request) -> Response:
        parameters, begin = compared_runs(request), whole(request, "from") or 0
        selected = request.query_params.getlist("run")[:2]
        if len(selected) == 2 and not request.query_params.keys() & {"a", "b"}:  # The list begins with the last run.
            parameters |= zip("ab", sorted(selected, key=self.runs.last_record), strict=True)
        a, b = parameters.get("a", ""), parameters.get("b", "")
        order = request.query_params.get("sort", "")
        order = order if order in SORTED else "apart"
        facts: dict[str, Any] = {}
        if a and b:
            with RunReader(self.runs.folder(a)) as one, RunReader(self.runs.folder(b)) as two:
                facts = comparison(one, two, evaluations(request), order)
        context = {"names": list(self.runs.again()), "address": urlencode(parameters), "order": order, "begin": begin}
        return page("compare.html", a=a, b=b, facts=facts, **context)

    def compared_curves(self, request: Request) -> Response:
        a, b = (self.runs.folder(compared_runs(request).get(name, "")) for name in "ab")
        return JSONResponse(overlaid([("A", self.runs.charts(a)), ("B", self.runs.charts(b))]))

    def compared_task(self, request: Request) -> Response:
        parameters = compared_runs(request)
        names = parameters.get("a", ""), parameters.get("b", "")
        a, b = map(self.runs.folder, names)
        with RunReader(a) as one, RunReader(b) as two:
            facts = task_of_both(one, two, evaluations(request), whole(request, "task"))
        if facts is None:
            raise NotShown("The two evaluations do not share this task.")
        return page("compared_task.html", facts=facts, names=names, address=urlencode(parameters))

    def overlay(self, request: Request) -> Response:
        selected, by = self.selection(request)
        address = urlencode([("run", name) for name in selected] + [("by", by)])
        rows = [{**row, "groups": list(groups(row, by))} for row in selected.values()]
        places = {name: i for i, name in enumerate(dict.fromkeys(g for row in rows for g in row["groups"]))}
        left_out = max(0, len(set(request.query_params.getlist("run"))) - MOST)
        return page("overlay.html", left_out=left_out, rows=rows, places=places, by=by, groups=GROUPS, address=address)

    def overlaid_curves(self, request: Request) -> Response:
        selected, by = self.selection(request)
        charts = {name: self.runs.charts(self.runs.folder(name)) for name in selected}
        if not by:
            return JSONResponse(overlaid(list(charts.items())))
        by_group: dict[str, list[Mapping[str, Any]]] = {}
        for name, row in selected.items():
            for group in groups(row, by):
                by_group.setdefault(group, []).append(charts[name])
        return JSONResponse(group_charts(by_group))

    def selection(self, request: Request) -> tuple[dict[str, dict[str, Any]], str]:
        """The runs in an address that can be read, and what they are grouped by."""
        names = list(dict.fromkeys(request.query_params.getlist("run")))[:MOST]
        rows = [glance(name, self.runs.folder(name)) for name in names]
        by = request.query_params.get("by", "")
        return {row["name"]: row for row in rows if "error" not in row}, by if by in GROUPS else ""


def groups(row: Mapping[str, Any], by: str) -> Iterator[str]:
    """The groups of a run: its own name, a setting, or each of its tags."""
    if by == "tags":
        yield from row["tags"] or ["no tag"]
    else:
        value = row[by or "name"]
        yield str(value) if value not in ("", None) else f"no {GROUPS[by]}"


def page(template: str, **facts: Any) -> HTMLResponse:
    return HTMLResponse(TEMPLATES.get_template(template).render(name="", **facts))
