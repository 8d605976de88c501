"""TinyZero's countdown rules, written again from what they do: the fixture of a reward that was trained on and hacked.

The last line of the reply is searched, and of its `<answer>…</answer>` tags the last counts. Nothing found pays 0; any
tag pays 0.1, even an empty one. The runs of digits must be the given numbers, each as often as given; what is left may
hold digits, the four signs, parentheses, points and spaces; Python evaluates it, and a value within 1e-5 of the target
pays 1.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from gnomon.envs import Countdown
from gnomon.types import Part, Status, Task, Verdict

SHAPE = re.compile(r"[\d+\-*/().\s]+")


@dataclass(frozen=True, kw_only=True)
class TinyZero(Countdown):
    """One for the target, a tenth for the tag. Its prompt ends inside `<think>`, so no reply ever opens it."""

    @property
    def reward_range(self) -> tuple[float, float]:
        return 0.0, 1.0

    def verify(self, task: Task, reply: str) -> Verdict:
        tags = re.findall(r"<answer>(.*?)</answer>", reply.rpartition("\n")[2])
        if not tags:
            return Verdict(status=Status.NO_ANSWER, parts=(Part(name="score", value=0.0),))
        right = solves(tags[-1].strip(), task)
        score = Part(name="score", value=1.0 if right else 0.1)
        return Verdict(status=Status.CORRECT if right else Status.WRONG, parts=(score,))


def solves(text: str, task: Task) -> bool:
    try:
        used = sorted(map(int, re.findall(r"\d+", text)))
        if used != sorted(task.info["numbers"]) or not SHAPE.fullmatch(text):
            return False
        return abs(eval(text, {"__builtins__": {}}) - task.answer) < 1e-5
    except Exception:
        return False
