"""A new environment as one file, which passes `gnomon check` before it is changed."""

from __future__ import annotations

import keyword
from pathlib import Path

from gnomon.errors import ConfigError

__all__ = ["new_env"]

SINGLE = '''\
"""{title}: say what is asked."""

import random
from dataclasses import dataclass

from gnomon.envs import SingleTurn, identity
from gnomon.envs.base import SLOT, user
from gnomon.types import Task
from gnomon.verifiers import integer


@dataclass(frozen=True, kw_only=True)
class {kind}(SingleTurn):
    """The larger of two numbers."""

    largest: int = 99

    def make(self, rng: random.Random) -> Task:
        numbers = rng.sample(range(self.largest + 1), 2)
        return asked(numbers)

    def neighbour(self, task: Task, rng: random.Random) -> Task:
        """One of the numbers misread."""
        kept = rng.choice(task.info["numbers"])
        return asked([kept, rng.choice([n for n in range(self.largest + 1) if n != kept])])

    def check(self, task: Task, answer: str) -> bool:
        return integer(answer) == task.answer

    def solution(self, task: Task) -> str:
        return str(task.answer)


def asked(numbers: list[int]) -> Task:
    prompt = f"Which is larger, {{numbers[0]}} or {{numbers[1]}}? {{SLOT}}"
    name = identity("{name}", numbers)
    return Task(id=name, messages=user(prompt), answer=max(numbers), info={{"numbers": numbers}})
'''

TURNS = '''\
"""{title}: say what is played."""

import random
from dataclasses import dataclass

from gnomon.envs import Ask, MultiTurn, Play, identity
from gnomon.envs.base import SLOT, user
from gnomon.types import Task


@dataclass(frozen=True, kw_only=True)
class {kind}(MultiTurn):
    """Find the box with the prize; every wrong box says which way to look."""

    boxes: int = 7
    tries: int = 3

    def make(self, rng: random.Random) -> Task:
        prize, deal = rng.randint(1, self.boxes), rng.getrandbits(32)
        prompt = f"Open a box, 1 to {{self.boxes}}. {{SLOT}}"
        return Task(id=identity("{name}", prize, deal), messages=user(prompt), answer=prize, info={{"deal": deal}})

    def play(self, task: Task, rng: random.Random) -> Play:
        left, text = list(range(1, self.boxes + 1)), ""
        for _ in range(self.tries):
            box = int((yield Ask(text=text, legal=[str(n) for n in range(1, self.boxes + 1)], state=left)))
            if box == task.answer:
                return [1.0]
            text = "to the right" if box < task.answer else "to the left"
            left = [n for n in left if (n > box if box < task.answer else n < box)]
        return [0.0]

    @property
    def moves(self) -> int:
        return self.tries

    def best(self, task: Task, ask: Ask) -> str:
        """The box in the middle of those that are left."""
        return str(ask.state[len(ask.state) // 2])
'''


def new_env(name: str, folder: Path, turns: bool) -> tuple[Path, str]:
    """Write `name.py` into a folder; the file and its class.

    Raises: ConfigError E157 for a name that Python cannot import, E158 where there is a file of that name.
    """
    if not (name.isidentifier() and name.islower() and name.isascii()) or keyword.iskeyword(name):
        why = "a module name has lower-case letters, digits and _, and does not start with a digit"
        raise ConfigError(
            "E157", f"{name!r} cannot be the name of an environment", why=why, fix="gnomon new env my_task"
        )
    file, kind = folder / f"{name}.py", "".join(map(str.title, name.split("_")))
    text = (TURNS if turns else SINGLE).format(name=name, kind=kind, title=name.replace("_", " ").capitalize())
    try:
        with file.open("x", encoding="utf-8") as out:
            out.write(text)
    except FileExistsError as error:
        raise ConfigError("E158", f"{file} already exists", fix=f"gnomon check {file}:{kind}") from error
    except OSError as error:
        raise ConfigError("E158", f"{file} cannot be written", why=str(error.strerror)) from error
    return file, kind
