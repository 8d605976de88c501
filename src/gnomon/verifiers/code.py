"""Code judged by tests. Only inputs enter the sandbox; expected values stay outside, where results are compared."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache
from textwrap import dedent
from typing import Any

from gnomon.errors import VerifierError
from gnomon.sandbox import (
    Broken,
    Exceeded,
    Finished,
    Job,
    Limits,
    Ok,
    Outcome,
    Program,
    Raised,
    Runner,
    Value,
    Work,
)
from gnomon.types import Status, Task, Verdict
from gnomon.verifiers.extract import Extraction, Strictness
from gnomon.verifiers.fences import BLANK, VISIBLE, read_fence
from gnomon.verifiers.slot import Slot, require_shallow

__all__ = ["Case", "Cases", "UnitTests", "code_judged"]

INFINITE = frozenset((float("inf"), float("-inf")))
NUMBER = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One test."""

    inputs: Any
    """The arguments, or the text of the standard input."""
    expected: Any
    """The value, or the text of the standard output."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cases:
    """The tests of a task."""

    call: str
    """The function that is called; empty for a script that reads its standard input."""
    cases: tuple[Case, ...]

    @staticmethod
    def read(gold: Any) -> Cases:
        """Parse the tests from a task's answer, which is plain JSON.

        Args: gold: `{"call": "solve", "cases": [[[1, 2], 3], …]}`, each case a list of arguments and the value; or
            `{"cases": [["1 2", "3"], …]}`, each the standard input and the standard output.
        Raises: ValueError if it is neither, or nested too deep. That is an error in the task, not in the reply.
        """
        require_shallow(gold)
        cases = gold.get("cases") if isinstance(gold, dict) else None
        call = gold.get("call", "") if isinstance(gold, dict) else None
        pairs = isinstance(cases, list | tuple) and all(isinstance(c, list | tuple) and len(c) == 2 for c in cases)
        if not cases or not pairs or not isinstance(call, str) or set(gold) - {"call", "cases"}:
            raise ValueError(f"the task's own answer {gold!r:.100} contains no tests")
        types = (list, tuple) if call else (str,)
        if not all(isinstance(inputs, types) and (call or isinstance(out, str)) for inputs, out in cases):
            raise ValueError(f"a test of {gold!r:.100} is not a {'list of arguments' if call else 'pair of texts'}")
        return Cases(call=call, cases=tuple(Case(inputs=inputs, expected=out) for inputs, out in cases))

    def work(self, source: str) -> Work:
        """The job for the sandbox. It contains the inputs and no expected values."""
        if self.call:
            return Job(source=source, call=self.call, inputs=tuple(tuple(case.inputs) for case in self.cases))
        return Program(source=source, stdins=tuple(case.inputs for case in self.cases))


@dataclass(frozen=True, kw_only=True)
class UnitTests(Slot):
    """The answer is Python code in the reply's one fenced block. It is correct if it passes every test of the task.

    Untrusted code runs in a `Sandbox` and nowhere else. `verify` opens one for the process; `code_judged` runs many
    replies in one that the caller owns. See `Cases.read` for a task's answer.
    """

    strictness: Strictness = Strictness.ONLY
    format: float = 0.0
    limits: Limits = field(default_factory=Limits)
    partial: bool = False
    """Pay the fraction of tests that pass."""
    mixed: bool = False
    """Treat the values 1 and 1.0 as equal. A boolean never equals a number."""
    tolerance: float = 0.0
    """Tolerance where one of two numbers is a float: absolute, and relative to the expected value. It also holds for
    the numbers in the output of a script, where 1 and 1.0 are then equal."""
    nan_equal: bool = False
    """Treat NaN as equal to an expected NaN."""

    def extract(self, reply: str) -> Extraction:
        return read_fence(reply, self.strictness)

    def verify(self, task: Task, reply: str) -> Verdict:
        """The verdict on one reply. Raises: VerifierError E116 if the sandbox failed."""
        work = self.work(task, reply)
        if isinstance(work, Verdict):
            return work
        (outcome,) = shared_sandbox(self.limits).map([work])
        return self.settle(task, reply, outcome)

    def work(self, task: Task, reply: str) -> Work | Verdict:
        """The work to run for a reply, or its verdict if there is nothing to run."""
        tests, block = Cases.read(task.answer), self.extract(reply)
        if block.text is None:
            assert block.status is not None
            return self.verdict(block.status, span=block.span, detail=block.detail)
        if "\0" in block.text or (not block.text.isascii() and not encodable(block.text)):
            detail = "the block contains characters that Python source cannot contain"
            return self.verdict(Status.MALFORMED, extracted=block.text, span=block.span, detail=detail)
        return tests.work(flush(block.text))

    def settle(self, task: Task, reply: str, outcome: Outcome) -> Verdict:
        """The verdict that follows from the outcome of that work. Raises: VerifierError E116 if the sandbox failed."""
        block, (status, share, detail) = self.extract(reply), self.result(Cases.read(task.answer), outcome)
        return self.verdict(status, share=share, extracted=block.text, span=block.span, detail=detail)

    def result(self, tests: Cases, outcome: Outcome) -> tuple[Status, float, str]:
        """Status, share of the reward and detail that follow from an outcome. Raises: VerifierError E116."""
        if isinstance(outcome, Broken):
            raise VerifierError(
                "E116",
                f"the sandbox failed: {outcome.reason}",
                why="the code was not run, so the answer is neither correct nor wrong",
                fix="docs/sandbox.md lists what a host needs",
            )
        marks = self.marks(tests, outcome)
        passes = marks.count(None)
        detail = f"passes {passes} of {len(marks)} tests" + failures(marks)
        if isinstance(outcome, Exceeded):
            return Status.EXCEEDED, 0.0, f"{detail}; it used up the limit of {outcome.resource}"
        if isinstance(outcome, Raised):
            detail += f"; {outcome.error:.200}"
        if passes == len(marks) and isinstance(outcome, Finished):
            return Status.CORRECT, 1.0, detail
        # Full reward only if every test passed and the code terminated by itself.
        return Status.WRONG, min(passes, len(marks) - 1) / len(marks) if self.partial else 0.0, detail

    def marks(self, tests: Cases, outcome: Outcome) -> tuple[str | None, ...]:
        """For each test, in order, why it failed; None if it passed. With too many values, none belongs to a test."""
        values: Sequence[Value] = () if isinstance(outcome, Broken) else outcome.values
        if len(values) > len(tests.cases):
            return ("more values than tests",) * len(tests.cases)
        missing = ("not run",) * (len(tests.cases) - len(values))
        return (*(self.mark(case, value, tests) for case, value in zip(tests.cases, values, strict=False)), *missing)

    def mark(self, case: Case, value: Value, tests: Cases) -> str | None:
        """Why a test failed; None if its value equals the expected one, which is not in the sandbox."""
        if not isinstance(value, Ok):
            return f"{value.type:.50}"
        if tests.call:
            return None if self.equal(value.json, case.expected) else "another value"
        printed = isinstance(value.json, str) and self.same(value.json, case.expected)
        return None if printed else "another output"

    def same(self, output: str, expected: str) -> bool:
        """Whether two outputs are equal in every line, without white space at the end of lines and of the output."""
        one, other = lines(output), lines(expected)
        if one == other or not self.tolerance:
            return one == other
        # Text and numbers alternate in the pieces.
        pieces, others = NUMBER.split("\n".join(one)), NUMBER.split("\n".join(other))
        return (
            len(pieces) == len(others)
            and pieces[::2] == others[::2]
            and all(map(self.about, pieces[1::2], others[1::2]))
        )

    def about(self, printed: str, expected: str) -> bool:
        """Whether two printed numbers are equal, or within the tolerance if one has a fraction or an exponent."""
        if printed == expected or not set(".eE") & {*printed, *expected}:
            return printed == expected
        actual, right = float(printed), float(expected)
        return not INFINITE & {actual, right} and self.near(actual, right)

    def equal(self, actual: Any, expected: Any) -> bool:
        """Whether two JSON values are equal in type and content. Recurses only as deep as the expected value."""
        if isinstance(expected, bool) or isinstance(actual, bool) or expected is None or isinstance(expected, str):
            return type(actual) is type(expected) and bool(actual == expected)
        if isinstance(expected, list | tuple):
            return (
                isinstance(actual, list)
                and len(actual) == len(expected)
                and all(self.equal(one, other) for one, other in zip(actual, expected, strict=True))
            )
        if isinstance(expected, dict):
            return (
                isinstance(actual, dict)
                and actual.keys() == expected.keys()
                and all(self.equal(actual[name], expected[name]) for name in expected)
            )
        if type(actual) not in (int, float) or not (self.mixed or type(actual) is type(expected)):
            return False
        return self.near(actual, expected)

    def near(self, actual: float, expected: float) -> bool:
        """Whether two numbers are equal, or within the tolerance if one is a float. NaN is not near any number."""
        # Compared as fractions, because an integer can be too large for a float.
        nan = (actual != actual, expected != expected)
        if any(nan):
            return self.nan_equal and all(nan)
        if actual == expected:
            return True
        if (isinstance(actual, int) and isinstance(expected, int)) or INFINITE & {actual, expected}:
            return False
        tolerance, right = Fraction(self.tolerance), Fraction(expected)
        return abs(Fraction(actual) - right) <= tolerance * max(Fraction(1), abs(right))


def code_judged(verifier: UnitTests, runner: Runner, items: Iterable[tuple[Task, str]]) -> list[Verdict]:
    """The verdict on every (task, reply), in order. The code runs concurrently in the caller's sandbox.

    If the sandbox failed, the verdict is `FAILED`.
    """
    pairs = list(items)
    work = [verifier.work(task, reply) for task, reply in pairs]
    outcomes = iter(runner.map([job for job in work if not isinstance(job, Verdict)]))
    verdicts = []
    for (task, reply), job in zip(pairs, work, strict=True):
        if isinstance(job, Verdict):
            verdicts.append(job)
            continue
        try:
            verdicts.append(verifier.settle(task, reply, next(outcomes)))
        except VerifierError as problem:
            verdicts.append(Verdict(status=Status.FAILED, parts=(), detail=str(problem)))
    return verdicts


@cache
def shared_sandbox(limits: Limits) -> Runner:
    """This process's sandbox for these limits. It is closed when the process ends."""
    from gnomon.sandbox import Sandbox

    return Sandbox(workers=1, limits=limits)


def failures(marks: Sequence[str | None]) -> str:
    """The first tests that failed, and why. Expected values are not shown."""
    failed = [f"test {number}: {mark}" for number, mark in enumerate(marks, 1) if mark is not None]
    return ": " + ", ".join(failed[:5]) + (" …" if len(failed) > 5 else "") if failed else ""


def lines(text: str) -> list[str]:
    """The lines of an output, without trailing white space."""
    return [line.rstrip() for line in text.rstrip().split("\n")]


def flush(source: str) -> str:
    """The source without invisible characters before it and common indentation. Valid source is unchanged."""
    head = source[: len(source) - len(source.lstrip(BLANK))]
    source = head.translate(VISIBLE) + source[len(head) :]
    return dedent(source) if source.lstrip("\n")[:1].isspace() else source


def encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
