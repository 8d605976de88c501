"""The templates, with every text escaped for HTML and for the eye."""

from __future__ import annotations

from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from gnomon.terminal import printable

__all__ = ["TEMPLATES"]


def visible(value: Any) -> Any:
    """Text with every sign escaped that a reader would not see, such as a change of the writing direction."""
    return printable(value) if type(value) is str else value


def number(value: float | None) -> str:
    return "–" if value is None else f"{value:.4g}"


TEMPLATES = Environment(
    loader=PackageLoader("gnomon.viewer"), autoescape=True, undefined=StrictUndefined, finalize=visible
)
TEMPLATES.filters["number"] = number
