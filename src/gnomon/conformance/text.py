"""Cells as a table for the terminal, as Markdown, as JSON and as a badge."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from gnomon.conformance.subject import Cell, Grade

__all__ = ["badge", "body", "markdown", "text"]

LABEL = "exact gradients"
BADGE = """\
<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="20" role="img" aria-label="{label}: {message}">
<title>{label}: {message}</title>
<rect width="{left}" height="20" fill="#555"/><rect x="{left}" width="{right}" height="20" fill="{color}"/>
<g fill="#fff" text-anchor="middle" font-family="Verdana,Geneva,DejaVu Sans,sans-serif" font-size="11">
<text x="{at_label}" y="14">{label}</text><text x="{at_message}" y="14">{message}</text></g>
</svg>
"""


def text(cells: Sequence[Cell]) -> str:
    """A table for each objective: check, grade, and what is known of the difference."""
    lines = []
    for name in dict.fromkeys(cell.objective for cell in cells):
        mine = [cell for cell in cells if cell.objective == name]
        counts = {grade: sum(cell.grade is grade for cell in mine) for grade in Grade}
        head = ", ".join(f"{count} {grade}" for grade, count in counts.items() if count)
        lines += [f"{name}: {head}", f"  {mine[0].equation}"]
        lines += [f"  {cell.check:<18} {cell.grade:<8} {difference(cell)}".rstrip() for cell in mine]
        lines.append("")
    return "\n".join(lines).rstrip()


def difference(cell: Cell) -> str:
    if cell.grade is not Grade.FAIL:
        return cell.text
    size = [] if cell.error is None else [f"error {cell.error:.2g}"]
    if cell.cosine is not None and cell.scale is not None:
        size.append(f"cosine {cell.cosine:.4f}, {cell.scale:.3g} times as long")
    return "; ".join([*([cell.text] if cell.text else []), ", ".join(size)])


def body(cells: Sequence[Cell]) -> list[dict[str, Any]]:
    return [asdict(cell) for cell in cells]


def markdown(cells: Sequence[Cell]) -> str:
    """One row per check and one column per objective, then a line for everything that did not pass."""
    names = list(dict.fromkeys(cell.objective for cell in cells))
    grades = {(cell.check, cell.objective): cell.grade for cell in cells}
    lines = ["| check | " + " | ".join(f"`{name}`" for name in names) + " |", "|---" * (len(names) + 1) + "|"]
    checks = dict.fromkeys(cell.check for cell in cells)
    lines += ["| " + " | ".join([check, *(grades.get((check, name), "") for name in names)]) + " |" for check in checks]
    apart = [cell for cell in cells if cell.grade is not Grade.PASS]
    notes = dict.fromkeys((cell.check, cell.grade, difference(cell)) for cell in apart)
    lines += ["", "| check | objective | grade | what |", "|---|---|---|---|"]
    for check, grade, what in notes:
        whose = [cell.objective for cell in apart if (cell.check, cell.grade, difference(cell)) == (check, grade, what)]
        lines.append(f"| {check} | {', '.join(f'`{name}`' for name in whose)} | {grade} | {what} |")
    return "\n".join(lines) + "\n"


def badge(cells: Sequence[Cell]) -> str:
    """A picture (SVG) of how many of the checks that could be asked have passed."""
    checks = [cell for cell in cells if cell.grade is not Grade.REFUSED]
    passes, failures = (sum(cell.grade is grade for cell in checks) for grade in (Grade.PASS, Grade.FAIL))
    message, color = f"{passes} of {len(checks)} checks", "#e05d44" if failures else "#4c1" if passes else "#9f9f9f"
    left, right = (10 + 7 * len(text) for text in (LABEL, message))
    return BADGE.format(
        label=LABEL, message=message, color=color, left=left, right=right, width=left + right, at_label=left / 2,
        at_message=left + right / 2,
    )  # fmt: skip
