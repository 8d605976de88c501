"""What the path and the query of a request name: rollouts, evaluations, runs, numbers."""

from __future__ import annotations

import difflib
from urllib.parse import quote

from starlette.requests import Request

from gnomon.objectives.options import OPTIONS
from gnomon.reading.address import Address, parse_address
from gnomon.store.layout import of_set
from gnomon.viewer.facts import RolloutFilter
from gnomon.viewer.pages import page_of, task_page_of
from gnomon.viewer.search import real

__all__ = [
    "NoRun",
    "NotShown",
    "address_of",
    "address_page",
    "compared_runs",
    "evaluations",
    "held_out",
    "known_objective",
    "rollout_filter",
    "whole",
]


class NotShown(Exception):
    """An address has nothing to show. The text is a sentence.

    Args: near: pages that may have been meant: label and address.
    """

    def __init__(self, text: str, near: dict[str, str] | None = None) -> None:
        super().__init__(text)
        self.near = near or {}


class NoRun(NotShown):
    """No run has the name in an address."""


def held_out(request: Request) -> str:
    """The kind of the held-out rollouts in a request: of the main evaluation, or of the set that it names."""
    return of_set("held_out", request.path_params.get("set", ""))


def address_of(request: Request) -> Address:
    """The address of one task at one step in a request. Raises: NotShown; ConfigError E004."""
    text = request.path_params["address"]
    address = parse_address(text)
    if address.step is None or address.task is None:
        raise NotShown(f"{text!r} does not name a task at a step.")
    return address


def address_page(name: str, address: Address) -> str:
    """The page of a run that shows an address."""
    if address.step is None:
        path = f"{task_page_of(address.kind)}/{address.task}"
    elif address.task is None:
        path = f"{page_of(address.kind)}/{address.step}"
    else:
        path = f"{'group' if address.sample is None else 'rollout'}/{address}"
    return f"/run/{quote(name)}/-/{quote(path)}"


def known_objective(request: Request) -> str:
    """The name of the objective in a request. Raises: NotShown."""
    name = str(request.path_params["objective"])
    if name not in OPTIONS:
        near = {each: f"/objective/{each}" for each in difflib.get_close_matches(name, OPTIONS, 5)}
        raise NotShown(f"No objective is named {name!r}.", near)
    return name


def compared_runs(request: Request) -> dict[str, str]:
    """The parameters that name two runs and their evaluations: `a` and `b`, or `run` twice."""
    parameters = request.query_params
    names = ("a", "a_step", "b", "b_step")
    runs = dict(zip("ab", parameters.getlist("run"), strict=False))
    return runs | {name: parameters[name] for name in names if name in parameters}


def evaluations(request: Request) -> tuple[int | None, int | None]:
    """The steps of the evaluations that a request compares; None for the last one of a run."""
    return whole(request, "a_step"), whole(request, "b_step")


def rollout_filter(request: Request) -> RolloutFilter:
    """Which rollouts of a step a request filters."""
    parameters = request.query_params
    limits = {name: real(parameters.get(name, "")) for name in ("low", "high")}
    return RolloutFilter(status=parameters.get("status", ""), text=parameters.get("text", ""), **limits)


def whole(request: Request, name: str) -> int | None:
    """A whole number of the address's query; None where there is none."""
    text = request.query_params.get(name, "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 16 else None
