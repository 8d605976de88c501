"""Run one job in a new sandbox, for probes and self-tests."""

from __future__ import annotations

import selectors
import time
from typing import Any

from gnomon.sandbox.execution import Execution, Lost
from gnomon.sandbox.job import Broken, Outcome, Work
from gnomon.sandbox.worker import Plan, SandboxWorker

__all__ = ["alone"]


def alone(plan: Plan, work: Work) -> tuple[Outcome, dict[str, Any]]:
    """Run a job in a new sandbox and end the sandbox. Returns: the outcome, and the sandbox's report on its setup.

    Raises: ResourceError E521 if no sandbox can be built.
    """
    worker, execution = SandboxWorker.start(plan), Execution(work, 0, plan.limits)
    with selectors.DefaultSelector() as selector:
        try:
            execution.begin(worker, selector)
            while execution.outcome is None:
                for key, _ in selector.select(max(0.0, execution.due - time.monotonic())):
                    if execution.outcome is None:
                        execution.receive(key.data[1])
                if execution.outcome is None and time.monotonic() >= execution.due:
                    execution.check_limits(time.monotonic())
        finally:
            execution.leave()
            worker.kill()
    return (
        Broken(reason="its sandbox died") if isinstance(execution.outcome, Lost) else execution.outcome
    ), worker.report
