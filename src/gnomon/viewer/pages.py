"""The templates, with every text escaped for HTML and for the eye."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from gnomon.store.codec import text_of
from gnomon.terminal import printable
from gnomon.types import Status

__all__ = ["TEMPLATES", "page_of"]


def visible(value: Any) -> Any:
    """Text with every sign escaped that a reader would not see, such as a change of the writing direction.

    What is not known is a dash.
    """
    return printable(value) if type(value) is str else "–" if value is None else value


def number(value: Any) -> str:
    """Four digits of a number; what a recipe has instead of one as it is."""
    return "–" if value is None else f"{value:.4g}" if isinstance(value, int | float) else printable(str(value))


def rate(value: float) -> str:
    return f"{value:.3f}"


def day(at: float | None) -> str:
    """A moment as a date and a time of day, where this machine is."""
    return "–" if at is None else datetime.fromtimestamp(at).strftime("%Y-%m-%d %H:%M")


def count_text(count: int, noun: str) -> str:
    """`1 step`, `2 steps`."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def right(rollouts: Sequence[Mapping[str, Any]]) -> str:
    """How many rollouts of a group are right, of those that have a verdict."""
    scored = [row for row in rollouts if row["status"] != Status.UNJUDGED]
    return (
        f"{sum(row['status'] == Status.CORRECT for row in scored)} of {len(scored)} right" if scored else "not judged"
    )


def page_of(kind: str) -> str:
    """The part of an address that names the steps of rollouts of a kind: `step`, `held-out` or `held-out.SET`."""
    return "step" if kind == "rollout" else kind.replace("_", "-", 1)


def task_page_of(kind: str) -> str:
    """As `page_of`, of tasks: `task`, `held-out-task` or `held-out-task.SET`."""
    return "task" if kind == "rollout" else kind.replace("held_out", "held-out-task", 1)


def prefix_of(kind: str) -> str:
    """The beginning of the address of a rollout of a kind: empty, `held-out:` or `held-out.SET:`."""
    return "" if kind == "rollout" else f"{page_of(kind)}:"


TEMPLATES = Environment(
    loader=PackageLoader("gnomon.viewer"), autoescape=True, undefined=StrictUndefined, finalize=visible
)
TEMPLATES.filters |= {"number": number, "rate": rate, "counted": count_text, "right": right, "day": day}
TEMPLATES.filters |= {"page_of": page_of, "task_page_of": task_page_of, "prefix_of": prefix_of, "text_of": text_of}
