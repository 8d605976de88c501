"""Questions in a row, one per turn: a horizon that is a setting, paid at its end or by the share of right answers."""

from __future__ import annotations

import random
from dataclasses import dataclass

from gnomon.envs.base import identity
from gnomon.envs.char_count import CharCount
from gnomon.envs.turns import Ask, MultiTurn, Play
from gnomon.types import Part, Status, Task, Verdict

__all__ = ["Chain"]


@dataclass(frozen=True, kw_only=True)
class Chain(MultiTurn):
    """`questions` letters to count, one after the other, whatever is answered.

    Parts of the reward: `all`, whether every answer is right, and `share`, of right answers. One of them is paid.
    """

    questions: int = 4
    by_share: bool = False

    def make(self, rng: random.Random) -> Task:
        asked = [CharCount().make(rng) for _ in range(self.questions)]
        return Task(
            id=identity("chain", *(task.id for task in asked)),
            messages=asked[0].messages,
            answer=[task.answer for task in asked],
            info={"later": [task.messages[0].content for task in asked[1:]]},
        )

    def play(self, task: Task, rng: random.Random) -> Play:
        right = 0
        for text, answer in zip(("", *task.info["later"]), task.answer, strict=True):
            right += (yield Ask(text=text)) == str(answer)
        parts = (
            Part(name="all", value=float(right == self.questions), weight=float(not self.by_share)),
            Part(name="share", value=right / self.questions, weight=float(self.by_share)),
        )
        return [Verdict(status=Status.CORRECT if right == self.questions else Status.WRONG, parts=parts)]

    @property
    def moves(self) -> int:
        return self.questions

    def best(self, task: Task, ask: Ask) -> str:
        """The count, of the question that is asked."""
        return str(task.answer[task.info["later"].index(ask.text) + 1 if ask.text else 0])
