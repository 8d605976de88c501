"""A curve as inline SVG, for a page that must hold everything itself."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from itertools import groupby
from typing import Any

from markupsafe import Markup

__all__ = ["spark", "svg"]

WIDTH, HEIGHT, LEFT, BOTTOM = 420.0, 190.0, 62.0, 26.0
COLOURS = 8


def svg(chart: dict[str, Any]) -> Markup:
    """One chart of `curves.charts`: a line per series with its band, axes and a legend. A series of nothing is left
    out. The page gives the classes `c0`, `b0` and `t0` of lines, bands and labels their colours."""
    lines = [line for line in chart["series"] if any(value is not None for value in line["values"])]
    edges = [edge for line in lines for edge in (line["values"], line.get("low", ()), line.get("high", ()))]
    values = [value for edge in edges for value in edge if value is not None]
    if not values:
        return Markup("")
    low, high = min(values), max(values)
    high = high if high > low else low + 1.0
    first, last = chart["x"][0], max(chart["x"][-1], chart["x"][0] + 1)

    def at(x: float, y: float) -> tuple[float, float]:
        across = LEFT + (x - first) / (last - first) * (WIDTH - LEFT - 8)
        return across, 8 + (high - y) / (high - low) * (HEIGHT - BOTTOM - 8)

    parts = [axes(low, high, first, last, at)]
    colours = [line.get("place", number) % COLOURS for number, line in enumerate(lines)]
    for colour, line in zip(colours, lines, strict=True):
        if "low" in line:
            parts.append(band(chart["x"], line, at, colour))
        parts.append(path(chart["x"], line["values"], at, colour, dashed=line.get("dashed", False)))
    legend = "".join(
        f'<tspan class="t{colour}" dx="8">{escape(line["label"])}</tspan>'
        for colour, line in zip(colours, lines, strict=True)
    )
    parts.append(f'<text x="{LEFT}" y="{HEIGHT + 14}">{legend}</text>')
    own = [value for value in lines[0]["values"] if value is not None]
    title = escape(f"{chart['title']}: from {own[0]:.4g} to {own[-1]:.4g}")
    box = f'viewBox="0 0 {WIDTH:g} {HEIGHT + 20:g}" role="img" aria-label="{title}"'
    return Markup(f"<svg {box}>{''.join(parts)}</svg>")


def axes(low: float, high: float, first: float, last: float, at: Any) -> str:
    """Horizontal lines at the least, the middle and the largest value, and the first and last step."""
    parts = []
    for value in (low, (low + high) / 2, high):
        _, y = at(first, value)
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - 8}" y1="{y:.1f}" y2="{y:.1f}" stroke="#8885"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{figure(value)}</text>')
    for step, anchor in ((first, "start"), (last, "end")):
        x, _ = at(step, low)
        parts.append(f'<text x="{x:.1f}" y="{HEIGHT - 6}" text-anchor="{anchor}">step {step:g}</text>')
    return "".join(parts)


def figure(value: float) -> str:
    """Three digits, and all those before the point."""
    return f"{value:.0f}" if 1000 <= abs(value) < 1e6 else f"{value:.3g}"


def band(steps: Sequence[float], line: dict[str, Any], at: Any, colour: int) -> str:
    """The area between the edges of a series, where it has both."""
    rows = zip(steps, line["low"], line["high"], strict=True)
    edges = [(step, low, high) for step, low, high in rows if low is not None and high is not None]
    corners = [at(step, high) for step, _, high in edges] + [at(step, low) for step, low, _ in reversed(edges)]
    return f'<polygon class="b{colour}" points="{" ".join(f"{x:.1f},{y:.1f}" for x, y in corners)}"/>'


def path(steps: Sequence[float], values: Sequence[float | None], at: Any, colour: int, dashed: bool) -> str:
    """The line through the values that there are; a missing one interrupts it, and a single one is a point."""
    parts = []
    for present, run in groupby(zip(steps, values, strict=True), key=lambda point: point[1] is not None):
        if present:
            points = [at(step, value) for step, value in run]
            parts.append(" ".join(f"{'L' if number else 'M'}{x:.1f} {y:.1f}" for number, (x, y) in enumerate(points)))
            if len(points) == 1:
                parts.append("h0")
    width = 3 if "h0" in parts else 1.5
    style = ' stroke-dasharray="4 3"' if dashed else ' stroke-linecap="round"'
    return f'<path class="c{colour}" d="{" ".join(parts)}" fill="none" stroke-width="{width}"{style}/>'


def spark(values: Sequence[float], name: str) -> Markup:
    """A curve without axes, for a line of a table; empty for fewer than two values."""
    if len(values) < 2:
        return Markup("")
    low, high = min(values), max(values)
    scale = 16 / (high - low) if high > low else 0.0
    points = " ".join(
        f"{2 + 92 * i / (len(values) - 1):.1f},{18 - (value - low) * scale:.1f}" for i, value in enumerate(values)
    )
    title = escape(f"{name} from {values[0]:.3g} to {values[-1]:.3g}")
    return Markup(
        f'<svg class="spark" viewBox="0 0 96 20" role="img" aria-label="{title}"><title>{title}</title>'
        f'<polyline points="{points}"/></svg>'
    )
