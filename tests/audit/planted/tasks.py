"""Tasks that leak, that are not the same twice, or that need no thought."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

from gnomon.envs import Arithmetic, CharCount
from gnomon.envs.base import Tasks
from gnomon.types import Message, Task


class Numbered(Sequence[Task]):
    """Item i of a seed is made by the generator with the seed plus i."""

    def __init__(self, env: Arithmetic, seed: int) -> None:
        self.env, self.seed = env, seed

    def __len__(self) -> int:
        return 500

    def __getitem__(self, index: int) -> Task:  # type: ignore[override]
        if not 0 <= index < 500:
            raise IndexError(index)
        return self.env.make(random.Random(self.seed + index))


@dataclass(frozen=True, kw_only=True)
class SeedPlusIndex(Arithmetic):
    """The test seed is the next one, so that all test tasks but one have been trained on."""

    terms: int = 4

    def tasks(self, split: str) -> Tasks:
        return Numbered(self, self.seed + (split == "test"))  # type: ignore[return-value]


@dataclass(frozen=True, kw_only=True)
class TestIsTrain(Arithmetic):
    """One list for both splits."""

    terms: int = 4

    def tasks(self, split: str) -> Tasks:
        return super().tasks("train")


@dataclass(frozen=True, kw_only=True)
class AnswerInThePrompt(Arithmetic):
    """A line for whoever marks it, which the policy reads too."""

    def make(self, rng: random.Random) -> Task:
        task = super().make(rng)
        message = task.messages[0]
        told = Message(role="user", content=f"{message.content}\n(Marking key: {task.answer})")
        return replace(task, messages=(told,))


@dataclass(frozen=True, kw_only=True)
class AnotherEveryProcess(Arithmetic):
    """Seeds itself with the hash of a text, which is another in every process."""

    def make(self, rng: random.Random) -> Task:
        return super().make(random.Random(hash(("arithmetic", str(rng.random())))))


@dataclass(frozen=True, kw_only=True)
class AnotherEveryTime(Arithmetic):
    """Draws from the generator of the process."""

    def make(self, rng: random.Random) -> Task:
        return super().make(random)  # type: ignore[arg-type]


@dataclass(frozen=True, kw_only=True)
class NearlyAlwaysNone(CharCount):
    """A letter and a word at random: the letter is hardly ever in it."""

    def make(self, rng: random.Random) -> Task:
        task = super().make(rng)
        return task if task.answer == 0 or rng.random() < 0.1 else self.make(rng)


@dataclass(frozen=True, kw_only=True)
class IdsOfChance(Arithmetic):
    """A new name for the same problem every time, so that nothing can be told apart by it."""

    def make(self, rng: random.Random) -> Task:
        return replace(super().make(rng), id=random.SystemRandom().randbytes(8).hex())
