"""Environments whose tasks are drawings: the bytes are fixed, the answer is what is drawn, and wrong answers fail."""

from collections.abc import Callable

import pytest

from gnomon.envs.base import SingleTurn
from gnomon.envs.count_shapes import CountShapes
from gnomon.envs.read_clock import ReadClock
from gnomon.keys import Key
from gnomon.types import Status, Task

ENVS: list[tuple[Callable[[], SingleTurn], str]] = [(CountShapes, "91d13d6b73da"), (ReadClock, "39c5fa2b763e")]


def first(env: SingleTurn, split: str = "train") -> list[Task]:
    return [env.tasks(split)[index] for index in range(20)]


@pytest.mark.parametrize("make, name", ENVS)
def test_drawings_are_fixed_and_judged(make: Callable[[], SingleTurn], name: str) -> None:
    env = make()
    tasks = first(env)
    assert tasks[0].messages[-1].images[0].sha256[:12] == name
    for task, other in zip(tasks, [*tasks[1:], tasks[0]], strict=True):
        assert env.verify(task, env.framed(env.solution(task))).correct
        assert env.verify(task, env.framed(env.solution(other))).correct == (other.answer == task.answer)
        mutation = env.mutate(task, Key(0))
        assert mutation.id != task.id and env.verify(mutation, env.framed(env.solution(mutation))).correct
    unseen = {task.messages[-1].images for task in first(env, "test")}
    assert not unseen & {task.messages[-1].images for task in tasks}


def test_a_count_is_the_number_of_drawn_shapes() -> None:
    for task in first(CountShapes(most=6, cells=5)):
        kinds = [kind for _, kind, _ in task.info["shapes"]]
        assert task.answer == kinds.count(task.info["shape"]) >= 1


@pytest.mark.parametrize("reply", ["3", "3:5", "03:5", "quarter past three", "3:05 pm", "3:99"])
def test_other_spellings_of_a_time_are_not_correct(reply: str) -> None:
    env = ReadClock()
    verdict = env.verify(first(env)[0], env.framed(reply))
    assert not verdict.correct and verdict.status in (Status.MALFORMED, Status.WRONG)


def test_shapes_without_room_are_refused() -> None:
    with pytest.raises(ValueError, match="no room"):
        CountShapes(most=16)
