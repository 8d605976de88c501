"""The parts of the reward, at the beginning of a run and at its end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from gnomon.terminal import one_line
from gnomon.verifiers.breakdown import Line, lines

__all__ = ["breakdown", "breakdown_text"]

NOTHING = Line(part="", paid=0.0, return_share=None, variance_share=None)


def breakdown(steps: Sequence[Mapping[str, float]]) -> dict[str, list[dict[str, Any]]]:
    """The reward breakdown of the first and the last tenth of a run's steps, by reward part."""
    size = max(1, len(steps) // 10)
    return {
        name: [asdict(line) for line in lines(some)]
        for name, some in (("first", steps[:size]), ("last", steps[-size:]))
    }


def breakdown_text(facts: Mapping[str, Any]) -> list[str]:
    """The breakdown as a table: the mean of each part, its share of the return and of the within-group variance."""
    first, last = ({row["part"]: Line(**row) for row in facts[name]} for name in ("first", "last"))
    if not last:
        return []
    names = sorted({**last, **first}, key=lambda name: -(last[name].paid if name in last else 0.0))
    width = max(9, *(len(one_line(name)) for name in names))
    rows = [f"{'reward part':{width + 2}}  {'mean per rollout':^18}  {'of the return':^16}  {'of the variance':^16}"]
    for name in names:
        then, now = first.get(name, NOTHING), last.get(name, NOTHING)
        cells = [
            f"{then.paid:>7.3f} to {now.paid:>7.3f}",
            f"{share(then.return_share):>6} to {share(now.return_share):>6}",
            f"{share(then.variance_share):>6} to {share(now.variance_share):>6}",
        ]
        rows.append(f"  {one_line(name):{width}}  {'  '.join(cells)}")
    return rows


def share(value: float | None) -> str:
    return "-" if value is None else f"{value:.0%}"
