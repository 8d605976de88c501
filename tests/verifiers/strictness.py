"""The corpus of extraction: what each strictness makes of each reply, and how often it is mistaken."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

from gnomon.verifiers import Strictness

__all__ = ["corpus", "table"]

MEANT = {"right": "right", "wrong": "wrong", "hedge": "hedged", "none": "no answer"}
"""What a reader says a reply is."""


def corpus() -> list[dict[str, Any]]:
    """Every row, with long replies written out."""
    lines = (Path(__file__).parent / "cases" / "strictness.jsonl").read_text("utf-8").split("\n")[:-1]
    rows = [json.loads(line) for line in lines]
    for row in rows:
        if isinstance(row["reply"], list):
            row["reply"] = "".join(piece * times for piece, times in row["reply"])
    return rows


def table(rows: list[dict[str, Any]]) -> str:
    """For each strictness, how many replies of each kind are called right."""
    kinds = Counter(row["meant"] for row in rows)
    head = "| strictness | " + " | ".join(f"{MEANT[kind]} ({kinds[kind]})" for kind in MEANT) + " |"
    lines = [head, "|---|" + "---|" * len(MEANT)]
    for strictness in Strictness:
        right = Counter(row["meant"] for row in rows if row[strictness] == "correct")
        lines.append(f"| `{strictness}` | " + " | ".join(str(right[kind]) for kind in MEANT) + " |")
    return "\n".join(lines)
