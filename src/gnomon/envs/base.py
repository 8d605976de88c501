"""What an environment is, and the short form that most authors want: `make` a task, `verify` a reply."""

from __future__ import annotations

import operator
import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from itertools import islice
from typing import ClassVar, Protocol, runtime_checkable

from gnomon.envs import offers
from gnomon.keys import Key
from gnomon.sandbox import capabilities
from gnomon.types import Message, Task, Verdict
from gnomon.verifiers import Slot

__all__ = [
    "Env",
    "Episode",
    "SingleTurn",
    "Step",
    "Tasks",
    "confined",
    "identity",
    "solved",
    "split_of",
    "user",
]

SLOT = "<answer>...</answer>"
"""Said once at the end of every prompt: where the answer goes."""
SPLITS = ("train", "test")
TEST_SHARE = 8
"""One task in this many belongs to the test split."""
DIRECT = 64
"""Draws of a mutation that start from the task itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What the environment says to a reply: new messages for who speaks next, or the verdicts that end the episode."""

    messages: tuple[Message, ...] = ()
    """All that the next speaker is told; each player has a conversation of its own."""
    done: bool
    verdict: Verdict | None = None
    """Of the one player."""
    player: int = 0
    """Who speaks next."""
    verdicts: tuple[Verdict, ...] = ()
    """Of every player in order, where there are several."""


class Episode(Protocol):
    """One play of one task, once: a function of its task, its key and what was said, and of nothing else.

    So an episode whose process died is played again from what was said. Player 0 speaks first.
    """

    messages: tuple[Message, ...]
    """What player 0 is told first."""

    def step(self, reply: str) -> Step: ...

    def close(self) -> None: ...


@runtime_checkable
class Env(Protocol):
    """Problems and their judge. Frozen and shareable; what changes lives in episodes."""

    @property
    def reward_range(self) -> tuple[float, float]: ...

    @property
    def max_turns(self) -> int: ...

    def tasks(self, split: str) -> Sequence[Task]: ...

    def start(self, task: Task, key: Key) -> Episode: ...


def confined(env: object) -> None:
    """See that this host holds what an environment's `isolation` names of the sandbox.

    Raises: ResourceError, E520 to E522, with what mends it.
    """
    if needed := offers.isolation(env):
        capabilities(needed)


def identity(*content: object, family: object = None) -> str:
    """The id of a task with this content, whatever else differs (wording, order of a multiset …).

    Args: family: tasks of one family stand in the same split, though they differ; None for a task by itself.
    """
    own = blake2b(repr(content).encode(), digest_size=8).hexdigest()
    # The split is read off the last digit.
    return own if family is None else own[:-1] + identity("family", family)[-1]


def split_of(identity: str) -> str:
    """The split that the hash of a task puts it into."""
    return "test" if int(identity, 16) % TEST_SHARE == 0 else "train"


def user(text: str) -> tuple[Message, ...]:
    """What a user says, as messages; nothing for no text."""
    return (Message(role="user", content=text),) if text else ()


@dataclass(frozen=True, kw_only=True)
class SingleTurn(Slot, ABC):
    """An environment of one question and one answer, which stands in the reply's one slot."""

    shots: int = 0
    """Solved examples put before the question, for a model that was never told the task."""
    seed: int = 0
    """Of the tasks; independent of any run's seed, so that every run is judged on the same held-out tasks."""
    mutations: int = 0
    """Mutations behind every train task: the task `i` and its own have the indices from `i·(mutations + 1)` on."""
    frame: ClassVar[tuple[str, str]] = ("<answer>", "</answer>")
    """What stands before and after an answer in a reply: where `extract` looks for it."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.shots < 0 or self.mutations < 0:
            raise ValueError(f"shots is {self.shots} and mutations {self.mutations}; both must be 0 or more")
        if self.mutations and type(self).neighbour is SingleTurn.neighbour:
            raise ValueError(f"{type(self).__name__} has no `neighbour`, so its tasks have no mutations")

    @abstractmethod
    def make(self, rng: random.Random) -> Task:
        """One task; a pure function of the generator's stream. Its id comes from `identity`."""

    @abstractmethod
    def check(self, task: Task, answer: str) -> float:
        """Whether the extracted answer is right: a truth value, or the share of the reward that it earns.

        Raises: Malformed, when it is no answer of the asked kind; Rejected, when it breaks a rule of the task.
        """

    @abstractmethod
    def solution(self, task: Task) -> str:
        """A right answer, as it would stand in the slot."""

    def framed(self, answer: str) -> str:
        """A reply with this answer in its slot."""
        return f"{self.frame[0]}{answer}{self.frame[1]}"

    def neighbour(self, task: Task, rng: random.Random) -> Task:
        """A task like this one but for a detail: a digit, an operand, an operation.

        Raises: NotImplementedError, where the environment knows none.
        """
        raise NotImplementedError(f"{type(self).__name__} has no `neighbour`, so its tasks cannot be mutated")

    def mutate(self, task: Task, key: Key) -> Task:
        """Another task near this one, in the same split and behind the same examples: pure in both arguments.

        It is a neighbour; where none that is drawn stands in the split, one of a neighbour, and so on.

        Raises: NotImplementedError, where the environment knows no neighbours; ValueError, where the task has none.
        """
        start = task
        for attempt in range(1000):
            other = self.neighbour(start, key.at("mutate", task=task.id, attempt=attempt).random())
            start = other if attempt >= DIRECT else task
            if other.id != task.id and split_of(other.id) == split_of(task.id):
                return replace(other, messages=(*task.messages[: -len(other.messages)], *other.messages))
        raise ValueError(f"{self!r} finds no neighbour of the task {task.id}")

    @property
    def max_turns(self) -> int:
        return 1

    def tasks(self, split: str) -> Tasks:
        of = Shown(self, split) if self.shots else Tasks(self, split)
        return Families(self, of) if self.mutations and split == "train" else of

    def start(self, task: Task, key: Key) -> SingleEpisode:
        return SingleEpisode(task.messages, lambda reply: self.verify(task, reply))

    def verify(self, task: Task, reply: str) -> Verdict:
        return self.judge(reply, lambda answer: self.check(task, answer))


class SingleEpisode:
    """The play of a single-turn task: the first reply ends it."""

    def __init__(self, messages: tuple[Message, ...], judge: Callable[[str], Verdict]) -> None:
        self.messages, self._judge = messages, judge

    def step(self, reply: str) -> Step:
        return Step(done=True, verdict=self._judge(reply))

    def close(self) -> None:
        """Nothing is held."""


class Maker(Protocol):
    """What makes one task at a time."""

    @property
    def seed(self) -> int: ...

    def make(self, rng: random.Random) -> Task: ...


class Tasks(Sequence[Task]):
    """The tasks of one split, made when asked for: item i is a pure function of the environment and i.

    A task belongs to a split by the hash of its id, so no problem can stand in two splits.
    """

    size = 2**31

    def __init__(self, env: Maker, split: str) -> None:
        if split not in SPLITS:
            raise ValueError(f"split is {split!r}; it must be one of {SPLITS}")
        self.env, self.split = env, split

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: int) -> Task:  # type: ignore[override]
        index = operator.index(index)
        if not 0 <= index < self.size:
            raise IndexError(index)
        return self.draw("task", index)

    def draw(self, purpose: str, index: int) -> Task:
        """The task at an index of one of the streams of this split."""
        key = Key(self.env.seed).at(type(self.env).__name__, split=self.split)
        for attempt in range(10_000):
            task = self.env.make(key.at(purpose, index=index, attempt=attempt).random())
            if split_of(task.id) == self.split:
                return task
        raise ValueError(f"{self.env!r} makes no task of the {self.split} split: it has too few different tasks")


class Shown(Tasks):
    """The tasks of one split, each behind solved examples from the train split."""

    def __init__(self, env: SingleTurn, split: str) -> None:
        super().__init__(env, split)
        self.single = env

    def __getitem__(self, index: int) -> Task:  # type: ignore[override]
        task, train = super().__getitem__(index), Tasks(self.single, "train")
        drawn = (train.draw("shot", shot) for shot in range(10_000))
        examples = list(islice((example for example in drawn if example.id != task.id), self.single.shots))
        return replace(task, messages=(*solved(self.single, examples), *task.messages))


class Families(Tasks):
    """Train tasks, each with its mutations behind it."""

    def __init__(self, env: SingleTurn, of: Tasks) -> None:
        super().__init__(env, of.split)
        self.single, self.of = env, of

    def __getitem__(self, index: int) -> Task:  # type: ignore[override]
        place, variant = divmod(operator.index(index), self.single.mutations + 1)
        task = self.of[place]
        return self.single.mutate(task, Key(self.single.seed).at("mutation", variant=variant)) if variant else task


def solved(env: SingleTurn, tasks: Sequence[Task]) -> list[Message]:
    """Tasks with their solutions, as a conversation."""
    return [
        message
        for task in tasks
        for message in (*task.messages, Message(role="assistant", content=env.framed(env.solution(task))))
    ]
