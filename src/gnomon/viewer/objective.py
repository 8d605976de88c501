"""What `gnomon objective` tells of the objectives, for pages."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from gnomon.objectives import TABLE, card
from gnomon.objectives.card_text import declared, enumerated
from gnomon.objectives.curves import GRID

__all__ = ["objective_card", "objective_chart", "objective_rows"]

GROUP = 4
"""Rollouts per task in a card, unless the objective needs more."""


@lru_cache(maxsize=1)
def objective_rows() -> list[dict[str, str]]:
    """Name, expected gradient and source of every objective."""
    rows = [build() for _, build in sorted(TABLE.items())]
    return [{"name": row.name, "expected_gradient": row.expected_gradient, "source": row.source} for row in rows]


@lru_cache(maxsize=256)
def objective_card(name: str) -> dict[str, Any]:
    """The card of an objective with its default options, as labels and texts. Enumerates its groups: about 0.1 s."""
    found = card(name, max(GROUP, TABLE[name]().min_group))
    facts = [
        ("expected gradient", found.expected_gradient),
        ("equation", found.equation),
        ("source", found.source),
        ("differs from the source", found.differs),
        ("group", f"{found.group} here, at least {found.min_group}"),
        *declared(found),
        ("needs", ", ".join(found.needs)),
    ]
    return {
        "name": found.name,
        "summary": found.summary,
        "facts": [(label, text) for label, text in facts if text],
        "enumerated": enumerated(found),
        "edges": found.edges,
        "options": [(name, option.default, option.text, option.allowed) for name, option in found.options.items()],
        "how": found.curve.how,
        "relative": found.curve.relative,
    }


def objective_chart(name: str) -> dict[str, Any]:
    """The weight of a task by how often the policy solves it, relative to its value at one half."""
    lines = [
        {"label": "w(p)/w(1/2)", "values": finite(objective_card(name)["relative"])},
        {"label": "expected reward", "values": [1.0] * len(GRID)},
        {"label": "maximum likelihood", "values": [0.5 / p for p in GRID]},
    ]
    title = "Weight of a task by its success rate p"
    return {"charts": [{"title": title, "axis": "p", "x": list(GRID), "series": lines, "page": ""}], "alarms": []}


def finite(values: Sequence[float]) -> list[float | None]:
    return [value if math.isfinite(value) else None for value in values]
