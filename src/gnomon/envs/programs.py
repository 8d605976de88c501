"""Small programs as data: chains of operations, each in words, as Python, and as a function.

A value is an `int`, a `list` of integers or a `str`. An operation maps one kind to one kind.
"""

from __future__ import annotations

import copy
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import accumulate
from typing import Any

from gnomon.keys import Key

__all__ = [
    "BATTERY",
    "KINDS",
    "OPERATIONS",
    "Operation",
    "Program",
    "battery",
    "between",
    "cases",
    "discerning",
    "draw_program",
    "drawn_input",
    "kinds",
    "longer",
    "nearby",
    "other_inputs",
    "prompt_text",
    "run",
    "source",
    "takes",
    "words",
]

KINDS = {"int": "an integer", "list": "a list of integers", "str": "a text"}
VOWELS = "aeiou"
LETTERS = "abeiorstuAET"
EDGES: dict[str, tuple[Any, ...]] = {
    "int": (0, 1, -1, 2, 7, -8, 10, 45, -100, 99, 1000, 91827364554637281, -24681012141618, 135791113151719),
    "list": (
        [], [0], [-3], [4], [1, -1], [5, 5], [3, -3], [1, 2, 3], [-2, -1, 0], [7, 7, 7, 7], [9, 8, 6, 6, 1],
        [2, 1, 2, 1], [*range(12, -7, -1), *range(-5, 20, 2), *range(-4, 21, 2)], [*range(-5, 31), 4, 8, -5, 25],
        [9, 14, 9, 16] * 6, [30, -40, 21, -27, -27, 14, -15, -12, -9, -33, -13], [-16, -29],
        [-14, -11, -50, -10, -21, -37],
    ),
    "str": (
        "", "a", "T", "st", "ee", "AEIOU", "abba", "to be", "a e b a", "rust or rust", "Eat us",
        "Tories stare at rosette tiers as astute otters sort oat trees", "brrr tsst rrTT bb sTTs trsb tt b rst",
        "a tot at bat is a sitar star or a rat to a bus or Taos it is",
        "ae oui ea uuA Eie aaoo ia EuA oo",
    ),
}  # fmt: skip
"""Inputs on which careless programs fail: empty, single, negative, repeated and large ones."""
BATTERY = 64
"""Number of inputs that decide which programs are equivalent."""
PROBES = 240


@dataclass(frozen=True, slots=True)
class Operation:
    """One step of a program. `{k}` is its number, one of `ks`; 0 means none."""

    words: str
    takes: str
    gives: str
    python: str
    """An expression in x."""
    does: Callable[[Any, int], Any]
    ks: tuple[int, ...] = (0,)


Program = tuple[tuple[int, int], ...]
"""The index of every operation in `OPERATIONS`, and its number."""

SMALL, TIMES, FEW = tuple(range(1, 13)), tuple(range(2, 8)), (2, 3)
OPERATIONS = (
    Operation("add {k}", "int", "int", "x + {k}", lambda x, k: x + k, SMALL),
    Operation("subtract {k}", "int", "int", "x - {k}", lambda x, k: x - k, SMALL),
    Operation("multiply by {k}", "int", "int", "x * {k}", lambda x, k: x * k, TIMES),
    Operation("square", "int", "int", "x * x", lambda x, k: x * x),
    Operation("take the absolute value", "int", "int", "abs(x)", lambda x, k: abs(x)),
    Operation("take it modulo {k} (0 or more)", "int", "int", "x % {k}", lambda x, k: x % k, SMALL[2:]),
    Operation("divide by {k}, rounding down", "int", "int", "x // {k}", lambda x, k: x // k, TIMES),
    Operation(
        "list the decimal digits, without sign", "int", "list", "[int(d) for d in str(abs(x))]",
        lambda x, k: [int(d) for d in str(abs(x))],
    ),
    Operation("write the absolute value in binary", "int", "str", 'f"{abs(x):b}"', lambda x, k: f"{abs(x):b}"),
    Operation("keep the even numbers", "list", "list", "[n for n in x if n % 2 == 0]",
              lambda x, k: [n for n in x if n % 2 == 0]),
    Operation("keep the odd numbers", "list", "list", "[n for n in x if n % 2]", lambda x, k: [n for n in x if n % 2]),
    Operation("keep those above {k}", "list", "list", "[n for n in x if n > {k}]",
              lambda x, k: [n for n in x if n > k], (-2, 0, 2, 4, 6)),
    Operation("add {k} to each", "list", "list", "[n + {k} for n in x]", lambda x, k: [n + k for n in x], SMALL),
    Operation("multiply each by {k}", "list", "list", "[n * {k} for n in x]", lambda x, k: [n * k for n in x], TIMES),
    Operation("square each", "list", "list", "[n * n for n in x]", lambda x, k: [n * n for n in x]),
    Operation("sort, smallest first", "list", "list", "sorted(x)", lambda x, k: sorted(x)),
    Operation("reverse the list", "list", "list", "x[::-1]", lambda x, k: x[::-1]),
    Operation("keep the first of equal numbers", "list", "list", "list(dict.fromkeys(x))",
              lambda x, k: list(dict.fromkeys(x))),
    Operation("keep the first {k}", "list", "list", "x[:{k}]", lambda x, k: x[:k], FEW),
    Operation("drop the first {k}", "list", "list", "x[{k}:]", lambda x, k: x[k:], FEW),
    Operation("keep every second one, from the first on", "list", "list", "x[::2]", lambda x, k: x[::2]),
    Operation("replace each by the sum up to it", "list", "list", "[sum(x[: i + 1]) for i in range(len(x))]",
              lambda x, k: list(accumulate(x))),
    Operation("sum", "list", "int", "sum(x)", lambda x, k: sum(x)),
    Operation("count them", "list", "int", "len(x)", lambda x, k: len(x)),
    Operation("take the largest, or 0", "list", "int", "max(x, default=0)", lambda x, k: max(x, default=0)),
    Operation("take the smallest, or 0", "list", "int", "min(x, default=0)", lambda x, k: min(x, default=0)),
    Operation("take the last, or 0", "list", "int", "x[-1] if x else 0", lambda x, k: x[-1] if x else 0),
    Operation("reverse the text", "str", "str", "x[::-1]", lambda x, k: x[::-1]),
    Operation("make it upper case", "str", "str", "x.upper()", lambda x, k: x.upper()),
    Operation("remove a, e, i, o, u", "str", "str", '"".join(c for c in x if c not in "aeiou")',
              lambda x, k: "".join(c for c in x if c not in VOWELS)),
    Operation("write every character twice", "str", "str", '"".join(c + c for c in x)',
              lambda x, k: "".join(c + c for c in x)),
    Operation("keep the first {k} characters", "str", "str", "x[:{k}]", lambda x, k: x[:k], FEW),
    Operation("put the words in reverse order, one space between", "str", "str", '" ".join(x.split()[::-1])',
              lambda x, k: " ".join(x.split()[::-1])),
    Operation("count a, e, i, o, u", "str", "int", 'sum(c in "aeiou" for c in x)',
              lambda x, k: sum(c in VOWELS for c in x)),
    Operation("count the characters", "str", "int", "len(x)", lambda x, k: len(x)),
    Operation("count the words", "str", "int", "len(x.split())", lambda x, k: len(x.split())),
    Operation("list the lengths of the words", "str", "list", "[len(w) for w in x.split()]",
              lambda x, k: [len(w) for w in x.split()]),
)  # fmt: skip


def draw_program(rng: random.Random, steps: int, tests: int) -> Program:
    """Draw a chain of at most `steps` operations that `tests` tests distinguish from similar programs.

    Raises: ValueError if none is found.
    """
    for _ in range(1000):
        kind, program = rng.choice(sorted(KINDS)), list[tuple[int, int]]()
        for _ in range(rng.randint(1, steps)):
            index = rng.choice([at for at, operation in enumerate(OPERATIONS) if operation.takes == kind])
            program.append((index, rng.choice(OPERATIONS[index].ks)))
            kind = OPERATIONS[index].gives
        if discerning(tuple(program), tests):
            return tuple(program)
    raise ValueError(f"{tests} tests distinguish no chain of up to {steps} operations from similar ones")


def takes(program: Program) -> str:
    """The kind of its input."""
    return OPERATIONS[program[0][0]].takes


def run(program: Program, value: Any) -> Any:
    for index, k in program:
        value = OPERATIONS[index].does(value, k)
    return value


def words(program: Program) -> str:
    return ", then ".join(OPERATIONS[index].words.format(k=k) for index, k in program)


def source(program: Program) -> str:
    """The program as the Python function `solve`."""
    lines = [f"    x = {OPERATIONS[index].python.replace('{k}', str(k))}" for index, k in program]
    return "\n".join(["def solve(x):", *lines, "    return x"])


def kinds(program: Program) -> list[str]:
    """The kinds of value before the first operation, between operations, and after the last."""
    return [takes(program), *(OPERATIONS[index].gives for index, _ in program)]


@cache
def between(before: str, after: str | None) -> tuple[tuple[int, int], ...]:
    """The operations from one kind to another. Args: after: None for any kind."""
    return tuple(
        (index, k)
        for index, operation in enumerate(OPERATIONS)
        if operation.takes == before and after in (operation.gives, None)
        for k in operation.ks
    )


def nearby(program: Program) -> list[Program]:
    """Programs with the same input kind and one operation removed or replaced, or with another number."""
    chain, result = kinds(program), list[Program]()
    for at, own in enumerate(program):
        before, after = chain[at], chain[at + 1] if at + 1 < len(program) else None
        if len(program) > 1 and after in (before, None):
            result.append((*program[:at], *program[at + 1 :]))
        result += [(*program[:at], one, *program[at + 1 :]) for one in between(before, after) if one != own]
    return result


def longer(program: Program) -> list[Program]:
    """Programs with the same input kind and one more operation."""
    chain, result = kinds(program), list[Program]()
    for at, before in enumerate(chain):
        after = before if at < len(program) else None
        result += [(*program[:at], one, *program[at:]) for one in between(before, after)]
    return result


def drawn_input(rng: random.Random, kind: str, size: int = 1) -> Any:
    """A random input of a kind. Args: size: 1 for an input that fits into a prompt."""
    if kind == "int":
        return rng.randint(-(200**size), 200**size)
    if kind == "list":
        return [rng.randint(-6 * size, 12 * size) for _ in range(rng.randint(2, 8 * size))]
    return " ".join("".join(rng.choices(LETTERS, k=rng.randint(1, 5))) for _ in range(rng.randint(1, 4 * size)))


@cache
def battery(kind: str) -> tuple[Any, ...]:
    """The inputs that decide which programs are equivalent: the edge cases, and others with a fixed seed."""
    rng, inputs = Key(0).at("programs", kind=kind).random(), list(EDGES[kind])
    while len(inputs) < BATTERY:
        if (value := drawn_input(rng, kind)) not in inputs:
            inputs.append(value)
    return tuple(inputs)


def cases(program: Program) -> list[list[Any]]:
    """All tests, each a list of arguments and the value."""
    return [[[copy.copy(value)], run(program, value)] for value in battery(takes(program))]


@cache
def probes(kind: str) -> tuple[Any, ...]:
    """The inputs on which two programs must agree to be treated as identical."""
    rng = Key(0).at("probes", kind=kind).random()
    return tuple(drawn_input(rng, kind, size) for size in (1, 2, 3, 4) for _ in range(PROBES // 4))


@lru_cache(maxsize=2**14)
def discerning(program: Program, count: int) -> bool:
    """Whether `count` tests distinguish a program from all similar ones.

    The tests fail the identity, any constant on half of them, every nearby program, and every longer program that is
    not equivalent.
    """
    inputs = battery(takes(program))[:count]
    expected = [run(program, value) for value in inputs]
    (_, often), *_ = Counter(map(repr, expected)).most_common(1)
    if 2 * often > count or expected == list(inputs) or any(fits(other, inputs, expected) for other in nearby(program)):
        return False
    if not (passing := [other for other in longer(program) if fits(other, inputs, expected)]):
        return True
    wide = probes(takes(program))
    values = [run(program, value) for value in wide]
    return all(fits(other, wide, values) for other in passing)


def fits(program: Program, inputs: Sequence[Any], expected: Sequence[Any]) -> bool:
    return all(run(program, value) == value_expected for value, value_expected in zip(inputs, expected, strict=True))


def prompt_text(rng: random.Random, program: Program, examples: int) -> str:
    """The prompt of a program, with example calls that are not among the tests."""
    inputs = other_inputs(rng, program, examples)
    calls = "".join(f" solve({value!r}) == {run(program, value)!r}." for value in inputs)
    return f"solve(x), x {KINDS[takes(program)]}: {words(program)}.{calls}"


def other_inputs(rng: random.Random, program: Program, count: int) -> list[Any]:
    """Random inputs of a program that are not among its tests."""
    kind, inputs = takes(program), list[Any]()
    while len(inputs) < count:
        if (value := drawn_input(rng, kind)) not in (*battery(kind), *inputs):
            inputs.append(value)
    return inputs
