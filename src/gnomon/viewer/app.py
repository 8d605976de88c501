"""The pages and what their scripts ask for. Every page has an address of its own, and only reads."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from gnomon.errors import GnomonError
from gnomon.launch.read import Address, address, rollout
from gnomon.store import RunReader
from gnomon.viewer.facts import charts, glance, group_rows, overview, step_facts, task_charts, task_facts
from gnomon.viewer.folders import run_folders
from gnomon.viewer.index import Index
from gnomon.viewer.pages import TEMPLATES
from gnomon.viewer.search import Query, search, values_seen
from gnomon.viewer.tokens import SHADES, tokenizer_of, turn_tokens

__all__ = ["application"]

PIECE = 50_000
"""Characters of a text that one page shows; the rest is a link away."""
WAIT = 1.0
"""Seconds that a page waits for the side index; after them it shows what is in the index so far."""


def application(places: Sequence[Path]) -> Starlette:
    """The pages over the runs in some folders. Args: places: run folders, and folders that hold run folders."""
    pages = Pages(places)
    routes = [
        Route("/", pages.runs),
        Route("/run/{name:path}/-/curves", pages.curves),
        Route("/run/{name:path}/-/state", pages.state),
        Route("/run/{name:path}/-/search", pages.search),
        Route("/run/{name:path}/-/step/{step:int}", pages.step),
        Route("/run/{name:path}/-/held-out/{step:int}", pages.held_out_step),
        Route("/run/{name:path}/-/task/{task:int}/curves", pages.task_curves),
        Route("/run/{name:path}/-/held-out-task/{task:int}/curves", pages.held_out_task_curves),
        Route("/run/{name:path}/-/task/{task:int}", pages.task),
        Route("/run/{name:path}/-/held-out-task/{task:int}", pages.held_out_task),
        Route("/run/{name:path}/-/rollout/{address}", pages.rollout),
        Route("/run/{name:path}/-/", pages.run),
        Mount("/static", StaticFiles(packages=[("gnomon.viewer", "static")])),
    ]
    return Starlette(routes=routes, exception_handlers={GnomonError: refused, NotShown: absent})


class NotShown(Exception):
    """No run of this name is among those shown."""


class Pages:
    """A page per method."""

    def __init__(self, places: Sequence[Path]) -> None:
        self.places = list(places)
        self.folders = run_folders(self.places)
        self.indexes: dict[Path, Index] = {}

    def index(self, request: Request) -> Index:
        """The side index of the run that a request names. Raises: NotShown; RunError."""
        folder = self.folder(request)
        return self.indexes.setdefault(folder, self.indexes.get(folder) or Index(folder))

    def folder(self, request: Request) -> Path:
        """The folder of the run that a request names. Raises: NotShown."""
        name = request.path_params["name"]
        if name not in self.folders:
            self.folders = run_folders(self.places)  # A run may have begun since.
        if name not in self.folders:
            raise NotShown(name)
        return self.folders[name]

    def page(self, template: str, request: Request, **facts: Any) -> HTMLResponse:
        name = request.path_params.get("name", "")
        return HTMLResponse(TEMPLATES.get_template(template).render(name=name, query=request.query_params, **facts))

    def runs(self, request: Request) -> Response:
        self.folders = run_folders(self.places)
        rows = [glance(name, folder) for name, folder in self.folders.items()]
        return self.page("runs.html", request, rows=rows, places=[str(place) for place in self.places])

    def run(self, request: Request) -> Response:
        return self.page("run.html", request, run=overview(request.path_params["name"], self.folder(request)))

    def curves(self, request: Request) -> Response:
        return JSONResponse(charts(self.folder(request)))

    def state(self, request: Request) -> Response:
        with RunReader(self.folder(request)) as reader:
            return JSONResponse({"seq": reader.length, "status": reader.status.value})

    def search(self, request: Request) -> Response:
        query, after = Query.of(request.query_params), whole(request, "after")
        index = self.index(request)
        progress = index.follow(WAIT)
        with index.reading() as db, RunReader(index.folder) as reader, reader.snapshot():
            found = search(db, reader, query, -1 if after is None else after)
            values = values_seen(db)
        following = urlencode({**query.parameters, "after": found.after})
        return self.page(
            "search.html", request, asked=query, found=found, values=values, progress=progress, following=following
        )

    def step(self, request: Request) -> Response:
        return self.groups(request, "rollout")

    def held_out_step(self, request: Request) -> Response:
        return self.groups(request, "held_out")

    def groups(self, request: Request, kind: str) -> Response:
        status, text = request.query_params.get("status", ""), request.query_params.get("text", "")
        facts = step_facts(self.folder(request), kind, request.path_params["step"], status, text)
        return self.page("step.html", request, facts=facts, status=status, text=text)

    def task(self, request: Request) -> Response:
        return self.through(request, "rollout")

    def held_out_task(self, request: Request) -> Response:
        return self.through(request, "held_out")

    def through(self, request: Request, kind: str) -> Response:
        facts = task_facts(self.folder(request), kind, request.path_params["task"], whole(request, "before"))
        return self.page("task.html", request, facts=facts)

    def task_curves(self, request: Request) -> Response:
        return JSONResponse(task_charts(self.folder(request), "rollout", request.path_params["task"]))

    def held_out_task_curves(self, request: Request) -> Response:
        return JSONResponse(task_charts(self.folder(request), "held_out", request.path_params["task"]))

    def rollout(self, request: Request) -> Response:
        place = address(request.path_params["address"])
        with RunReader(self.folder(request)) as reader, reader.snapshot():
            facts = rollout(reader, place)
            group = [r for r in reader.records(place.kind, place.step, place.task, attempt=place.attempt)]
            tokens = turn_tokens(facts, tokenizer_of(reader.recipe))
        turns = facts.get("turns") or [{"messages": facts["asked"]["messages"], **facts}]
        rows = group_rows(group)
        samples = [row["sample"] for row in rows]
        at = samples.index(place.sample) if place.sample in samples else 0
        return self.page(
            "rollout.html",
            request,
            facts=facts,
            place=place,
            turns=[{**turn, "spelled": spelled} for turn, spelled in zip(turns, tokens, strict=False)],
            group=rows,
            previous=neighbour(place, samples, at - 1),
            next=neighbour(place, samples, at + 1),
            begin=whole(request, "from") or 0,
            piece=PIECE,
            shades=range(SHADES),
        )


def neighbour(place: Address, samples: Sequence[int], at: int) -> str:
    """The address of another rollout of the group; empty where the group has none there."""
    if not 0 <= at < len(samples):
        return ""
    return str(Address(place.kind, place.step, place.task, samples[at], place.attempt))


def whole(request: Request, name: str) -> int | None:
    """A whole number of the address's query; None where there is none."""
    text = request.query_params.get(name, "")
    return int(text) if text.isascii() and text.isdecimal() else None


async def refused(request: Request, error: Exception) -> Response:
    """A run that cannot be read, or an address without a rollout."""
    text = TEMPLATES.get_template("error.html").render(name="", text=str(error))
    return HTMLResponse(text, 404)


async def absent(request: Request, error: Exception) -> Response:
    text = TEMPLATES.get_template("error.html").render(name="", text=f"No run named {str(error)!r} is shown here.")
    return HTMLResponse(text, 404)
