"""Short stories about how many things somebody has."""

from __future__ import annotations

import random

__all__ = ["NAMES", "THINGS", "Story", "wording"]

Story = tuple[str, str, int, list[tuple[str, int]]]
"""The name, the thing, the initial count, and the operations with their numbers."""
NAMES = ("Ada", "Ben", "Cleo", "Dan", "Eva", "Finn", "Gus", "Hana", "Ivo", "Jun", "Kai", "Lia")
THINGS = ("apples", "books", "cards", "coins", "eggs", "keys", "nuts", "pens", "shells", "stamps")
STEPS = {
    "+": ("{name} finds {n} more.", "A friend gives {name} {n}.", "{name} buys {n}."),
    "-": ("{name} loses {n}.", "{name} gives away {n}.", "{name} sells {n}."),
    "*": ("Then {name} has {n} times as many.", "Now the number grows to {n} times as many."),
}


def wording(rng: random.Random, story: Story) -> str:
    """A story and its question, worded at random."""
    name, things, have, steps = story
    changes = " ".join(rng.choice(STEPS[sign]).format(name=name, n=number) for sign, number in steps)
    return f"{name} has {have} {things}. {changes} How many {things} has {name}?"
