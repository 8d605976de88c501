"""One job in a sandbox of its own, apart from all others: for probes and for checks of ourselves."""

from __future__ import annotations

import selectors
import time
from typing import Any

from gnomon.sandbox.cell import Cell, Plan
from gnomon.sandbox.flight import Flight, Lost
from gnomon.sandbox.job import Broken, Outcome, Work

__all__ = ["alone"]


def alone(plan: Plan, work: Work) -> tuple[Outcome, dict[str, Any]]:
    """Run a job in a fresh sandbox that is ended after it. Returns: its outcome, and what the sandbox said it became.

    Raises: ResourceError, E521, where no sandbox can be built.
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
    return (Broken(reason="its sandbox died") if isinstance(flight.outcome, Lost) else flight.outcome), cell.report
