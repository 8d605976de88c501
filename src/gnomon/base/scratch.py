"""Synthetic scratch work: what the tiny base policy is trained on, and why it is a *base*.

Each function writes one reply to a task the way a clumsy pupil would. Sometimes the pupil blurts out a
guess, often works and gives up early or slips, and now and then works to the end. The arithmetic of a
line and the recognition of a hit are right, so the skill is there; what is missing is the will to use
it every time. That is what reinforcement learning is left to find: no document says which habit pays.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import cache

from gnomon.envs.countdown import grow
from gnomon.envs.scramble import dictionary
from gnomon.types import Task

__all__ = ["HABITS", "SCRATCH", "write"]

HABITS = {
    "arithmetic": {"guess": 0.60, "careful": 0.08, "slip": 0.25},
    "char_count": {"guess": 0.60, "careful": 0.08, "slip": 0.40},
    "countdown": {"guess": 0.50, "careful": 0.08, "quit": 0.60},
    "scramble": {"guess": 0.45, "careful": 0.06, "quit": 0.50},
}
"""Per task: share of blurted guesses, share of careful work, and in the rest the chance per line of
giving up (`quit`) or of a mistake (`slip`)."""


def write(env: str, task: Task, rng: random.Random) -> str:
    """One reply to a task of the named environment, answer slot included."""
    text, answer = SCRATCH[env](task, rng)
    return f"{text}<answer>{answer}</answer>"


def countdown(task: Task, rng: random.Random) -> tuple[str, str]:
    """Take one number off the target and ask whether the other two make what is left."""
    habit = HABITS["countdown"]
    numbers: list[int] = list(task.info["numbers"])
    careful = rng.random() < habit["careful"]
    if not careful and rng.random() < habit["guess"]:
        return "", grow(rng, list(numbers))[1]
    text = ""
    lines = leftovers(numbers, task.answer)
    rng.shuffle(lines)
    for sum_text, need, pair, frame in lines:
        made = make_pair(need, *pair)
        if made:
            return f"{text}{sum_text}={made}\n", frame.format(f"({made})")
        text += f"{sum_text} no\n"
        if not careful and rng.random() < habit["quit"]:
            break
    return text, grow(rng, list(numbers))[1]


def leftovers(numbers: list[int], target: int) -> list[tuple[str, int, tuple[int, int], str]]:
    """Every way to undo the last step: its line, what the other two numbers must make, they, the frame."""
    lines = {}
    for place, z in enumerate(numbers):
        pair = tuple(numbers[:place] + numbers[place + 1 :])
        ways = [(f"{target}+{z}", target + z, f"{{}}-{z}")]
        if target >= z:
            ways.append((f"{target}-{z}", target - z, f"{{}}+{z}"))
        if z >= target:
            ways.append((f"{z}-{target}", z - target, f"{z}-{{}}"))
        if target % z == 0:
            ways.append((f"{target}/{z}", target // z, f"{{}}*{z}"))
        if z > 1 and target * z <= max(numbers) ** 2:
            ways.append((f"{target}*{z}", target * z, f"{{}}/{z}"))
        for text, need, frame in ways:
            lines[text] = (f"{text}={need}", need, (pair[0], pair[1]), frame)
    return list(lines.values())


def make_pair(need: int, x: int, y: int) -> str:
    """How two numbers make a third, or the empty text."""
    a, b = max(x, y), min(x, y)
    for value, sign in ((a + b, "+"), (a * b, "*"), (a - b, "-")):
        if value == need:
            return f"{a}{sign}{b}"
    return f"{a}/{b}" if a == need * b else ""


def char_count(task: Task, rng: random.Random) -> tuple[str, str]:
    """Spell the string with a running count behind every letter."""
    habit = HABITS["char_count"]
    careful = rng.random() < habit["careful"]
    if not careful and rng.random() < habit["guess"]:
        return "", str(rng.randint(0, 5))
    count, text = 0, ""
    for letter in task.info["word"]:
        count += letter == task.info["letter"] and (careful or rng.random() >= habit["slip"])
        text += f"{letter}{count}"
    return f"{text}\n", str(count)


def arithmetic(task: Task, rng: random.Random) -> tuple[str, str]:
    """Add tens, then ones, one step at a time."""
    habit = HABITS["arithmetic"]
    careful = rng.random() < habit["careful"]
    if not careful and rng.random() < habit["guess"]:
        return "", str(task.answer + rng.choice((-20, -10, -2, -1, 0, 1, 2, 10, 20)))
    first, *rest = task.info["expression"].split()
    value, text = int(first), ""
    for sign, word in zip(rest[::2], rest[1::2], strict=True):
        step = int(word)
        for part in (step // 10 * 10, step % 10):
            value += part if sign == "+" else -part
            if not careful and rng.random() < habit["slip"]:
                value += rng.choice((-10, -1, 1, 10))
            text += f"{sign}{part}={value}"
        text += "\n"
    return f"{first}{text}", str(value)


def scramble(task: Task, rng: random.Random) -> tuple[str, str]:
    """Try one arrangement after another; some come from memory, most from shuffling."""
    habit = HABITS["scramble"]
    letters = list(task.info["letters"])
    known = anagrams()["".join(sorted(letters))]
    careful = rng.random() < habit["careful"]
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


SCRATCH: dict[str, Callable[[Task, random.Random], tuple[str, str]]] = {
    "arithmetic": arithmetic,
    "char_count": char_count,
    "countdown": countdown,
    "scramble": scramble,
}
