"""Environments whose tasks are drawings: the bytes are fixed, the answer is what is drawn, and wrong answers fail."""

from collections.abc import Callable
from pathlib import Path

import pytest

import gnomon
from gnomon.envs.base import SingleTurn
from gnomon.envs.count_shapes import CountShapes
from gnomon.envs.drawing import COLOURS
from gnomon.envs.maze import CELL, MOVES, Maze
from gnomon.envs.read_clock import ReadClock
from gnomon.images import Image
from gnomon.keys import Key
from gnomon.store.layout import IMAGES
from gnomon.types import Status, Task
from models.seeing import seeing

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


def test_a_maze_is_drawn_again_after_every_move() -> None:
    env = Maze()
    tasks = [env.tasks("train")[index] for index in range(40)]
    assert tasks[0].messages[-1].images[0].sha256[:12] == "5841dc7b9df9"
    for task in tasks:
        assert len(task.info["halls"]) == 2 * (env.cells**2 - 1), "one way leads from any cell to any other"
        episode, shown = env.start(task, Key(0)), list[Image]()
        assert episode.messages == task.messages
        shown += task.messages[-1].images
        while not (step := episode.step(env.expert(task, episode))).done:
            (message,) = step.messages
            assert message.images[0] not in shown, "the expert never goes back"
            shown += message.images
        assert step.verdict is not None and step.verdict.correct


def test_a_move_into_a_wall_changes_nothing_and_counts() -> None:
    env = Maze()
    task = next(t for t in (env.tasks("train")[i] for i in range(99)) if t.info["start"] == (0, 0))
    expert = env.start(task, Key(0))
    least = 1
    while not expert.step(env.expert(task, expert)).done:
        least += 1
    episode = env.start(task, Key(0))
    for _ in range(least + env.spare - 1):
        assert episode.step("<answer>up</answer>").messages[0].images == task.messages[-1].images
    end = episode.step("<answer>left</answer>")
    assert end.done and end.verdict is not None and end.verdict.status is Status.WRONG


@pytest.mark.needs("PIL")
def test_the_walls_of_a_cell_are_drawn_within_it() -> None:
    """So a patch of a vision tower shows which moves are possible."""
    task = Maze().tasks("train")[0]
    picture = task.messages[-1].images[0].pixels()
    assert picture.size == (4 * CELL, 4 * CELL)
    for x in range(4):
        for y in range(4):
            patch = picture.crop((CELL * x, CELL * y, CELL * x + CELL, CELL * y + CELL))
            edges = {
                "up": (CELL // 2, 0),
                "down": (CELL // 2, CELL - 1),
                "left": (0, CELL // 2),
                "right": (CELL - 1, CELL // 2),
            }
            for move, edge in edges.items():
                hall = ((x, y), (x + MOVES[move][0], y + MOVES[move][1])) in task.info["halls"]
                assert patch.getpixel(edge) == COLOURS["white" if hall else "black"]
            colour = "red" if (x, y) == task.info["start"] else "green" if (x, y) == task.info["goal"] else "white"
            assert patch.getpixel((CELL // 2, CELL // 2)) == COLOURS[colour]


@pytest.mark.needs("PIL")
def test_a_maze_reaches_a_policy_that_sees_turn_by_turn(tmp_path: Path) -> None:
    """In another process, and back: each prompt has one image more, and the run folder has them all."""

    policy = seeing(tmp_path / "llava", "llava")
    small = {"steps": 1, "prompts": 2, "group": 2, "rollout.max_tokens": 4, "eval.tasks": 2, "quiet": True}
    with gnomon.train("maze", policy=str(policy), run=tmp_path / "run", **small) as run:
        bodies = [record.body for record in run.records() if record.kind == "rollout"]
    for body in bodies:
        seen = [len(message.get("images", ())) for turn in body["turns"] for message in turn["messages"]]
        assert len(seen) >= 2 and seen[0] == 1
    messages = [message for body in bodies for turn in body["turns"] for message in turn["messages"]]
    names = {name for message in messages for name in message.get("images", ())}
    assert names <= {path.stem for path in (tmp_path / "run" / IMAGES).iterdir()}
