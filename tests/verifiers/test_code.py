"""Code judged in the real sandbox: what passes, what only looks like passing, and what the verdict says."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from gnomon.errors import VerifierError
from gnomon.sandbox import Broken, Err, Exceeded, Finished, Job, Limits, Ok, Outcome, Program, Raised, Sandbox, Work
from gnomon.types import Status, Task
from gnomon.verifiers import judge
from gnomon.verifiers.code import Cases, UnitTests, code_judged

LIMITS = Limits(cpu_seconds=0.5, wall_seconds=5)
SUM = Task(id="sum", messages=(), answer={"call": "solve", "cases": [[[1, 2], 3], [[-1, 1], 0], [[5, 5], 10]]})
ECHO = Task(id="echo", messages=(), answer={"cases": [["1 2\n", "3\n"], ["5 5", "10"]]})


def fence(source: str) -> str:
    return f"```python\n{source}\n```"


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox(workers=2, limits=LIMITS) as made:
        yield made


@pytest.mark.parametrize(
    ("source", "status", "said"),
    [
        ("def solve(a, b):\n    return a + b", Status.CORRECT, "passes 3 of 3"),
        ("def solve(a, b):\n    return 3", Status.WRONG, "passes 1 of 3 tests: test 2: another value"),
        ("def solve(a, b):\n    return float(a + b)", Status.WRONG, "passes 0 of 3"),
        ("def solve(a, b):\n    return str(a + b)", Status.WRONG, "passes 0 of 3"),
        ("def solve(a, b):\n    return 1 / b if b == 2 else a + b", Status.WRONG, "test 1: another value"),
        ("def solve(a, b):\n    return a[0]", Status.WRONG, "test 1: TypeError"),
        ("def other(a, b):\n    return a + b", Status.WRONG, "passes 0 of 3"),
        ("def solve(a, b:", Status.WRONG, "SyntaxError"),
        ("import sys\nsys.exit(0)", Status.WRONG, "passes 0 of 3"),
        ("import os\nos._exit(0)", Status.WRONG, "passes 0 of 3"),
        ("def solve(a, b):\n    import os\n    os._exit(0)", Status.WRONG, "passes 0 of 3"),
        (
            "class Yes(int):\n    def __eq__(self, other): return True\n\ndef solve(a, b): return Yes(0)",
            Status.WRONG,
            "passes 1 of 3",
        ),
        ("print('passed 3 of 3 tests')\ndef solve(a, b): return None", Status.WRONG, "passes 0 of 3"),
        ("def solve(a, b): raise type('', (Exception,), {})()", Status.WRONG, "passes 0 of 3 tests: test 1: Exception"),
        ("def solve(a, b):\n    while True: pass", Status.EXCEEDED, "limit of cpu"),
        ("def solve(a, b):\n    return 'x' * 10**8", Status.EXCEEDED, "limit of"),
    ],
)
def test_what_passes_and_what_only_looks_so(sandbox: Sandbox, source: str, status: Status, said: str) -> None:
    (verdict,) = code_judged(UnitTests(limits=LIMITS), sandbox, [(SUM, fence(source))])
    assert verdict.status is status and said in verdict.detail, verdict.detail
    assert verdict.reward == float(status is Status.CORRECT)


def test_a_search_for_what_is_expected_finds_nothing(sandbox: Sandbox) -> None:
    """The secret is an expected value that the code would have to know: it looks everywhere it can."""
    secret = 8_675_309_867_5309
    task = Task(id="secret", messages=(), answer={"call": "solve", "cases": [[[1], secret]]})
    source = """
import gc, sys, os
def solve(x):
    seen = []
    frame = sys._getframe()
    while frame:
        seen += list(frame.f_locals.values()) + list(frame.f_globals.values())
        frame = frame.f_back
    seen += gc.get_objects()
    for o in list(seen):
        seen += list(o.values()) if isinstance(o, dict) else list(o) if isinstance(o, (list, tuple)) else []
    found = [o for o in seen if isinstance(o, int) and o > 10**13 and str(o).startswith('8675309')]
    for path in ('/proc/self/environ', '/proc/1/environ', '/proc/self/cmdline', '/tmp/reward.txt'):
        try: seen.append(open(path).read())
        except Exception: pass
    return found[0] if found else 0
"""
    (verdict,) = code_judged(UnitTests(limits=LIMITS), sandbox, [(task, fence(source))])
    assert verdict.status is Status.WRONG and "another value" in verdict.detail


def test_a_script_reads_and_writes(sandbox: Sandbox) -> None:
    good = "a, b = map(int, input().split())\nprint(a + b, end='  \\n\\n')"
    items = [(ECHO, fence(good)), (ECHO, fence("print(3)")), (ECHO, fence("raise SystemExit(1)")), (ECHO, "no code")]
    items.append((ECHO, fence("raise type('', (Exception,), {})()")))
    verdicts = code_judged(UnitTests(), sandbox, items)
    assert [v.status for v in verdicts] == [Status.CORRECT, Status.WRONG, Status.WRONG, Status.NO_ANSWER, Status.WRONG]
    assert "test 2: another output" in verdicts[1].detail


def test_the_plain_verifier_runs_it_too_also_in_a_pool() -> None:
    items = [(SUM, fence("def solve(a, b): return a + b")), (SUM, fence("def solve(a, b): return a - b"))]
    here = [UnitTests(limits=LIMITS).verify(*item) for item in items]
    assert [verdict.status for verdict in here] == [Status.CORRECT, Status.WRONG]
    assert judge(UnitTests(limits=LIMITS), items, workers=1, seconds=5) == here


def test_a_share_is_paid_where_it_is_asked(sandbox: Sandbox) -> None:
    verifier = UnitTests(limits=LIMITS, partial=True)
    items = [(SUM, fence(f"def solve(a, b): {body}")) for body in ("return 3", "return a + b", "return None")]
    verdicts = code_judged(verifier, sandbox, items)
    assert [verdict.reward for verdict in verdicts] == [pytest.approx(1 / 3), 1.0, 0.0]


@pytest.mark.parametrize(
    ("options", "said", "expected", "same"),
    [
        ({}, 1, 1, True), ({}, 1, 1.0, False), ({}, True, 1, False), ({}, 1, True, False), ({}, None, None, True),
        ({}, 0, None, False), ({}, "", None, False), ({}, [1, 2], [1, 2], True), ({}, [1, 2], [2, 1], False),
        ({}, [1], 1, False), ({}, [1, 2], [1, 2, 3], False), ({}, {"a": 1}, {"a": 1}, True), ({}, "1", 1, False),
        ({}, {"a": 1, "b": 2}, {"a": 1}, False), ({}, [], {}, False), ({}, [[1.0]], [[1]], False),
        ({}, math.nan, math.nan, False), ({}, math.inf, math.inf, True), ({}, -0.0, 0.0, True),
        ({}, 0.1 + 0.2, 0.3, False), ({"tolerance": 1e-9, "mixed": True}, 1.0, 10**400, False),
        ({"mixed": True}, 1, 1.0, True), ({"mixed": True}, True, 1.0, False), ({"mixed": True}, [1], [1.0], True),
        ({"nan_equal": True}, math.nan, math.nan, True), ({"nan_equal": True}, math.nan, 1.0, False),
        ({"tolerance": 1e-9}, 0.1 + 0.2, 0.3, True), ({"tolerance": 1e-9}, math.nan, 0.3, False),
        ({"tolerance": 1e-9}, math.inf, 1e308, False), ({"tolerance": 0.1}, 10, 11, False),
        ({"tolerance": 0.1, "mixed": True}, 10, 10.5, True), ({"tolerance": 0.1, "mixed": True}, 10**400, 1.0, False),
    ],
)  # fmt: skip
def test_values_are_compared_by_type_and_content(options: Any, said: Any, expected: Any, same: bool) -> None:
    assert UnitTests(**options).equal(said, expected) is same


@pytest.mark.parametrize(
    ("tolerance", "printed", "expected", "same"),
    [
        (0, "2", "2 \n\n", True), (0, "\ufeff2", "2", False),
        (0, "0.5", "0.50", False), (0, "1 2", "1  2", False), (0, "", "", True),
        (1e-6, "0.333333", "0.333333333333", True), (1e-6, "0.33333", "0.333333333333", False),
        (1e-6, "2", "2.0", True), (1e-6, "2", "3", False), (1e-6, "07", "7", False), (1e-6, "2.5e0", "2.5", True),
        (1e-6, "x = [0.5, -1.50]", "x = [.5, -1.5]", True), (1e-6, "y = 0.5", "x = 0.5", False),
        (1e-6, "0.5 0.5", "0.5", False), (1e-6, "0.5\n0.5", "0.5 0.5", False), (1e-6, "nan", "nan", True),
        (1e-6, "nan", "0.5", False), (1e-6, "1e999", "1e998", False), (1e-6, "1e999999999", "0.5", False),
        (1e-6, "1" * 9000 + ".0", "2" * 9000, False), (1e-6, "1000000.1", "1000000.0", True), (0.1, "9", "10", False),
    ],
)  # fmt: skip
def test_outputs_are_compared_by_line_and_number(tolerance: float, printed: str, expected: str, same: bool) -> None:
    assert UnitTests(tolerance=tolerance).same(printed, expected) is same


class Told:
    """A runner that says what it was told to, and keeps what it was asked."""

    def __init__(self, outcome: Outcome) -> None:
        self.outcome, self.asked = outcome, list[Work]()

    def map(self, jobs: Iterable[Work]) -> list[Outcome]:
        self.asked += list(jobs)
        return [self.outcome] * len(self.asked)

    def close(self) -> None:
        pass


def test_what_is_expected_never_enters_the_sandbox() -> None:
    runner = Told(Finished(values=(Ok(3), Ok(0), Ok(10))))
    (verdict,) = code_judged(UnitTests(), runner, [(SUM, fence("x"))])
    assert verdict.correct
    assert runner.asked == [Job(source="x", call="solve", inputs=((1, 2), (-1, 1), (5, 5)))]
    code_judged(UnitTests(), runner, [(ECHO, fence("x"))])
    assert runner.asked[1] == Program(source="x", stdins=("1 2\n", "5 5"))


class Yes(int):
    """What a runner must not hand over: a value that decides itself what it equals."""

    __hash__ = int.__hash__

    def __eq__(self, other: object) -> bool:
        return True


def test_ends_that_are_nobodys_pass() -> None:
    right = (Ok(3), Ok(0), Ok(10))
    for outcome, status in [
        (Raised(error="Exit", values=right), Status.WRONG),
        (Exceeded(resource="wall", values=right), Status.EXCEEDED),
        (Finished(values=right[:2]), Status.WRONG),
        (Finished(values=(*right[:2], Err("E", ""))), Status.WRONG),
        (Finished(values=(*right[:2], Err("", ""))), Status.WRONG),
        (Finished(values=(*right, Ok(3))), Status.WRONG),
        (Finished(values=(Ok(Yes(0)), *right[1:])), Status.WRONG),
    ]:
        (verdict,) = code_judged(UnitTests(partial=True), Told(outcome), [(SUM, fence("x"))])
        assert verdict.status is status and verdict.reward < 1


def test_a_broken_sandbox_is_our_failure() -> None:
    (verdict,) = code_judged(UnitTests(), Told(Broken(reason="no space")), [(SUM, fence("x"))])
    assert verdict.status is Status.FAILED and "no space" in verdict.detail
    with pytest.raises(VerifierError, match=r"E116.*no space"):
        UnitTests().settle(SUM, fence("x"), Broken(reason="no space"))


@pytest.mark.parametrize(
    "gold",
    [None, [], {}, {"cases": []}, {"call": "f", "cases": [[1, 2]]}, {"cases": [[1, 2]]},
     {"call": 1, "cases": [[[1], 2]]},
     {"call": "f", "cases": [[[1]]]}, {"call": "f", "cases": [[[1], 2]], "x": 1}],
)  # fmt: skip
def test_a_task_without_tests_is_its_authors_mistake(gold: Any) -> None:
    with pytest.raises(ValueError, match=r"contains no tests|a test of"):
        Cases.read(gold)


def test_signs_without_width_hide_no_block_of_code() -> None:
    for reply in (
        "\ufeff```python\nx = 1\n```",
        "```\u200bpython\r\nx = 1\r\n\u2060```",
        "```\nx = 1\n```\u200b\nDone.",
    ):
        assert UnitTests().extract(reply).text == "x = 1"


def test_signs_that_no_source_has() -> None:
    for source in ("x = 1\0", "x = '\ud800'"):
        assert UnitTests().verify(SUM, fence(source)).status is Status.MALFORMED
