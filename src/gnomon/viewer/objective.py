"""The cards of `gnomon objective`, for pages.

`cards.jsonl` has them, one a line, as `python docs/objectives.py` computes them: the viewer does not need torch.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from gnomon.objectives.options import OPTIONS

__all__ = ["objective_card", "objective_chart", "objective_rows"]

CARDS = Path(__file__).with_name("cards.jsonl")


def objective_rows() -> list[dict[str, str]]:
    """Name, summary and source of every objective."""
    return [{"name": name, "summary": row.summary, "source": row.source} for name, row in sorted(OPTIONS.items())]


def objective_card(name: str) -> dict[str, Any]:
    """The card of an objective with its default options, as labels and texts."""
    return cards()[name]


@cache
def cards() -> dict[str, dict[str, Any]]:
    """Every card, by name."""
    return {card["name"]: card for card in map(json.loads, CARDS.read_text("utf-8").splitlines())}


def objective_chart(name: str) -> dict[str, Any]:
    """The weight of a task by how often the policy solves it, relative to its value at one half."""
    card = objective_card(name)
    lines = [
        {"label": "expected reward", "values": [1.0] * len(card["p"]), "place": 1, "dashed": True},
        {"label": "maximum likelihood", "values": [0.5 / p for p in card["p"]], "place": 2, "dashed": True},
        {"label": "w(p)/w(1/2)", "values": card["relative"], "place": 0},
    ]
    title = "Weight of a task by its success rate p"
    return {
        "charts": [{"title": title, "axis": "p", "x": card["p"], "series": lines, "page": "", "smooth": False}],
        "alarms": [],
    }
