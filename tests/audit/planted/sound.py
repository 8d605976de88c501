"""Verifiers without a known fault, of other kinds than those that ship: an audit must not stop a run over them."""

from __future__ import annotations

import math
import random
import string
from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from gnomon.envs import SingleTurn, identity
from gnomon.envs.base import SLOT
from gnomon.integrations.rewards import TrlReward, VerlScore
from gnomon.types import Message, Task
from gnomon.verifiers import Answered, Malformed, Strictness, extract, integer


def asked(question: str, answer: Any, **info: Any) -> Task:
    """A task whose content is its question."""
    message = Message(role="user", content=f"{question} {SLOT}")
    return Task(id=identity(question), messages=(message,), answer=answer, info=info)


@dataclass(frozen=True, kw_only=True)
class Parity(SingleTurn):
    """Two answers, each right for half of the tasks: a guess earns half, and that is the task's nature."""

    format: float = 0.0

    def make(self, rng: random.Random) -> Task:
        number = rng.randint(1, 10**6)
        return asked(f"Is {number} odd or even?", ("even", "odd")[number % 2])

    def check(self, task: Task, answer: str) -> bool:
        if answer not in ("odd", "even"):
            raise Malformed("neither odd nor even")
        return answer == str(task.answer)

    def solution(self, task: Task) -> str:
        return str(task.answer)


@dataclass(frozen=True, kw_only=True)
class Backwards(SingleTurn):
    """An exact text, where order and case matter."""

    format: float = 0.0

    def make(self, rng: random.Random) -> Task:
        word = "".join(rng.choice(string.ascii_letters) for _ in range(rng.randint(4, 7)))
        return asked(f'Spell "{word}" backwards.', word[::-1])

    def check(self, task: Task, answer: str) -> bool:
        return answer == str(task.answer)

    def solution(self, task: Task) -> str:
        return str(task.answer)


@dataclass(frozen=True, kw_only=True)
class Divisors(SingleTurn):
    """A set of numbers in any order, each once."""

    format: float = 0.0

    def make(self, rng: random.Random) -> Task:
        number = rng.randint(10, 2000)
        return asked(f"List the divisors of {number}.", [n for n in range(1, number + 1) if number % n == 0])

    def check(self, task: Task, answer: str) -> bool:
        if len(answer) > 1000:
            raise Malformed("too long for a list of divisors")
        return sorted(integer(part.strip()) for part in answer.split(",")) == task.answer

    def solution(self, task: Task) -> str:
        return ", ".join(map(str, task.answer))


@dataclass(frozen=True, kw_only=True)
class Sums(SingleTurn):
    """A fraction in any form, lowest terms or not."""

    format: float = 0.0

    def make(self, rng: random.Random) -> Task:
        a, b, c, d = (rng.randint(1, 20) for _ in range(4))
        return asked(f"Add {a}/{b} and {c}/{d}.", str(Fraction(a, b) + Fraction(c, d)))

    def check(self, task: Task, answer: str) -> bool:
        above, _, below = answer.partition("/")
        bottom = integer(below or "1")
        if bottom <= 0:
            raise Malformed("a denominator that is not positive")
        return Fraction(integer(above), bottom) == Fraction(str(task.answer))

    def solution(self, task: Task) -> str:
        return str(task.answer)


@dataclass(frozen=True, kw_only=True)
class Factors(SingleTurn):
    """Many right answers: any two factors above 1. The judge multiplies."""

    format: float = 0.1
    gate: str | None = "correct"

    def make(self, rng: random.Random) -> Task:
        a, b = rng.randint(2, 99), rng.randint(2, 99)
        return asked(f"Write {a * b} as a product of two numbers above 1, as a*b.", a * b, factor=a)

    def check(self, task: Task, answer: str) -> bool:
        parts = [integer(part.strip()) for part in answer[:100].split("*")]
        return len(parts) == 2 and min(parts) > 1 and math.prod(parts) == task.answer

    def solution(self, task: Task) -> str:
        factor = task.info["factor"]
        return f"{factor}*{task.answer // factor}"


@dataclass(frozen=True, kw_only=True)
class Brackets(SingleTurn):
    """Close what is open: one right text, made of signs that markup and patterns trip over."""

    format: float = 0.0

    def make(self, rng: random.Random) -> Task:
        opened = "".join(rng.choice("([{") for _ in range(rng.randint(6, 12)))
        return asked(f"Write what closes {opened}", opened[::-1].translate(str.maketrans("([{", ")]}")))

    def check(self, task: Task, answer: str) -> bool:
        return answer == str(task.answer)

    def solution(self, task: Task) -> str:
        return str(task.answer)


@dataclass(frozen=True, kw_only=True)
class Sorted(SingleTurn):
    """The letters of a word in order, with a strict slot: nothing may come after it."""

    format: float = 0.0
    strictness: Strictness = Strictness.EXACT

    def make(self, rng: random.Random) -> Task:
        word = "".join(rng.choice(string.ascii_lowercase) for _ in range(rng.randint(5, 9)))
        return asked(f'Sort the letters of "{word}".', "".join(sorted(word)))

    def check(self, task: Task, answer: str) -> bool:
        return answer == str(task.answer)

    def solution(self, task: Task) -> str:
        return str(task.answer)


@dataclass(frozen=True, kw_only=True)
class Halves(SingleTurn):
    """Two parts, half of the reward for each; neither can be had without reading the task."""

    format: float = 0.0

    def make(self, rng: random.Random) -> Task:
        a, b = rng.randint(100, 999), rng.randint(10, 99)
        return asked(f"Divide {a} by {b}: quotient and remainder, as q r.", divmod(a, b))

    def check(self, task: Task, answer: str) -> float:
        parts = answer.split()
        if len(parts) != 2:
            raise Malformed("not two numbers")
        return sum(integer(part) == right for part, right in zip(parts, task.answer, strict=True)) / 2

    def solution(self, task: Task) -> str:
        return " ".join(map(str, task.answer))


@dataclass(frozen=True, kw_only=True)
class Anagram(Answered):
    """A verifier alone, with tasks of its own."""

    def accepts(self, answer: str, gold: Any) -> float:
        return len(answer) < 100 and Counter(answer) == Counter(gold) and answer == answer[::-1]

    def tasks(self, split: str) -> tuple[Task, ...]:
        rng = random.Random(f"anagram {split}")
        halves = ["".join(rng.choice(string.ascii_lowercase) for _ in range(4)) for _ in range(300)]
        mine = [half for half in halves if (sum(map(ord, half)) % 2 == 0) == (split == "test")]
        return tuple(
            asked(f"Make a palindrome of the letters {''.join(sorted(h + h))}.", "".join(sorted(h + h)), half=h)
            for h in mine
        )

    def solution(self, task: Task) -> str:
        half = task.info["half"]
        return f"<answer>{half}{half[::-1]}</answer>"


def sums(split: str) -> tuple[Task, ...]:
    rng = random.Random("sums")
    pairs = {(rng.randint(10, 99), rng.randint(10, 99)) for _ in range(400)}
    mine = sorted(pair for pair in pairs if (sum(pair) % 5 == 0) == (split == "test"))
    return tuple(asked(f"What is {a} + {b}?", str(a + b)) for a, b in mine)


def matches(prompts: list[Any], completions: list[Any], solution: list[str], **columns: Any) -> list[float]:
    """One for the right text in the one slot, else nothing."""
    found = [extract(completion[0]["content"]).text for completion in completions]
    return [float(text == right) for text, right in zip(found, solution, strict=True)]


def compute_score(data_source: str, solution_str: str, ground_truth: str, extra_info: Any = None) -> dict[str, Any]:
    """The same in verl's form, with a metric beside it."""
    text = extract(solution_str).text
    return {"score": float(text == ground_truth), "answered": text is not None}


@dataclass(frozen=True, kw_only=True)
class SoundTrl(TrlReward):
    functions: tuple[Any, ...] = (matches,)

    def tasks(self, split: str) -> tuple[Task, ...]:
        return sums(split)

    def solution(self, task: Task) -> str:
        return f"<answer>{task.answer}</answer>"


@dataclass(frozen=True, kw_only=True)
class SoundVerl(VerlScore):
    function: Any = compute_score

    def tasks(self, split: str) -> tuple[Task, ...]:
        return sums(split)

    def solution(self, task: Task) -> str:
        return f"<answer>{task.answer}</answer>"
