"""Programs against the judge of code: no hostile one is paid, and every odd but correct one is."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gnomon.sandbox import Limits, Sandbox
from gnomon.types import Status, Task
from gnomon.verifiers import UnitTests, code_judged
from verifiers.hostile_programs import CALL, FAMILIES, HOSTILE_PROGRAMS
from verifiers.odd_programs import ODD_PROGRAMS

SHARES = 24
HOSTILE = Limits(cpu_seconds=0.3, wall_seconds=3, memory_bytes=2**28, processes=8, file_bytes=2**22, output_bytes=2**18)
RIGHT = "def solve(x):\n    return {1: 2, 'a': '', 0: None, 2: [3, 4], 3: False, 4: 10**20}[x]"

pytestmark = pytest.mark.needs("bwrap")


@pytest.fixture(scope="module")
def hasty() -> Iterator[Sandbox]:
    with Sandbox(workers=2, limits=HOSTILE) as made:
        yield made


@pytest.fixture(scope="module")
def usual() -> Iterator[Sandbox]:
    with Sandbox(workers=2) as made:
        yield made


def fence(source: str) -> str:
    return f"```python\n{source}\n```"


def test_there_is_enough_of_both() -> None:
    assert len({(program.source, str(program.gold)) for program in HOSTILE_PROGRAMS}) >= 1000
    assert {program.family for program in HOSTILE_PROGRAMS} == set(FAMILIES) and len(ODD_PROGRAMS) >= 80


@pytest.mark.parametrize("share", range(SHARES))
def test_no_hostile_program_is_paid(hasty: Sandbox, share: int) -> None:
    """Nor is one a failure of the judge, which would spare it the reward of a wrong answer."""
    programs = HOSTILE_PROGRAMS[share::SHARES]
    items = [(Task(id="x", messages=(), answer=program.gold), fence(program.source)) for program in programs]
    verifier = UnitTests(limits=HOSTILE)
    *verdicts, after = code_judged(verifier, hasty, [*items, (Task(id="x", messages=(), answer=CALL), fence(RIGHT))])
    assert after.correct, after.detail
    assert not [
        (program.family, program.form, program.source[-200:], verdict.status, verdict.detail)
        for program, verdict in zip(programs, verdicts, strict=True)
        if verdict.reward != 0 or verdict.status in (Status.CORRECT, Status.FAILED) or "\x1b" in verdict.detail
    ]


@pytest.mark.parametrize("name", ODD_PROGRAMS)
def test_an_odd_program_is_paid(usual: Sandbox, name: str) -> None:
    gold, source = ODD_PROGRAMS[name]
    (verdict,) = code_judged(UnitTests(), usual, [(Task(id="x", messages=(), answer=gold), fence(source))])
    assert verdict.correct and verdict.reward == 1, verdict.detail
