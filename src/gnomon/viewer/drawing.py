"""A curve as inline SVG, for a page that must hold everything itself."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from itertools import groupby
from typing import Any

from markupsafe import Markup

__all__ = ["drawn"]

WIDTH, HEIGHT, LEFT, BOTTOM = 420.0, 190.0, 62.0, 26.0
COLOURS = ("#0969da", "#bc4c00", "#1a7f37", "#8250df", "#cf222e", "#9a6700", "#0e7490", "#57606a")


def drawn(chart: dict[str, Any]) -> Markup:
    """One chart of `facts.charts`: a line per series, with axes and a legend. A series of nothing is left out."""
    lines = [line for line in chart["series"] if any(value is not None for value in line["values"])]
    values = [value for line in lines for value in line["values"] if value is not None]
    if not values:
        return Markup("")
    low, high = min(values), max(values)
    high = high if high > low else low + 1.0
    first, last = chart["x"][0], max(chart["x"][-1], chart["x"][0] + 1)

    def at(x: float, y: float) -> tuple[float, float]:
        across = LEFT + (x - first) / (last - first) * (WIDTH - LEFT - 8)
        return across, 8 + (high - y) / (high - low) * (HEIGHT - BOTTOM - 8)

    parts = [axes(low, high, first, last, at)]
    for number, line in enumerate(lines):
        parts.append(path(chart["x"], line["values"], at, colour(number, line), dashed="beside" in line))
    legend = "".join(
        f'<tspan fill="{colour(number, line)}" dx="8">{escape(line["label"])}</tspan>'
        for number, line in enumerate(lines)
    )
    parts.append(f'<text x="{LEFT}" y="{HEIGHT + 14}">{legend}</text>')
    title = escape(f"{chart['title']}: from {values[0]:.4g} to {values[-1]:.4g}")
    box = f'viewBox="0 0 {WIDTH:g} {HEIGHT + 20:g}" role="img" aria-label="{title}"'
    return Markup(f"<svg {box}>{''.join(parts)}</svg>")


def axes(low: float, high: float, first: float, last: float, at: Any) -> str:
    """Horizontal lines at the least, the middle and the largest value, and the first and last step."""
    found = []
    for value in (low, (low + high) / 2, high):
        _, y = at(first, value)
        found.append(f'<line x1="{LEFT}" x2="{WIDTH - 8}" y1="{y:.1f}" y2="{y:.1f}" stroke="#8885"/>')
        found.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{value:.3g}</text>')
    for step, anchor in ((first, "start"), (last, "end")):
        x, _ = at(step, low)
        found.append(f'<text x="{x:.1f}" y="{HEIGHT - 6}" text-anchor="{anchor}">step {step:g}</text>')
    return "".join(found)


def colour(number: int, line: dict[str, Any]) -> str:
    """Of a series by its place; an interval has the colour of what it belongs to, the first series."""
    place = {"interval": 0, "baseline": -1}.get(line.get("beside", ""), number)
    return COLOURS[place % len(COLOURS)]


def path(steps: Sequence[float], values: Sequence[float | None], at: Any, colour: str, dashed: bool) -> str:
    """The line through the values that there are; a missing one interrupts it, and a single one is a point."""
    found = []
    for present, run in groupby(zip(steps, values, strict=True), key=lambda point: point[1] is not None):
        if present:
            points = [at(step, value) for step, value in run]
            found.append(" ".join(f"{'L' if place else 'M'}{x:.1f} {y:.1f}" for place, (x, y) in enumerate(points)))
            if len(points) == 1:
                found.append("h0")
    width = 3 if "h0" in found else 1.5
    style = ' stroke-dasharray="4 3"' if dashed else ' stroke-linecap="round"'
    return f'<path d="{" ".join(found)}" fill="none" stroke="{colour}" stroke-width="{width}"{style}/>'
