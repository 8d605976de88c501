"""The pages that compare runs: two paired by task, or any number in the same charts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response

from gnomon.reading.folders import glance
from gnomon.store import RunReader
from gnomon.viewer.compare import SORTED, comparison, task_of_both
from gnomon.viewer.curves import grouped, overlaid
from gnomon.viewer.pages import TEMPLATES
from gnomon.viewer.requests import NotShown, compared, evaluations, whole
from gnomon.viewer.runs import Runs

__all__ = ["Comparisons"]

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
        parameters, begin = compared(request), whole(request, "from") or 0
        selected = request.query_params.getlist("run")[:2]
        if len(selected) == 2 and not request.query_params.keys() & {"a", "b"}:  # The list begins with the last run.
            parameters |= zip("ab", sorted(selected, key=self.runs.recorded), strict=True)
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
        a, b = (self.runs.folder(compared(request).get(name, "")) for name in "ab")
        return JSONResponse(overlaid([("A", self.runs.charts(a)), ("B", self.runs.charts(b))]))

    def compared_task(self, request: Request) -> Response:
        parameters = compared(request)
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
        return JSONResponse(grouped(by_group))

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
