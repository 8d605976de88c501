"""Polynomial product: expand a product of factors."""

from __future__ import annotations

import random
from dataclasses import dataclass

from gnomon.envs.base import SLOT, SingleTurn, identity, user
from gnomon.envs.linear_equation import side
from gnomon.types import Task
from gnomon.verifiers.polynomial import Form, PolynomialAnswer

ANSWER = PolynomialAnswer(form=Form.EXPANDED)


@dataclass(frozen=True, kw_only=True)
class PolynomialProduct(SingleTurn):
    """`level` + 1 factors ax + b with whole numbers. The order of factors and terms does not matter."""

    level: int = 1
    largest: int = 9
    """Largest a, and largest absolute value of b."""

    def make(self, rng: random.Random) -> Task:
        return task_of([self._factor(rng) for _ in range(self.level + 1)])

    def neighbour(self, task: Task, rng: random.Random) -> Task:
        """The task with one number of one factor drawn again."""
        factors = list(task.info["factors"])
        at, new = rng.randrange(len(factors)), self._factor(rng)
        factors[at] = rng.choice([(new[0], factors[at][1]), (factors[at][0], new[1])])
        return task_of(factors)

    def _factor(self, rng: random.Random) -> tuple[int, int]:
        return rng.randint(1, self.largest), rng.choice([n for n in range(-self.largest, self.largest + 1) if n])

    def check(self, task: Task, answer: str) -> float:
        return ANSWER.accepts(answer, task.answer)

    def solution(self, task: Task) -> str:
        return str(task.answer)


def task_of(factors: list[tuple[int, int]]) -> Task:
    product_text = "".join(f"({side(a, b).removeprefix('1') if a == 1 else side(a, b)})" for a, b in factors)
    product = [1]
    for a, b in factors:
        product = [b * low + a * high for low, high in zip([*product, 0], [0, *product], strict=True)]
    name, info = identity("polynomial_product", sorted(factors)), {"factors": factors}
    return Task(id=name, messages=user(f"Expand {product_text}. {SLOT}"), answer=polynomial_text(product), info=info)


def polynomial_text(coefficients: list[int]) -> str:
    """A polynomial in x as text, its highest power first; the coefficients come lowest first."""
    powers = ["", "x", *(f"x^{power}" for power in range(2, len(coefficients)))]
    terms = [(n, power) for n, power in reversed(list(zip(coefficients, powers, strict=True))) if n]
    text = " ".join(f"{'-' if n < 0 else '+'} {'' if abs(n) == 1 and power else abs(n)}{power}" for n, power in terms)
    return text.removeprefix("+ ").replace("- ", "-", 1) if text.startswith("-") else text.removeprefix("+ ")
