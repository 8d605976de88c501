"""Countdown from the rows of a data set, such as TinyZero's `Jiayi-Pan/Countdown-Tasks-3to4`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from gnomon.envs.base import SLOT, identity, user
from gnomon.envs.dataset import Dataset
from gnomon.envs.expressions import solve
from gnomon.envs.rows import Row
from gnomon.types import Task, Verdict
from gnomon.verifiers import evaluate


@dataclass(frozen=True, kw_only=True, eq=False)
class CountdownRows(Dataset):
    """Every row has numbers and a target; any expression that uses each number once and has this value is right.

    Held-out rows are an eighth, by the hash of numbers and target: equal tasks are in one split.
    """

    path: str = "Jiayi-Pan/Countdown-Tasks-3to4"
    prompt: str = "nums"
    """Column of the numbers."""
    answer: str = "target"
    """Column of the target."""
    template: str = "Make {target} from {numbers}. Use each number once, and + - * / and parentheses. " + SLOT
    """The question, with numbers and target inserted."""
    question: ClassVar[str] = "{numbers}"

    def rows_of(self, split: str) -> tuple[Row, ...]:
        """The rows, with the numbers in rising order and the target as the text of the question."""
        return tuple(
            row if row.get(self.prompt) is None else {**row, self.prompt: row_text(row, self.prompt, self.answer)}
            for row in super().rows_of(split)
        )

    def task(self, index: int, row: Row) -> Task:
        numbers = [int(word) for word in str(row[self.prompt]).partition(":")[0].split()]
        target = int(self.gold(row, index))
        text = self.template.replace("{target}", str(target)).replace("{numbers}", ", ".join(map(str, numbers)))
        return Task(
            id=identity("countdown", numbers, target), messages=user(text), answer=target,
            info={"row": index, "numbers": numbers},
        )  # fmt: skip

    def gold(self, row: Row, index: int) -> str:
        """The target as text. Raises: ValueError if it is not a whole number."""
        return str(int(super().gold(row, index)))

    def check(self, task: Task, answer: str) -> float:
        expression = evaluate(answer)
        return float(sorted(expression.numbers) == task.info["numbers"] and expression.value == task.answer)

    def verify(self, task: Task, reply: str) -> Verdict:
        return self.judge(reply, lambda answer: self.check(task, answer))

    def solution(self, task: Task) -> str:
        """Raises: ValueError if no expression has the value."""
        expression = solve(task.info["numbers"], task.answer)
        if expression is None:
            raise ValueError(f"no expression of {task.info['numbers']} has the value {task.answer}")
        return expression


def row_text(row: Row, numbers: str, target: str) -> str:
    """Numbers and target of a row as one text, equal for rows that ask the same."""
    return f"{' '.join(map(str, sorted(map(int, row[numbers]))))}: {row.get(target)}"
