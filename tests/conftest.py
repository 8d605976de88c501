"""What all tests share: they run side by side, and the broken objectives that they found out are counted."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest
from _pytest.terminal import TerminalReporter


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Each leaves torch with one thread, whatever its run had asked for."""
    yield
    if torch := sys.modules.get("torch"):
        torch.set_num_threads(1)


def pytest_terminal_summary(terminalreporter: TerminalReporter) -> None:
    """How many broken objectives the suite has found out, over all processes."""
    killed, missed = (
        sum("test_mutant_is_killed[" in report.nodeid for report in terminalreporter.stats.get(outcome, []))
        for outcome in ("passed", "failed")
    )
    if killed or missed:
        terminalreporter.write_line(f"mutants killed: {killed} of {killed + missed}")
