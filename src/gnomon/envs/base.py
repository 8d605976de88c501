"""The environment protocol, and `SingleTurn`, for which an author writes `make` and `check`."""

from __future__ import annotations

import operator
import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from inspect import isabstract
from itertools import islice
from typing import TYPE_CHECKING, ClassVar, Protocol, runtime_checkable

from gnomon.envs import offers
from gnomon.envs.wording import SLOT, Wording, user
from gnomon.keys import Key
from gnomon.sandbox import capabilities
from gnomon.types import Message, Task, Verdict
from gnomon.verifiers import Slot

if TYPE_CHECKING:
    from gnomon.envs.agent import Launch

__all__ = [
    "SLOT",
    "Env",
    "Episode",
    "SingleTurn",
    "Step",
    "Tasks",
    "check_isolation",
    "identity",
    "split_of",
    "stream_of",
    "user",
    "with_examples",
]

SPLITS = ("train", "test")
TEST_SHARE = 8
"""One task in this many belongs to the test split."""
DIRECT = 64
"""Attempts to mutate the task itself, before mutations of its neighbours are tried."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """The environment's response to a reply: an observation for the next player, or the final verdicts."""

    messages: tuple[Message, ...] = ()
    """The observation of the next player. Each player has a separate conversation."""
    done: bool
    verdict: Verdict | None = None
    """The verdict, if there is one player."""
    player: int = 0
    """The player who acts next."""
    verdicts: tuple[Verdict, ...] = ()
    """The verdict of every player, in order, if there are several."""
    illegal: bool = False
    """Whether the reply had no legal action."""
    tokens: int | None = None
    """Largest number of tokens of the next reply, 1 or more. None: the limit of the run. A larger number than that
    limit has no effect."""
    launch: Launch | None = None
    """In the first step of an episode that a program plays: the program. Its end is the reply."""


class Episode(Protocol):
    """One play of one task. It depends only on the task, the key and the completions.

    So an episode whose process ended can be replayed from its completions. Player 0 acts first.
    """

    messages: tuple[Message, ...]
    """The first observation of player 0."""

    def step(self, reply: str) -> Step: ...

    def close(self) -> None: ...


@runtime_checkable
class Env(Protocol):
    """Tasks and their verdicts. Frozen and shareable; episodes hold all mutable state."""

    @property
    def reward_range(self) -> tuple[float, float]: ...

    @property
    def max_turns(self) -> int: ...

    def tasks(self, split: str) -> Sequence[Task]: ...

    def start(self, task: Task, key: Key) -> Episode: ...


def check_isolation(env: object) -> None:
    """Check that this host supports an isolation level that the environment accepts.

    Raises: ResourceError, E520 to E522, with a fix.
    """
    if level := offers.isolation(env):
        capabilities(level)


def identity(*content: object, family: object = None) -> str:
    """The id of a task with this content, independent of everything else (wording, order of a multiset …).

    Args: family: tasks of one family are in the same split; None for a task without a family.
    """
    own = blake2b(repr(content).encode(), digest_size=8).hexdigest()
    # `split_of` reads the split from the last digit.
    return own if family is None else own[:-1] + identity("family", family)[-1]


def stream_of(env: object, member: str) -> str:
    """The name of an environment's stream of tasks, the same for every class that is derived from the environment.

    It is `env.stream`. If that is absent or empty, it is the name of the first class in the line of inheritance that
    has the member and is not abstract.
    """
    line = (kind for kind in reversed(type(env).__mro__) if hasattr(kind, member) and not isabstract(kind))
    return getattr(env, "stream", "") or next(line, type(env)).__name__


def split_of(identity: str) -> str:
    """The split of a task, derived from its id."""
    return "test" if int(identity, 16) % TEST_SHARE == 0 else "train"


def division(env: object) -> Callable[[str], str]:
    """The function from a task's id to its split: the environment's own, or `split_of`."""
    return getattr(env, "split_of", split_of)


@dataclass(frozen=True, kw_only=True)
class SingleTurn(Slot, Wording, ABC):
    """An environment with one question and one answer. The answer is in the reply's one slot."""

    shots: int = 0
    """Number of solved examples before the question, for a base model. A system message that they share comes once."""
    seed: int = 0
    """Seed of the tasks. It does not depend on a run's seed, so every run has the same held-out tasks."""
    mutations: int = 0
    """Mutations after every train task: task `i` and its mutations start at index `i·(mutations + 1)`."""
    stream: ClassVar[str] = ""
    """Name of the tasks' random stream. Empty: that of the environment's class, also in a class derived from it."""
    praise: ClassVar[str] = ""
    """The words that a reply should earn from `feedback`. Empty: the environment gives no feedback in words."""
    frame: ClassVar[tuple[str, str]] = ("<answer>", "</answer>")
    """The text before and after an answer in a reply. `extract` searches for it."""

    def __post_init__(self) -> None:
        super().__post_init__()
        Wording.__post_init__(self)
        if self.shots < 0 or self.mutations < 0:
            raise ValueError(f"shots is {self.shots} and mutations {self.mutations}; both must be 0 or more")
        if self.mutations and type(self).neighbour is SingleTurn.neighbour:
            raise ValueError(f"{type(self).__name__} has no `neighbour`, so its tasks have no mutations")

    @abstractmethod
    def make(self, rng: random.Random) -> Task:
        """Make one task, as a pure function of the generator's stream. `identity` makes its id."""

    @abstractmethod
    def check(self, task: Task, answer: str) -> float:
        """Whether the extracted answer is correct: a boolean, or the fraction of the reward that it earns.

        Raises: Malformed if it is not an answer of the required kind; Rejected if it breaks a rule of the task.
        """

    @abstractmethod
    def solution(self, task: Task) -> str:
        """A correct answer, as text for the slot."""

    def framed(self, answer: str) -> str:
        """A reply with this answer in its slot."""
        return f"{self.frame[0]}{answer}{self.frame[1]}"

    def neighbour(self, task: Task, rng: random.Random) -> Task:
        """A task that differs from this one in one detail: a digit, an operand, an operation.

        Raises: NotImplementedError if the environment does not define neighbours.
        """
        raise NotImplementedError(f"{type(self).__name__} has no `neighbour`, so its tasks cannot be mutated")

    def mutate(self, task: Task, key: Key) -> Task:
        """Another task near this one, in the same split and after the same examples. A pure function.

        It is a neighbour. If no drawn neighbour is in the split, it is a neighbour of a neighbour, and so on.

        Raises: NotImplementedError if the environment does not define neighbours; ValueError if the task has none.
        """
        start, of = task, division(self)
        for attempt in range(1000):
            other = self.neighbour(start, key.at("mutate", task=task.id, attempt=attempt).random())
            start = other if attempt >= DIRECT else task
            if other.id != task.id and of(other.id) == of(task.id):
                own = [m for m in self.word(other).messages if m.role != "system" or m not in task.messages]
                return replace(other, messages=(*task.messages[: -len(own)], *own))
        raise ValueError(f"{self!r} found no neighbour of the task {task.id}")

    @property
    def max_turns(self) -> int:
        return 1

    def tasks(self, split: str) -> Tasks:
        of = Shown(self, split) if self.shots else Tasks(self, split)
        return Families(self, of) if self.mutations and split == "train" else of

    def start(self, task: Task, key: Key) -> SingleEpisode:
        return SingleEpisode(task.messages, lambda reply: self._with_feedback(task, self.verify(task, reply)))

    def feedback(self, task: Task, verdict: Verdict) -> str:
        """Words on the reply that got this verdict, if the environment has `praise`."""
        return verdict.feedback

    def _with_feedback(self, task: Task, verdict: Verdict) -> Verdict:
        return replace(verdict, feedback=self.feedback(task, verdict)) if self.praise else verdict

    def verify(self, task: Task, reply: str) -> Verdict:
        return self.judge(reply, lambda answer: self.check(task, answer))


class SingleEpisode:
    """The play of a single-turn task: the first reply ends it."""

    def __init__(self, messages: tuple[Message, ...], judge: Callable[[str], Verdict]) -> None:
        self.messages, self._judge = messages, judge

    def step(self, reply: str) -> Step:
        return Step(done=True, verdict=self._judge(reply))

    def close(self) -> None:
        """Does nothing: the episode holds no resources."""


class Maker(Protocol):
    """Makes one task at a time."""

    @property
    def seed(self) -> int: ...

    def make(self, rng: random.Random) -> Task: ...


class Tasks(Sequence[Task]):
    """The tasks of one split, made on demand. Item i is a pure function of the environment and i.

    The hash of its id decides the split of a task, so no problem is in two splits.
    """

    size = 2**31
    splits: tuple[str, ...] = SPLITS

    def __init__(self, env: Maker, split: str) -> None:
        if split not in self.splits:
            raise ValueError(f"split is {split!r}; it must be one of {self.splits}")
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
        key, of = Key(self.env.seed).at(stream_of(self.env, "make"), split=self.split), division(self.env)
        for attempt in range(10_000):
            task = self.env.make(key.at(purpose, index=index, attempt=attempt).random())
            if of(task.id) == self.split:
                return self.env.word(task) if isinstance(self.env, Wording) else task
        raise ValueError(f"{self.env!r} makes no task of the {self.split} split: it has too few different tasks")


class Shown(Tasks):
    """The tasks of one split, each after solved examples from the train split."""

    def __init__(self, env: SingleTurn, split: str) -> None:
        super().__init__(env, split)
        self.single = env

    def __getitem__(self, index: int) -> Task:  # type: ignore[override]
        task, train = super().__getitem__(index), Tasks(self.single, "train")
        candidates = (train.draw("shot", shot) for shot in range(10_000))
        examples = list(islice((example for example in candidates if example.id != task.id), self.single.shots))
        return with_examples(self.single, task, examples)


class Families(Tasks):
    """Train tasks, each followed by its mutations."""

    def __init__(self, env: SingleTurn, of: Tasks) -> None:
        super().__init__(env, of.split)
        self.single, self.of = env, of

    def __getitem__(self, index: int) -> Task:  # type: ignore[override]
        base, variant = divmod(operator.index(index), self.single.mutations + 1)
        task = self.of[base]
        return self.single.mutate(task, Key(self.single.seed).at("mutation", variant=variant)) if variant else task


def with_examples(env: SingleTurn, task: Task, examples: Sequence[Task]) -> Task:
    """The task after examples with their solutions, as one conversation. A system message comes once."""
    solved = [
        message
        for example in examples
        for message in (*example.messages, Message(role="assistant", content=env.framed(env.solution(example))))
    ]
    conversation: list[Message] = []
    for message in (*solved, *task.messages):
        if message.role != "system" or message not in conversation:
            conversation.append(message)
    return replace(task, messages=tuple(conversation))
