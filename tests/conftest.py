"""What all tests share: they run side by side, and what was broken on purpose and found out is counted."""

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
    """What the suite has found out, over all processes: broken objectives, planted defects, false alarms."""
    told = {
        "test_mutant_is_killed[": "mutants killed: {passed} of {all}",
        "test_planted_defect_is_found[": "planted defects found: {passed} of {all}",
        "test_sound_verifier_is_not_stopped[": "false alarms over sound verifiers: {failed} of {all}",
        "test_a_planted_fault_blocks_by_its_rule[": "planted faults of foreign rewards found: {passed} of {all}",
        "test_a_sound_reward_is_not_stopped[": "false alarms over sound foreign rewards: {failed} of {all}",
    }
    for test, words in told.items():
        passed, failed = (
            sum(test in report.nodeid for report in terminalreporter.stats.get(outcome, []))
            for outcome in ("passed", "failed")
        )
        if passed or failed:
            terminalreporter.write_line(words.format(passed=passed, failed=failed, all=passed + failed))
