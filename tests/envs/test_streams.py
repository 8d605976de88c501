"""Which tasks a class derived from an environment, or wrapped around one, meets: those of the environment."""

import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import pytest

from gnomon.envs import ENVS, Arithmetic, CharCount, Countdown, SingleTurn
from gnomon.envs.base import Tasks, split_of, stream_of
from gnomon.envs.controlled import CONTROLS, Controlled
from gnomon.envs.nim import Nim
from gnomon.envs.reward_hacking.loophole import Loophole
from gnomon.envs.reward_hacking.proxied import Proxied
from gnomon.envs.turns import MultiTurn
from gnomon.integrations.environments.hosted import Gym
from gnomon.keys import Key
from gnomon.tools.calculator import CalculatorTool
from gnomon.tools.lend import WithTools
from gnomon.types import Task, Verdict

GENERATED = sorted(set(ENVS) - {"dataset"})
"""The tasks of `dataset` are the rows of a file."""
SPLITS = ("train", "test")
FEW = 3


def ids(env: Any, split: str) -> list[str]:
    tasks = env.tasks(split)
    return [tasks[index].id for index in range(FEW)]


def derived(kind: type[Any]) -> type[Any]:
    """A user's class that extends an environment."""
    return dataclass(frozen=True, kw_only=True)(type("Mine", (kind,), {"__annotations__": {}, "__module__": __name__}))


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("name", GENERATED)
def test_a_class_derived_from_a_shipped_environment_has_its_tasks(name: str, split: str) -> None:
    kind = ENVS[name]
    mine = derived(kind)()
    assert stream_of(mine, "make") == stream_of(kind(), "make") == kind.__name__
    assert stream_of(derived(derived(kind))(), "make") == kind.__name__
    assert ids(mine, split) == ids(kind(), split)


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("name", GENERATED)
def test_a_derived_class_may_ask_for_tasks_of_its_own(name: str, split: str) -> None:
    kind = ENVS[name]
    other = derived(kind)
    other.stream = "Other"
    key = Key(0).at("Other", split=split)
    drawn = (kind().make(key.at("task", index=0, attempt=attempt).random()).id for attempt in range(10_000))
    assert other().tasks(split)[0].id == next(identity for identity in drawn if split_of(identity) == split)


NEEDED: dict[str, dict[str, Any]] = {"taste": {"text": "q", "weight": 1.0}}
"""Options that a control cannot do without. `proxy` needs a model on disk: see test_controlled.py."""


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize(
    "wrapped",
    [
        *(
            pytest.param(partial(Controlled, control=control, **NEEDED.get(control, {})), id=control)
            for control in sorted(CONTROLS.keys() - {"proxy"})
        ),
        pytest.param(lambda: WithTools(env=CharCount(), lent=(CalculatorTool(),)), id="tools"),
    ],
)
def test_a_wrapper_has_the_tasks_of_the_environment_inside(wrapped: Callable[[], Any], split: str) -> None:
    assert ids(wrapped(), split) == ids(CharCount(), split)


@dataclass(frozen=True, kw_only=True)
class Judged(Countdown):
    """Other rewards for the same tasks."""

    def verify(self, task: Task, reply: str) -> Verdict:
        return super().verify(task, reply.upper())


@dataclass(frozen=True, kw_only=True)
class Worded(Arithmetic):
    """The same problems in other words."""

    def make(self, rng: random.Random) -> Task:
        return super().make(rng)


def test_other_rewards_or_other_words_leave_the_problems_as_they_are() -> None:
    assert ids(Judged(seed=5), "test") == ids(Countdown(seed=5), "test") != ids(Countdown(), "test")
    assert ids(Worded(), "train") == ids(Arithmetic(), "train")
    assert [t.id for t in (Judged(shots=2).tasks("test")[0], Countdown(shots=2).tasks("test")[0])] == [
        Countdown().tasks("test")[0].id
    ] * 2


class Sums(SingleTurn):
    """An unfinished environment: `check` is missing."""

    def make(self, rng: random.Random) -> Task:
        return Arithmetic().make(rng)

    def solution(self, task: Task) -> str:
        return str(task.answer)


class Exact(Sums):
    def check(self, task: Task, answer: str) -> bool:
        return answer == str(task.answer)


class Near(Sums):
    def check(self, task: Task, answer: str) -> bool:
        return answer[:1] == str(task.answer)[:1]


class Same(Near):
    stream: ClassVar[str] = "Exact"


def test_an_abstract_class_names_no_stream() -> None:
    assert [stream_of(env, "make") for env in (Exact(), Near(), Same())] == ["Exact", "Near", "Exact"]
    assert ids(Same(), "test") == ids(Exact(), "test") != ids(Near(), "test")


class Wrapper:
    """An environment that makes tasks with another one, and names its stream."""

    seed = 0

    def __init__(self, of: MultiTurn) -> None:
        self.make, self.of = of.make, of

    @property
    def stream(self) -> str:
        return stream_of(self.of, "make")


def test_a_wrapper_that_makes_the_tasks_itself_can_name_the_stream() -> None:
    assert [Tasks(Wrapper(Nim()), "test")[i].id for i in range(FEW)] == ids(Nim(), "test")


def test_environments_that_meant_other_tasks_keep_them() -> None:
    """Those of the hacking bench were keyed by their own class; their runs are on record."""
    assert ids(Loophole(), "test") != ids(CharCount(), "test")
    assert stream_of(Loophole(), "make") == "Loophole"
    assert Proxied.stream == "Proxied"


def test_an_adapter_is_keyed_by_the_library_that_it_opens() -> None:
    class Own(Gym):
        pass

    assert stream_of(object.__new__(Own), "kind") == "Gym"
