"""The suite can fail: it kills every mutant, and every check in it kills at least one."""

from __future__ import annotations

from collections import defaultdict

import pytest
from objective_checks import SUITE
from objective_mutants import mutants

pytestmark = pytest.mark.xdist_group("mutants")
"""They are checked once, together, and the last test reads all of it."""
THOROUGH = ("reinforce", "rloo", "grpo", "dr_grpo", "dr_grpo truncated")
FIRST = ("textbook, float64", "needs", "shift", "singleton", "order")
"""What is quickest to find something."""


@pytest.fixture(scope="module")
def kills() -> dict[str, list[str]]:
    """The checks that each mutant fails; of rows outside `THOROUGH`, the first that it fails."""
    found: dict[str, list[str]] = defaultdict(list)
    quick = sorted(SUITE.items(), key=lambda item: FIRST.index(item[0]) if item[0] in FIRST else len(FIRST))
    for name, case in mutants().items():
        thorough = case.row.name in THOROUGH
        for check, run in SUITE.items() if thorough else quick:
            if found[name] and not thorough:
                break
            try:
                run(case)
            except (AssertionError, ValueError):  # Refusing what the row claims to accept fails it too.
                found[name].append(check)
    return found


@pytest.mark.parametrize("name", mutants())
def test_mutant_is_killed(name: str, kills: dict[str, list[str]]) -> None:
    assert kills[name], f"no check notices {name!r}"


def test_every_check_kills(kills: dict[str, list[str]], capsys: pytest.CaptureFixture[str]) -> None:
    work = {check: sum(check in failed for failed in kills.values()) for check in SUITE}
    with capsys.disabled():
        print(f"\nmutants killed: {sum(map(bool, kills.values()))} of {len(mutants())}")
    assert all(work.values()), f"never fails: {[check for check, count in work.items() if not count]}"
