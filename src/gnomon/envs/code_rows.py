"""Code from the rows of a data set, judged by the tests of every row in a sandbox."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, ClassVar

from gnomon.envs.base import SPLITS
from gnomon.envs.code_tests import cases, unreadable
from gnomon.envs.dataset import Dataset
from gnomon.envs.row_checks import number_rows
from gnomon.envs.rows import Row
from gnomon.sandbox import Limits
from gnomon.types import Task, Verdict
from gnomon.verifiers import UnitTests
from gnomon.verifiers.extract import Extraction, Strictness
from gnomon.verifiers.fences import read_fence


@dataclass(frozen=True, kw_only=True, eq=False)
class CodeRows(Dataset):
    """Every row asks for a Python program and has tests. A reply is right if its one fenced block passes all of them.

    Rows whose tests cannot be read as inputs and outputs are left out, and named before a run. The outputs never enter
    the sandbox, so the tests of a row are not run as they are written.
    """

    path: str = "google-research-datasets/mbpp"
    prompt: str = "text"
    answer: str = "test_list"
    """Column of the tests: lines such as `assert f(1, 2) == 3`, or inputs and outputs of a script, as
    `{"inputs": ["1 2"], "outputs": ["3"]}` or as the JSON of it."""
    template: str = "{prompt}\n{shown}\nPython, one ```python block."
    shown: int = 1
    """Tests in the prompt: `{shown}` in `template`, one a line. They show the name of the function."""
    solved: str = ""
    """Column of a correct program, for `shots` and for audits; empty if there is none."""
    partial: bool = False
    """Pay the fraction of tests that pass."""
    limits: Limits = Limits(cpu_seconds=2.0, wall_seconds=10.0, memory_bytes=2**28)  # noqa: RUF009
    strictness: Strictness = Strictness.ONLY
    frame: ClassVar[tuple[str, str]] = ("```python\n", "\n```")
    isolation: ClassVar[tuple[str, ...]] = ("sandbox",)
    imports: ClassVar[tuple[str, ...]] = ("gnomon.verifiers.warm_sandbox",)

    @property
    def remarks(self) -> list[str]:
        return [*self.left_out(), *super().remarks]

    def left_out(self) -> Iterator[str]:
        for name in SPLITS if self.apart else ("train",):
            rows = super().rows_of(self.test if name == "test" else self.train)
            if missing := [i for i, row in enumerate(rows) if unreadable(row.get(self.answer))]:
                yield f"The {name} rows leave out {len(missing)} whose tests cannot be read: {number_rows(missing)}."

    def rows_of(self, split: str) -> tuple[Row, ...]:
        return tuple(row for row in super().rows_of(split) if not unreadable(row.get(self.answer)))

    def task(self, index: int, row: Row) -> Task:
        tests, task = cases(row[self.answer]), super().task(index, row)
        examples = "\n".join(map(str, row[self.answer][: self.shown])) if tests["call"] else ""
        last = task.messages[-1]
        message = replace(last, content=last.content.replace("{shown}", examples))
        program = row.get(self.solved, "") if self.solved else ""
        info = {**task.info, "program": program}
        return Task(id=task.id, messages=(*task.messages[:-1], message), answer=tests, info=info)

    def gold(self, row: Row, index: int) -> Any:
        return repr(cases(row[self.answer]))

    def require_gold(self, gold: Any) -> None:
        """Every row has tests that can be read: the others are left out."""

    def extract(self, reply: str) -> Extraction:
        return read_fence(reply, self.strictness)

    def verify(self, task: Task, reply: str) -> Verdict:
        return judge(self).verify(task, reply)

    def check(self, task: Task, answer: str) -> float:
        return self.verify(task, self.framed(answer)).parts[0].value

    def solution(self, task: Task) -> str:
        return str(task.info["program"])


@lru_cache(maxsize=16)
def judge(env: CodeRows) -> UnitTests:
    """The verifier of the rows."""
    return UnitTests(
        strictness=env.strictness, correct=env.correct, format=env.format, gate=env.gate, partial=env.partial,
        limits=env.limits,
    )  # fmt: skip
