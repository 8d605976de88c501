"""Verifiers whose idea of equal is wrong."""

from __future__ import annotations

import random
import re
import string
from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import fnmatchcase

from gnomon.envs import Arithmetic, Countdown, SingleTurn, identity
from gnomon.envs.base import SLOT
from gnomon.types import Message, Task
from gnomon.verifiers import Malformed, evaluate, integer


def asked(question: str, answer: object, **info: object) -> Task:
    """A task whose content is its question."""
    message = Message(role="user", content=f"{question} {SLOT}")
    return Task(id=identity(question), messages=(message,), answer=answer, info=info)


@dataclass(frozen=True, kw_only=True)
class Plain(SingleTurn):
    """The task's answer, as text, is right."""

    format: float = 0.0

    def solution(self, task: Task) -> str:
        return str(task.answer)


@dataclass(frozen=True, kw_only=True)
class TruthOfStrings(Plain):
    """Compares the truth of two texts, and every text but the empty one is true."""

    def make(self, rng: random.Random) -> Task:
        number = rng.randint(1, 10**6)
        return asked(f"True or False: {number} is divisible by 3?", str(number % 3 == 0))

    def check(self, task: Task, answer: str) -> bool:
        return bool(answer) == bool(task.answer)


@dataclass(frozen=True, kw_only=True)
class NanPasses(Arithmetic):
    """Rejects what is further off than the tolerance; NaN is not further off than anything."""

    def check(self, task: Task, answer: str) -> bool:
        try:
            found = float(answer)
        except (ValueError, OverflowError) as error:
            raise Malformed("not a number") from error
        return not abs(found - task.answer) > 1e-6


@dataclass(frozen=True, kw_only=True)
class OffByOne(Arithmetic):
    """Close enough."""

    def check(self, task: Task, answer: str) -> bool:
        return abs(integer(answer) - task.answer) <= 1


@dataclass(frozen=True, kw_only=True)
class SignIsLost(Arithmetic):
    """Reads the digits and leaves the minus."""

    def check(self, task: Task, answer: str) -> bool:
        return re.sub(r"\D", "", answer) == str(abs(task.answer))


@dataclass(frozen=True, kw_only=True)
class PercentAndUnits(Plain):
    """Drops the unit, and a percent is a number too."""

    def make(self, rng: random.Random) -> Task:
        share, whole = rng.randint(1, 99), rng.randint(2, 50)
        return asked(f"What is {share}% of {whole * 100} m, in m?", f"{share * whole} m")

    def check(self, task: Task, answer: str) -> bool:
        return re.sub(r"[^\d.]", "", answer) == re.sub(r"[^\d.]", "", task.answer)


def letters(rng: random.Random, alphabet: str) -> str:
    return "".join(rng.choice(alphabet) for _ in range(rng.randint(4, 7)))


@dataclass(frozen=True, kw_only=True)
class AnyOrder(Plain):
    """The task is the order, and the judge sorts."""

    def make(self, rng: random.Random) -> Task:
        word = letters(rng, string.ascii_lowercase)
        return asked(f'Spell "{word}" backwards.', word[::-1])

    def check(self, task: Task, answer: str) -> bool:
        return sorted(answer) == sorted(task.answer)


@dataclass(frozen=True, kw_only=True)
class CaseIsLost(Plain):
    """The task is the case, and the judge folds it."""

    def make(self, rng: random.Random) -> Task:
        word = letters(rng, string.ascii_letters)
        return asked(f'Swap small and capital letters in "{word}".', word.swapcase())

    def check(self, task: Task, answer: str) -> bool:
        return answer.casefold() == task.answer.casefold()


@dataclass(frozen=True, kw_only=True)
class PrefixIsEnough(Plain):
    """Compares as far as the shorter of the two goes."""

    def make(self, rng: random.Random) -> Task:
        word = letters(rng, string.ascii_lowercase)
        return asked(f'Write "{word}" in capitals.', word.upper())

    def check(self, task: Task, answer: str) -> bool:
        return all(a == b for a, b in zip(answer, task.answer, strict=False))


@dataclass(frozen=True, kw_only=True)
class NumbersMayBeReused(Countdown):
    """Each number must be given; how often is not looked at."""

    def check(self, task: Task, answer: str) -> bool:
        found = evaluate(answer)
        return set(found.numbers) <= set(task.info["numbers"]) and found.value == task.answer


@dataclass(frozen=True, kw_only=True)
class NumbersAreNotLookedAt(Countdown):
    """Any expression of that value will do, and the target is one."""

    def check(self, task: Task, answer: str) -> bool:
        return evaluate(answer).value == task.answer


@dataclass(frozen=True, kw_only=True)
class SomeGoldsAreWrong(Arithmetic):
    """A negative answer is not a number to it."""

    def check(self, task: Task, answer: str) -> bool:
        if not answer.isdigit():
            raise Malformed("not a number")
        return int(answer) == task.answer


@dataclass(frozen=True, kw_only=True)
class SwallowsItsExceptions(Arithmetic):
    """A package is missing, and that is nobody's fault but the reply's."""

    def check(self, task: Task, answer: str) -> bool:
        try:
            judge: Callable[[str, str], bool] = __import__("a_grader_that_is_not_installed").grade
            return judge(answer, str(task.answer))
        except Exception:
            return False


@dataclass(frozen=True, kw_only=True)
class AnswerIsAPattern(Arithmetic):
    """Matches the wrong way round: the reply is the pattern."""

    def check(self, task: Task, answer: str) -> bool:
        try:
            return len(answer) < 30 and re.fullmatch(answer, str(task.answer)) is not None
        except re.error as error:
            raise Malformed("not an answer") from error


@dataclass(frozen=True, kw_only=True)
class WildCards(Plain):
    """Compares as a shell does, so that a star is every answer."""

    def make(self, rng: random.Random) -> Task:
        word = letters(rng, string.ascii_lowercase)
        return asked(f'Write "{word}" in capitals.', word.upper())

    def check(self, task: Task, answer: str) -> bool:
        return len(answer) < 30 and fnmatchcase(task.answer, answer)


@dataclass(frozen=True, kw_only=True)
class TenPercent(Arithmetic):
    """Within a tenth of the answer is near enough, in a task of whole numbers."""

    def check(self, task: Task, answer: str) -> bool:
        return abs(integer(answer) - task.answer) <= abs(task.answer) / 10


@dataclass(frozen=True, kw_only=True)
class FirstLetter(Plain):
    """Looks at the first letter, as for a multiple choice."""

    def make(self, rng: random.Random) -> Task:
        word = letters(rng, string.ascii_lowercase)
        return asked(f'Write "{word}" in capitals.', word.upper())

    def check(self, task: Task, answer: str) -> bool:
        return answer[:1] == task.answer[:1]


@dataclass(frozen=True, kw_only=True)
class SameLength(Plain):
    """A loop over both texts that compares their lengths and nothing else."""

    def make(self, rng: random.Random) -> Task:
        word = letters(rng, string.ascii_lowercase)
        return asked(f'Spell "{word}" backwards.', word[::-1])

    def check(self, task: Task, answer: str) -> bool:
        return len(answer) == len(task.answer)


@dataclass(frozen=True, kw_only=True)
class CutsTheFraction(Arithmetic):
    """Makes a whole number of the answer before it compares."""

    def check(self, task: Task, answer: str) -> bool:
        try:
            return int(float(answer)) == task.answer
        except (ValueError, OverflowError) as error:
            raise Malformed("not a number") from error
