"""The pages and what their scripts ask for. Every page has an address of its own, and only reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from gnomon.errors import GnomonError
from gnomon.launch.read import Address, address, found_at, held, rollout
from gnomon.launch.runs import glance, run_folders
from gnomon.objectives.options import OPTIONS
from gnomon.store import Record, RunReader
from gnomon.store.layout import of_set
from gnomon.viewer.compare import SORTED, comparison, overlaid, task_of_both
from gnomon.viewer.facts import charts, group_rows, overview, step_facts, task_charts, task_facts
from gnomon.viewer.group import group_facts
from gnomon.viewer.history import History, Steps
from gnomon.viewer.index import Index
from gnomon.viewer.objective import objective_card, objective_chart, objective_rows
from gnomon.viewer.pages import TEMPLATES
from gnomon.viewer.search import Query, search, values_seen
from gnomon.viewer.tokens import CHANNELS, absent, legend, spans, tokenizer_of, turn_tokens

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
        Route("/objectives", pages.objectives),
        Route("/objective/{objective}", pages.objective),
        Route("/objective/{objective}/curve", pages.objective_curve),
        Route("/compare", pages.compare),
        Route("/compare/curves", pages.compared_curves),
        Route("/compare/task", pages.compared_task),
        Route("/run/{name:path}/-/curves", pages.curves),
        Route("/run/{name:path}/-/state", pages.state),
        Route("/run/{name:path}/-/search", pages.search),
        Route("/run/{name:path}/-/audit", pages.audit),
        Route("/run/{name:path}/-/step/{step:int}", pages.step),
        Route("/run/{name:path}/-/held-out/{step:int}", pages.held_out_step),
        Route("/run/{name:path}/-/held-out.{set}/{step:int}", pages.held_out_step),
        Route("/run/{name:path}/-/task/{task:int}/curves", pages.task_curves),
        Route("/run/{name:path}/-/held-out-task/{task:int}/curves", pages.held_out_task_curves),
        Route("/run/{name:path}/-/held-out-task.{set}/{task:int}/curves", pages.held_out_task_curves),
        Route("/run/{name:path}/-/task/{task:int}", pages.task),
        Route("/run/{name:path}/-/held-out-task/{task:int}", pages.held_out_task),
        Route("/run/{name:path}/-/held-out-task.{set}/{task:int}", pages.held_out_task),
        Route("/run/{name:path}/-/group/{address}", pages.group),
        Route("/run/{name:path}/-/rollout/{address}", pages.rollout),
        Route("/run/{name:path}/-/", pages.run),
        Mount("/static", StaticFiles(packages=[("gnomon.viewer", "static")])),
    ]
    return Starlette(routes=routes, exception_handlers={GnomonError: refused, NotShown: refused, 404: missing})


class NotShown(Exception):
    """Nothing is at an address. Its text is a sentence."""


class Pages:
    """A page per method."""

    def __init__(self, places: Sequence[Path]) -> None:
        self.places = list(places)
        self.folders = run_folders(self.places)
        self.indexes: dict[Path, Index] = {}
        self.histories: dict[Path, History] = {}

    def index(self, request: Request) -> Index:
        """The side index of the run that a request names. Raises: NotShown; RunError."""
        folder = self.folder(request)
        return self.indexes.setdefault(folder, self.indexes.get(folder) or Index(folder))

    def steps(self, folder: Path, reader: RunReader) -> Steps:
        """The finished steps of a run with their metrics."""
        return self.histories.setdefault(folder, History()).steps(reader)

    def charts(self, folder: Path) -> dict[str, Any]:
        """Every curve of a run."""
        with RunReader(folder) as reader, reader.snapshot():
            return charts(reader, self.steps(folder, reader))

    def folder(self, request: Request) -> Path:
        """The folder of the run that a request names. Raises: NotShown."""
        return self.folder_of(request.path_params["name"])

    def folder_of(self, name: str) -> Path:
        """Raises: NotShown."""
        if name not in self.folders:
            self.folders = run_folders(self.places)  # A run may have begun since.
        if name not in self.folders:
            raise NotShown(f"No run named {name!r} is shown here.")
        return self.folders[name]

    def page(self, template: str, request: Request, **facts: Any) -> HTMLResponse:
        name = request.path_params.get("name", "")
        return HTMLResponse(TEMPLATES.get_template(template).render(name=name, query=request.query_params, **facts))

    def runs(self, request: Request) -> Response:
        self.folders = run_folders(self.places)
        rows = [glance(name, folder) for name, folder in self.folders.items()]
        return self.page("runs.html", request, rows=rows, places=[str(place) for place in self.places])

    def run(self, request: Request) -> Response:
        folder = self.folder(request)
        with RunReader(folder) as reader, reader.snapshot():
            facts = overview(request.path_params["name"], reader, self.steps(folder, reader))
        return self.page("run.html", request, run=facts)

    def curves(self, request: Request) -> Response:
        return JSONResponse(self.charts(self.folder(request)))

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
        return self.groups(request, held_out(request))

    def groups(self, request: Request, kind: str) -> Response:
        status, text = request.query_params.get("status", ""), request.query_params.get("text", "")
        facts = step_facts(self.folder(request), kind, request.path_params["step"], status, text)
        return self.page("step.html", request, facts=facts, status=status, text=text)

    def task(self, request: Request) -> Response:
        return self.through(request, "rollout")

    def held_out_task(self, request: Request) -> Response:
        return self.through(request, held_out(request))

    def through(self, request: Request, kind: str) -> Response:
        facts = task_facts(self.folder(request), kind, request.path_params["task"], whole(request, "before"))
        return self.page("task.html", request, facts=facts)

    def task_curves(self, request: Request) -> Response:
        return JSONResponse(task_charts(self.folder(request), "rollout", request.path_params["task"]))

    def held_out_task_curves(self, request: Request) -> Response:
        return JSONResponse(task_charts(self.folder(request), held_out(request), request.path_params["task"]))

    def group(self, request: Request) -> Response:
        place = replace(placed(request), sample=None)
        with RunReader(self.folder(request)) as reader, reader.snapshot():
            facts = group_facts(reader, place, whole(request, "with"))
        return self.page("group.html", request, facts=facts, place=place)

    def objectives(self, request: Request) -> Response:
        return self.page("objectives.html", request, rows=objective_rows())

    def objective(self, request: Request) -> Response:
        return self.page("objective.html", request, card=objective_card(known_objective(request)))

    def objective_curve(self, request: Request) -> Response:
        return JSONResponse(objective_chart(known_objective(request)))

    def audit(self, request: Request) -> Response:
        with RunReader(self.folder(request)) as reader:
            receipt = reader.manifest.get("audit") or {}
        return self.page("audit.html", request, receipt=receipt)

    def compare(self, request: Request) -> Response:
        asked, begin = request.query_params, whole(request, "from") or 0
        a, b = asked.get("a", ""), asked.get("b", "")
        order = asked.get("sort") if asked.get("sort") in SORTED else "apart"
        facts: dict[str, Any] = {}
        if a and b:
            with RunReader(self.folder_of(a)) as one, RunReader(self.folder_of(b)) as two:
                facts = comparison(one, two, evaluations(request), order or "apart")
        self.folders = run_folders(self.places)
        known = {"names": list(self.folders), "address": urlencode(compared(request)), "order": order, "begin": begin}
        return self.page("compare.html", request, a=a, b=b, facts=facts, **known)

    def compared_curves(self, request: Request) -> Response:
        a, b = (request.query_params.get(name, "") for name in "ab")
        return JSONResponse(overlaid(self.charts(self.folder_of(a)), self.charts(self.folder_of(b)), ("A", "B")))

    def compared_task(self, request: Request) -> Response:
        a, b = (request.query_params.get(name, "") for name in "ab")
        with RunReader(self.folder_of(a)) as one, RunReader(self.folder_of(b)) as two:
            facts = task_of_both(one, two, evaluations(request), whole(request, "task"))
        if facts is None:
            raise NotShown("The two evaluations do not share this task.")
        return self.page("compared_task.html", request, facts=facts, names=(a, b), address=urlencode(compared(request)))

    def rollout(self, request: Request) -> Response:
        place = placed(request)
        if place.sample is None:
            raise NotShown(f"{str(place)!r} names no rollout.")
        channel = request.query_params.get("channel", "")
        channel = channel if channel in CHANNELS else next(iter(CHANNELS))
        with RunReader(self.folder(request)) as reader, reader.snapshot():
            place = found_at(reader, place)
            facts = rollout(reader, place)
            group = list(held(reader, place))
            tier, tokenizer = str(reader.manifest.get("tier", "")), tokenizer_of(reader)
        asked = Record(kind="task", step=place.step, task=place.task, body=facts["asked"])
        record = next(record for record in group if record.sample == place.sample)
        tokens = turn_tokens(asked, record, tokenizer, tier)
        turns = facts.get("turns") or [{"messages": facts["asked"]["messages"], **facts}]
        rows = group_rows(group)
        samples = [row["sample"] for row in rows]
        at = samples.index(place.sample) if place.sample in samples else 0
        return self.page(
            "rollout.html",
            request,
            facts=facts,
            place=place,
            turns=[
                {**turn, "spans": spans(shown, channel), "count": len(shown)}
                for turn, shown in zip(turns, tokens or [[]], strict=True)
            ],
            channels=CHANNELS,
            channel=channel,
            following=after(channel),
            legend=legend(channel),
            note=absent(record.body, channel, tier, place.kind != "rollout"),
            group=rows,
            previous=neighbour(place, samples, at - 1),
            next=neighbour(place, samples, at + 1),
            begin=whole(request, "from") or 0,
            piece=PIECE,
        )


def after(channel: str) -> str:
    """The channel that follows another one."""
    names = [*CHANNELS]
    return names[(names.index(channel) + 1) % len(names)]


def neighbour(place: Address, samples: Sequence[int], at: int) -> str:
    """The address of another rollout of the group; empty where the group has none there."""
    if not 0 <= at < len(samples):
        return ""
    return str(Address(place.kind, place.step, place.task, samples[at], place.attempt))


def held_out(request: Request) -> str:
    """The kind of the held-out rollouts in a request: of the main evaluation, or of the set that it names."""
    return of_set("held_out", request.path_params.get("set", ""))


def placed(request: Request) -> Address:
    """The address of one task at one step in a request. Raises: NotShown; ConfigError E004."""
    text = request.path_params["address"]
    place = address(text)
    if place.step is None or place.task is None:
        raise NotShown(f"{text!r} names no task at a step.")
    return place


def known_objective(request: Request) -> str:
    """The name of the objective in a request. Raises: NotShown."""
    name = str(request.path_params["objective"])
    if name not in OPTIONS:
        raise NotShown(f"No objective is named {name!r}.")
    return name


def compared(request: Request) -> dict[str, str]:
    """What names the two runs and their evaluations in an address."""
    names = ("a", "a_step", "b", "b_step")
    return {name: request.query_params[name] for name in names if name in request.query_params}


def evaluations(request: Request) -> tuple[int | None, int | None]:
    """The steps of the evaluations that a request compares; None for the last one of a run."""
    return whole(request, "a_step"), whole(request, "b_step")


def whole(request: Request, name: str) -> int | None:
    """A whole number of the address's query; None where there is none."""
    text = request.query_params.get(name, "")
    return int(text) if text.isascii() and text.isdecimal() else None


async def refused(request: Request, error: Exception) -> Response:
    """A run that cannot be read, or an address without a rollout."""
    text = TEMPLATES.get_template("error.html").render(name="", text=str(error))
    return HTMLResponse(text, 404)


async def missing(request: Request, error: Exception) -> Response:
    """An address that no page has."""
    return await refused(request, NotShown(f"No page has the address {request.url.path}."))
