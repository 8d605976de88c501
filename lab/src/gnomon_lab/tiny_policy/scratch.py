"""Synthetic replies that the tiny base policy is trained on.

Each function writes one reply to a task: a guess, a calculation that ends early or contains a mistake, or now and then
a careful calculation. Careful work is right in every line, so the policy can learn to do it, and nothing in the text
says which kind of reply is best. Reinforcement learning finds that out.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping
from functools import cache

from gnomon.envs.dictionary import dictionary
from gnomon.envs.expressions import grow
from gnomon.types import Task

__all__ = ["HABITS", "SCRATCH", "write"]

Habit = Mapping[str, float]
HABITS: dict[str, dict[str, float]] = {
    "arithmetic": {"careful": 0.10, "guess": 0.60, "slip": 0.50},
    "char_count": {"careful": 0.10, "guess": 0.70, "slip": 0.50},
    "countdown": {"careful": 0.08, "guess": 0.55, "quit": 0.65},
    "scramble": {"careful": 0.05, "guess": 0.85, "quit": 0.70},
}
"""By task: the share of careful work, the share of guesses in the rest, and in what is left the chance per line that
the reply ends early (`quit`) or contains a mistake (`slip`)."""


def write(env: str, task: Task, rng: random.Random, care: float = 0.0, guess: float = 0.0, named: bool = True) -> str:
    """One reply to a task of the named environment, answer slot included.

    Args:
        care: least chance of careful work; the habit's own if that is larger.
        guess: least chance of a guess in replies without care; the habit's own if that is larger.
        named: whether countdown names the value that was found, or only says that there is one.
    """
    habit = HABITS[env] | {"guess": max(guess, HABITS[env]["guess"])}
    text, answer = SCRATCH[env](task, rng, habit, rng.random() < max(care, habit["careful"]))
    if env == "countdown" and not named:
        text = FOUND.sub(" yes\n", text)
    return f"{text}<answer>{answer}</answer>"


FOUND = re.compile(r" =\d+\n$")


def countdown(task: Task, rng: random.Random, habit: Habit, careful: bool) -> tuple[str, str]:
    """Set one number aside: what the other two make, then what they would have to make. Where do they meet?"""
    numbers: list[int] = list(task.info["numbers"])
    if not careful and rng.random() < habit["guess"]:
        return "", grow(rng, list(numbers))[1]
    text = ""
    for place in rng.sample(range(len(numbers)), len(numbers)):
        x, y = sorted(numbers[:place] + numbers[place + 1 :], reverse=True)
        made, needed = makes(x, y), needs(task.answer, numbers[place])
        listed = " ".join(frame.format(need) for frame, need in needed)
        text += f"{x},{y} {' '.join(f'{sign}{value}' for value, sign in made.items())}; {listed}"
        for frame, need in needed:
            if need in made:
                return f"{text} ={need}\n", frame.format(f"({x}{made[need]}{y})")
        text += " no\n"
        if not careful and rng.random() < habit["quit"]:
            break
    return text, grow(rng, list(numbers))[1]


def makes(x: int, y: int) -> dict[int, str]:
    """What two numbers make, x the larger: value -> sign, the first sign that makes it."""
    values = {x + y: "+"}
    values.setdefault(x * y, "*")
    values.setdefault(x - y, "-")
    if x % y == 0:
        values.setdefault(x // y, "/")
    return values


def needs(target: int, z: int) -> list[tuple[str, int]]:
    """What the others must make for each last step with z: (last step with a gap, what fills it)."""
    needed = [(f"{{}}-{z}", target + z)]
    if target >= z:
        needed.append((f"{{}}+{z}", target - z))
    if z >= target:
        needed.append((f"{z}-{{}}", z - target))
    if target % z == 0:
        needed.append((f"{{}}*{z}", target // z))
    if z % target == 0 and z > target:
        needed.append((f"{z}/{{}}", z // target))
    if z > 1 and target * z <= 100:
        needed.append((f"{{}}/{z}", target * z))
    return needed


def char_count(task: Task, rng: random.Random, habit: Habit, careful: bool) -> tuple[str, str]:
    """With care: spell the string with a running count behind every letter. Else: jot down those seen."""
    word, letter = task.info["word"], task.info["letter"]
    if careful:
        counts = [word[: place + 1].count(letter) for place in range(len(word))]
        return "".join(f"{c}{n}" for c, n in zip(word, counts, strict=True)) + "\n", str(task.answer)
    if rng.random() < habit["guess"]:
        return "", str(rng.randint(0, 5))
    seen = sum(rng.random() >= habit["slip"] for _ in range(task.answer))
    return f"{letter * seen}\n", str(seen)


def arithmetic(task: Task, rng: random.Random, habit: Habit, careful: bool) -> tuple[str, str]:
    """With care: tens, then ones, one step at a time. Else: whole numbers at once, and slips."""
    first, *rest = task.info["expression"].split()
    if not careful and rng.random() < habit["guess"]:
        return "", str(task.answer + rng.choice((-20, -10, -2, -1, 0, 1, 2, 10, 20)))
    value, text = int(first), first if careful else ""
    for sign, word in zip(rest[::2], rest[1::2], strict=True):
        step = int(word)
        parts = [part for part in (step // 10 * 10, step % 10) if part] if careful else [step]
        for part in parts:
            before, value = value, value + part if sign == "+" else value - part
            if not careful and rng.random() < habit["slip"]:
                value += rng.choice((-10, -1, 1, 10))
            text += f"{'' if careful else before}{sign}{part}={value}"
        text += "\n"
    return text, str(value)


def scramble(task: Task, rng: random.Random, habit: Habit, careful: bool) -> tuple[str, str]:
    """Try one arrangement after another; some come from memory, most from shuffling."""
    letters = list(task.info["letters"])
    known = anagrams()["".join(sorted(letters))]
    guess = not careful and rng.random() < habit["guess"]
    text, tried = "", set[str]()
    while True:
        rng.shuffle(letters)
        word = rng.choice(known) if rng.random() < 0.15 else "".join(letters)
        if guess:
            return "", word
        if word in dictionary():
            return f"{text}{word} yes\n", word
        if word not in tried:
            tried.add(word)
            text += f"{word} no\n"
            if not careful and rng.random() < habit["quit"]:
                rng.shuffle(letters)
                return text, "".join(letters)


@cache
def anagrams() -> dict[str, list[str]]:
    """The words of the dictionary by their sorted letters."""
    table: dict[str, list[str]] = {}
    for word in sorted(dictionary()):
        table.setdefault("".join(sorted(word)), []).append(word)
    return table


SCRATCH: dict[str, Callable[[Task, random.Random, Habit, bool], tuple[str, str]]] = {
    "arithmetic": arithmetic,
    "char_count": char_count,
    "countdown": countdown,
    "scramble": scramble,
}
