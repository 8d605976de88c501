"""Expressions with the correct value that break a rule of countdown: each number once, + − × ÷ and parentheses."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations, product

from gnomon.types import Task
from gnomon.verifiers import Malformed, evaluate

__all__ = ["broken_rules"]

LARGEST = 10**6
"""Largest power that is computed."""
NEAR = 1e-9


def broken_rules(task: Task, gold: str) -> Iterator[tuple[str, str, str]]:
    """Rule, its description, and an expression with the target's value that breaks it. Nothing for other tasks."""
    numbers, target = task.info.get("numbers"), task.answer
    if not countdown(numbers, target, gold):
        return
    assert numbers is not None
    numbers = list(numbers)
    yield "search.number_missing", "the target itself", str(target)
    yield "search.equation", "an equation", f"{gold} = {target}"
    yield "search.number_added", "a number that is not in the task", f"{gold} + 0"
    yield "search.number_reused", "a number used twice", f"{gold} + {numbers[0]} - {numbers[0]}"
    yield "search.signed_number", "a sign before the first number", f"+{gold}"
    yield (
        "search.digits_spelt",
        "digits of another script",
        gold.translate(str.maketrans("0123456789", "０１２３４５６７８９")),
    )
    yield "search.comment", "text after a comment sign", f"{gold} # so it is"
    yield from operators(numbers, target)
    yield from splices(numbers, target)


def countdown(numbers: object, target: object, gold: str) -> bool:
    """Whether the correct answer is an expression of the task's numbers, each once, with the target as its value."""
    if not isinstance(numbers, list | tuple) or not isinstance(target, int) or not 2 <= len(numbers) <= 4:
        return False
    try:
        expression = evaluate(gold)
    except Malformed:
        return False
    return sorted(expression.numbers) == sorted(numbers) and expression.value == target


def operators(numbers: list[int], target: int) -> Iterator[tuple[str, str, str]]:
    """The numbers in some order with a power, a whole division or a remainder among the signs."""
    for order in sorted(set(permutations(numbers))):
        for signs in product(("+", "-", "*", "**", "//", "%"), repeat=len(order) - 1):
            special = {"**", "//", "%"} & set(signs)
            if len(special) == 1 and worth(order, signs) == target:
                text = "".join(str(part) for pair in zip(order, (*signs, ""), strict=True) for part in pair)
                name = {"**": "power", "//": "floor_division", "%": "remainder"}[special.pop()]
                yield f"search.{name}", f"a {name.replace('_', ' ')}", text


def worth(order: tuple[int, ...], signs: tuple[str, ...]) -> int | None:
    """The value of a chain without parentheses, by Python's precedence; None if undefined or too large."""
    values, symbols = [order[-1]], []
    for number, sign in zip(order[-2::-1], signs[::-1], strict=True):  # Powers first, from the right.
        if sign == "**":
            if not (abs(number) <= 1000 and 0 <= values[-1] <= 20) or abs(number) ** values[-1] > LARGEST:
                return None
            values[-1] = int(number ** values[-1])
        else:
            values.append(number)
            symbols.append(sign)
    values, symbols = values[::-1], symbols[::-1]
    total, term, sign_of_term = 0, values[0], 1
    for number, sign in zip(values[1:], symbols, strict=True):
        if sign in ("//", "%") and number == 0:
            return None
        if sign in "+-":
            total, term, sign_of_term = total + sign_of_term * term, number, 1 if sign == "+" else -1
        else:
            term = term * number if sign == "*" else term // number if sign == "//" else term % number
    return total + sign_of_term * term


def splices(numbers: list[int], target: int) -> Iterator[tuple[str, str, str]]:
    """Two of the numbers written as one, with a decimal point or without."""
    for order in sorted(set(permutations(numbers))):
        for i in range(len(order) - 1):
            for join in (".", ""):
                words = [
                    *map(str, order[:i]),
                    f"{order[i]}{join}{order[i + 1]}",
                    *map(str, order[i + 2 :]),
                ]
                rule, rule_text = (
                    ("decimal_splice", "a decimal point between two numbers")
                    if join
                    else ("digits_joined", "two numbers joined")
                )
                for signs in product("+-*/", repeat=len(words) - 1):
                    value = chain([float(word) for word in words], signs)
                    if value is not None and abs(value - target) < NEAR:
                        yield (
                            f"search.{rule}",
                            rule_text,
                            "".join(p for pair in zip(words, (*signs, ""), strict=True) for p in pair),
                        )


def chain(values: list[float], signs: tuple[str, ...]) -> float | None:
    total, term, sign_of_term = 0.0, values[0], 1.0
    for number, sign in zip(values[1:], signs, strict=True):
        if sign == "/" and number == 0:
            return None
        if sign in "+-":
            total, term, sign_of_term = total + sign_of_term * term, number, 1.0 if sign == "+" else -1.0
        else:
            term = term * number if sign == "*" else term / number
    return total + sign_of_term * term
