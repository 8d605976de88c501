"""The pages of the viewer and the data that their scripts request. They write nothing but notes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, urlencode

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from gnomon.errors import GnomonError
from gnomon.store import RunReader
from gnomon.store.layout import IMAGES
from gnomon.store.notes import Note, write_note
from gnomon.viewer.compare import Comparisons
from gnomon.viewer.curves import task_charts
from gnomon.viewer.environment import environment_facts, environment_rows
from gnomon.viewer.facts import overview, step_facts, task_facts
from gnomon.viewer.group import group_facts
from gnomon.viewer.objective import objective_card, objective_chart, objective_rows
from gnomon.viewer.pages import TEMPLATES
from gnomon.viewer.refusals import missing, refusal_page
from gnomon.viewer.requests import NotShown, address_of, held_out, known_objective, rollout_filter, whole
from gnomon.viewer.rollout import rollout_facts
from gnomon.viewer.runs import Runs
from gnomon.viewer.search import Query, search, values_seen
from gnomon.viewer.tasks import tasks_through

__all__ = ["application"]

HASH = re.compile("[0-9a-f]{64}")
WAIT = 1.0
"""Seconds that a page waits for the side index; after them it shows what is in the index so far."""
LONGEST = 100_000
"""Bytes of a note that is sent."""


def application(places: Sequence[Path]) -> Starlette:
    """The pages over the runs in some folders. Args: places: run folders, and folders that hold run folders."""
    runs = Runs(places)
    pages, several = Pages(runs), Comparisons(runs)
    routes = [
        Route("/", pages.runs),
        Route("/objectives", pages.objectives),
        Route("/objective/{objective}", pages.objective),
        Route("/objective/{objective}/curve", pages.objective_curve),
        Route("/environments", pages.environments),
        Route("/environment/{environment:path}", pages.environment),
        Route("/overlay", several.overlay),
        Route("/overlay/curves", several.overlaid_curves),
        Route("/compare", several.compare),
        Route("/compare/curves", several.compared_curves),
        Route("/compare/task", several.compared_task),
        Route("/run/{name:path}/-/curves", pages.curves),
        Route("/run/{name:path}/-/state", pages.state),
        Route("/run/{name:path}/-/search", pages.search),
        Route("/run/{name:path}/-/audit", pages.audit),
        Route("/run/{name:path}/-/doctor", pages.doctor),
        Route("/run/{name:path}/-/note", pages.note, methods=["POST"]),
        Route("/run/{name:path}/-/tasks", pages.tasks),
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
        Route("/run/{name:path}/-/image/{image}", pages.image),
        Route("/run/{name:path}/-/", pages.run),
        Mount("/static", StaticFiles(packages=[("gnomon.viewer", "static")])),
    ]
    return Starlette(
        routes=routes, exception_handlers={GnomonError: refusal_page, NotShown: refusal_page, 404: missing}
    )


class Pages:
    """A page per method: about all runs, or about one."""

    def __init__(self, runs: Runs) -> None:
        self.all = runs

    def folder(self, request: Request) -> Path:
        """The folder of the run that a request names. Raises: NotShown."""
        return self.all.folder(request.path_params["name"])

    def page(self, template: str, request: Request, **facts: Any) -> HTMLResponse:
        return HTMLResponse(TEMPLATES.get_template(template).render(name=request.path_params.get("name", ""), **facts))

    def runs(self, request: Request) -> Response:
        return self.page("runs.html", request, rows=self.all.rows(), places=[str(root) for root in self.all.places])

    def run(self, request: Request) -> Response:
        folder = self.folder(request)
        with RunReader(folder) as reader, reader.snapshot():
            facts = overview(request.path_params["name"], reader, self.all.steps(folder, reader))
        return self.page("run.html", request, run=facts)

    def curves(self, request: Request) -> Response:
        return JSONResponse(self.all.charts(self.folder(request)))

    def state(self, request: Request) -> Response:
        with RunReader(self.folder(request)) as reader:
            return JSONResponse({"seq": reader.length, "status": reader.status.value})

    def doctor(self, request: Request) -> Response:
        return self.page("doctor.html", request, found=self.all.diagnosis(self.folder(request)))

    async def note(self, request: Request) -> Response:
        """Write the note that the page of a run sends, and show the page again."""
        folder = self.folder(request)
        body = b""
        async for piece in request.stream():
            body += piece
            if len(body) > LONGEST:
                return Response("The note is too long.", 413)
        fields = {name: values[0] for name, values in parse_qs(body.decode("utf-8", "replace")).items()}
        note = Note.of(fields.get("text", ""), fields.get("tags", "").split(","))
        try:
            await run_in_threadpool(write_note, folder, note)
        except OSError as error:
            raise NotShown(f"The note was not saved: {folder} cannot be written ({error.strerror}).") from None
        return RedirectResponse(f"/run/{quote(request.path_params['name'])}/-/", 303)

    def search(self, request: Request) -> Response:
        query, after = Query.of(request.query_params), whole(request, "after")
        index = self.all.index(self.folder(request))
        progress = index.follow(WAIT)
        with index.reading() as db, RunReader(index.folder) as reader, reader.snapshot():
            results = search(db, reader, query, -1 if after is None else after)
            values, status = values_seen(db), reader.status.value
        following = urlencode({**query.parameters, "after": results.after})
        context = {"progress": progress, "following": following, "live": status == "running"}
        return self.page("search.html", request, asked=query, found=results, values=values, **context)

    def tasks(self, request: Request) -> Response:
        with RunReader(self.folder(request)) as reader, reader.snapshot():
            facts = tasks_through(reader, whole(request, "from") or 0)
        return self.page("tasks.html", request, facts=facts)

    def step(self, request: Request) -> Response:
        return self.groups(request, "rollout")

    def held_out_step(self, request: Request) -> Response:
        return self.groups(request, held_out(request))

    def groups(self, request: Request, kind: str) -> Response:
        filtered, begin = rollout_filter(request), whole(request, "from") or 0
        facts = step_facts(self.folder(request), kind, request.path_params["step"], filtered, begin)
        parameters = {name: value for name, value in request.query_params.items() if name != "from"}
        return self.page("step.html", request, facts=facts, wanted=filtered, address=urlencode(parameters))

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
        address = replace(address_of(request), sample=None)
        with RunReader(self.folder(request)) as reader, reader.snapshot():
            facts = group_facts(reader, address, whole(request, "with"))
        return self.page("group.html", request, facts=facts, place=address)

    def rollout(self, request: Request) -> Response:
        address = address_of(request)
        if address.sample is None:
            raise NotShown(f"{str(address)!r} does not name a rollout.")
        parameters, begin = request.query_params, whole(request, "from") or 0
        rendered = parameters.get("as") == "markdown"
        with RunReader(self.folder(request)) as reader, reader.snapshot():
            facts = rollout_facts(reader, address, parameters.get("channel", ""), begin, rendered=rendered)
        return self.page("rollout.html", request, **facts)

    def image(self, request: Request) -> Response:
        """An image of a prompt, by the hash that is its name."""
        name = request.path_params["image"]
        files = self.folder(request).joinpath(IMAGES).glob(f"{name}.*") if HASH.fullmatch(name) else iter(())
        if (file := next(files, None)) is None:
            raise NotShown(f"The run has no image {name[:16]!r}.")
        return FileResponse(file, headers={"Cache-Control": "max-age=86400, immutable"})

    def objectives(self, request: Request) -> Response:
        return self.page("objectives.html", request, rows=objective_rows())

    def objective(self, request: Request) -> Response:
        return self.page("objective.html", request, card=objective_card(known_objective(request)))

    def objective_curve(self, request: Request) -> Response:
        return JSONResponse(objective_chart(known_objective(request)))

    def environments(self, request: Request) -> Response:
        return self.page("environments.html", request, rows=environment_rows(self.all.rows()))

    def environment(self, request: Request) -> Response:
        facts = environment_facts(request.path_params["environment"], self.all.rows(), self.all.folders)
        return self.page("environment.html", request, env=facts)

    def audit(self, request: Request) -> Response:
        with RunReader(self.folder(request)) as reader:
            receipt = reader.manifest.get("audit") or {}
        return self.page("audit.html", request, receipt=receipt)
