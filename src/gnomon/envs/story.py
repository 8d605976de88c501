"""Short stories of who has how many of what."""

from __future__ import annotations

import random

__all__ = ["NAMES", "THINGS", "Story", "tell"]

Story = tuple[str, str, int, list[tuple[str, int]]]
"""Who, of what, how many at first, and the signs and numbers by which that changes."""
NAMES = ("Ada", "Ben", "Cleo", "Dan", "Eva", "Finn", "Gus", "Hana", "Ivo", "Jun", "Kai", "Lia")
THINGS = ("apples", "books", "cards", "coins", "eggs", "keys", "nuts", "pens", "shells", "stamps")
STEPS = {
    "+": ("{name} finds {n} more.", "A friend gives {name} {n}.", "{name} buys {n}."),
    "-": ("{name} loses {n}.", "{name} gives away {n}.", "{name} sells {n}."),
    "*": ("Then {name} has {n} times as many.", "Now the number grows to {n} times as many."),
}


def tell(rng: random.Random, story: Story) -> str:
    """A story and its question, worded at random."""
    name, things, have, steps = story
    said = " ".join(rng.choice(STEPS[sign]).format(name=name, n=number) for sign, number in steps)
    return f"{name} has {have} {things}. {said} How many {things} has {name}?"
