"""Multiple choice: a sum or product among values of typical mistakes."""

from __future__ import annotations

import random
from dataclasses import dataclass

from gnomon.envs.base import SLOT, SingleTurn, identity, user
from gnomon.types import Task
from gnomon.verifiers import Malformed

LETTERS = "ABCDEFGH"


@dataclass(frozen=True, kw_only=True)
class MultipleChoice(SingleTurn):
    """The correct letter is drawn uniformly, so that no constant letter is better than chance."""

    options: int = 4
    """Number of options, 2 to 8."""
    largest: int = 50
    signs: str = "+-*"

    def make(self, rng: random.Random) -> Task:
        sign = rng.choice(self.signs)
        return self._task(rng.randint(2, self.largest), sign, rng.randint(2, 9 if sign == "*" else self.largest), rng)

    def neighbour(self, task: Task, rng: random.Random) -> Task:
        """The task with the first operand changed by one, or with the options drawn again."""
        a, sign, b = task.info["question"]
        return self._task(max(2, a + rng.choice((-1, 0, 1))), sign, b, rng)

    def _task(self, a: int, sign: str, b: int, rng: random.Random) -> Task:
        value = {"+": a + b, "-": a - b, "*": a * b}[sign]
        slips = [value + slip for slip in (1, -1, 2, -2, 10, -10, b, -b, 20, -20)]
        slips += [a + b, a - b, a * b, int(str(abs(value))[::-1])]
        wrong = rng.sample(sorted(set(slips) - {value}), self.options - 1)
        i = rng.randrange(self.options)
        choices = " ".join(f"{x} {n}" for x, n in zip(LETTERS, [*wrong[:i], value, *wrong[i:]], strict=False))
        prompt, info = f"{a} {sign} {b}? {choices} {SLOT}", {"question": (a, sign, b), "options": self.options}
        name = identity("multiple_choice", a, sign, b, choices, family=(a, sign, b))
        return Task(id=name, messages=user(prompt), answer=LETTERS[i], info=info)

    def check(self, task: Task, answer: str) -> bool:
        if len(answer) != 1 or answer.upper() not in LETTERS[: task.info["options"]]:
            raise Malformed("the answer is not one of the letters")
        return answer.upper() == str(task.answer)

    def solution(self, task: Task) -> str:
        return str(task.answer)
