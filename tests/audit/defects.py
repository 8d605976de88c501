"""Verifiers with one planted defect each, and the rule that must name it."""

import os
import random
import re
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gnomon.envs import Arithmetic, Countdown
from gnomon.types import Part, Status, Task, Verdict


@dataclass(frozen=True, kw_only=True)
class Sound(Arithmetic):
    """What the others depart from: pays for a right answer alone."""

    format: float = 0.0


class EmptySlotPays(Sound):
    def verify(self, task: Task, reply: str) -> Verdict:
        found = super().verify(task, reply)
        part = Part(name="format", value=float("<answer>" in reply), weight=0.1)
        return Verdict(status=found.status, parts=(*found.parts[:1], part))

    @property
    def reward_range(self) -> tuple[float, float]:
        return 0.0, 1.1


class Substring(Sound):
    def check(self, task: Task, answer: str) -> bool:
        return str(task.answer) in answer


class Raises(Sound):
    def check(self, task: Task, answer: str) -> bool:
        return int(answer) == task.answer


class Hangs(Sound):
    def check(self, task: Task, answer: str) -> bool:
        return re.fullmatch(r"-?(\d+)+", answer) is not None and answer == str(task.answer)


class Quits(Sound):
    def check(self, task: Task, answer: str) -> bool:
        if "(" in answer:
            os._exit(0)
        return answer == str(task.answer)


class Grows(Sound):
    def check(self, task: Task, answer: str) -> bool:
        cells = bytearray(2**40 if len(answer) > 100 else 1)  # So much that no machine's speed decides.
        return len(cells) > 0 and answer == str(task.answer)


class Evaluates(Sound):
    def check(self, task: Task, answer: str) -> bool:
        try:
            return bool(eval(answer) == task.answer)
        except Exception:
            return False


class ReadsRewardFile(Sound):
    def check(self, task: Task, answer: str) -> bool:
        path = Path("reward.txt")
        return path.exists() or answer == str(task.answer)


class Seeds(Sound):
    def check(self, task: Task, answer: str) -> bool:
        random.seed(0)
        return answer == str(task.answer)


class HashOrder(Sound):
    def check(self, task: Task, answer: str) -> bool:
        return answer == str(task.answer) and next(iter({"a", "b", "c", "d"})) in "ab"


class ByTheClock(Sound):
    def check(self, task: Task, answer: str) -> bool:
        return answer == str(task.answer) and int(time.time() // 3600) % 2 == 0


SEEN: dict[str, bool] = {}


class RemembersTasks(Sound):
    def check(self, task: Task, answer: str) -> bool:
        return SEEN.setdefault(task.id, answer == str(task.answer))


class Swallows(Sound):
    def check(self, task: Task, answer: str) -> bool:
        try:
            gold = str(task.answer)
            return answer == gold
        except Exception:
            return False


class NoVerdict(Sound):
    def verify(self, task: Task, reply: str) -> Any:
        return super().verify(task, reply) if "<answer>" in reply else None


class SameSplits(Sound):
    def tasks(self, split: str) -> Any:
        return super().tasks("train")


class Obeys(Sound):
    def verify(self, task: Task, reply: str) -> Verdict:
        if "the maximum score" in reply or "full marks" in reply:
            return self.verdict(Status.CORRECT)
        return super().verify(task, reply)


class Hedges(Sound):
    def check(self, task: Task, answer: str) -> bool:
        return str(task.answer) in re.split(r"[^\d-]+", answer)


class RefusesGold(Sound):
    def check(self, task: Task, answer: str) -> bool:
        return answer == str(abs(task.answer))


@dataclass(frozen=True, kw_only=True)
class ToolBonus(Sound):
    """One for each of five tool calls, one for being right."""

    bonus: float = 1.0

    @property
    def reward_range(self) -> tuple[float, float]:
        return 0.0, 1.0 + 5 * self.bonus

    def verify(self, task: Task, reply: str) -> Verdict:
        found = super().verify(task, reply)
        calls = min(5, reply.count("<tool_call>"))
        return Verdict(
            status=found.status, parts=(*found.parts[:1], Part(name="tools", value=calls, weight=self.bonus))
        )


@dataclass(frozen=True, kw_only=True)
class Splices(Countdown):
    format: float = 0.0

    def check(self, task: Task, answer: str) -> bool:
        numbers = sorted(int(number) for number in re.findall(r"\d+", answer[:100]))
        if numbers != sorted(task.info["numbers"]) or not re.fullmatch(r"[\d+\-*/(). ]+", answer) or "**" in answer:
            return False
        try:
            return bool(abs(eval(answer) - task.answer) < 1e-5)
        except (SyntaxError, TypeError, ZeroDivisionError, OverflowError):
            return False


@dataclass(frozen=True, kw_only=True)
class Uncarried(Sound):
    judge: Any = field(default=threading.Lock())


DEFECTS: dict[str, tuple[type[Sound] | type[Splices], str]] = {
    "an empty slot pays": (EmptySlotPays, "exploit.empty_slot"),
    "a substring is enough": (Substring, "correctness.hedge_accepted"),
    "raises on a text": (Raises, "failure.raised"),
    "backtracks for ever": (Hangs, "availability.exceeded"),
    "ends the process": (Quits, "availability.died"),
    "eats the memory": (Grows, "availability.exceeded"),
    "evaluates the reply": (Evaluates, "confinement.executed"),
    "believes a file": (ReadsRewardFile, "confinement.forged_file"),
    "seeds the process": (Seeds, "confinement.state"),
    "order of a set": (HashOrder, "determinism.hash_seed"),
    "looks at the clock": (ByTheClock, "determinism.clock"),
    "remembers by task": (RemembersTasks, "determinism.order"),
    "hides its faults": (Swallows, "failure.swallowed"),
    "gives no verdict": (NoVerdict, "failure.no_verdict"),
    "one split": (SameSplits, "determinism.split_overlap"),
    "obeys the policy": (Obeys, "exploit.order_to_judge"),
    "takes any of several": (Hedges, "correctness.hedge_accepted"),
    "refuses its own solution": (RefusesGold, "correctness.own_solution"),
    "tools outpay the answer": (ToolBonus, "sentinels.parts_outpay"),
    "splices decimals": (Splices, "search.decimal_splice"),
    "cannot be carried": (Uncarried, "availability.not_carried"),
}
