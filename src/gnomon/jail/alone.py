"""One job in a jail of its own, apart from all others: for probes and for checks of ourselves."""

from __future__ import annotations

import selectors
import time
from typing import Any

from gnomon.jail.cell import Cell, Plan
from gnomon.jail.flight import Flight, Lost
from gnomon.jail.job import Broken, Outcome, Work

__all__ = ["alone"]


def alone(plan: Plan, work: Work) -> tuple[Outcome, dict[str, Any]]:
    """Run a job in a fresh jail that is ended after it. Returns: its outcome, and what the jail said it became.

    Raises: ResourceError, E521, where no jail can be built.
    """
    cell, flight = Cell.start(plan), Flight(work, 0, plan.limits)
    with selectors.DefaultSelector() as selector:
        try:
            flight.board(cell, selector)
            while flight.outcome is None:
                for key, _ in selector.select(max(0.0, flight.due - time.monotonic())):
                    if flight.outcome is None:
                        flight.hear(key.data[1])
                if flight.outcome is None and time.monotonic() >= flight.due:
                    flight.look(time.monotonic())
        finally:
            flight.leave()
            cell.kill()
    return (Broken(reason="its jail died") if isinstance(flight.outcome, Lost) else flight.outcome), cell.report
