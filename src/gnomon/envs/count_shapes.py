"""Count shapes: how many circles, squares or triangles a drawing has. All counts are equally likely."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from functools import partial

from gnomon.envs.base import SLOT, SingleTurn, identity, user
from gnomon.envs.drawing import Canvas
from gnomon.images import Image
from gnomon.types import Task
from gnomon.verifiers import integer

SHAPES = ("circle", "square", "triangle")
COLOURS = ("red", "green", "blue")
CELL = 8
"""Pixels of a cell; a cell has at most one shape."""
Shapes = tuple[tuple[int, str, str], ...]
"""Cell, shape and colour."""


@dataclass(frozen=True, kw_only=True)
class CountShapes(SingleTurn):
    """The answer is drawn first, uniformly, so that no constant answer is better than chance."""

    most: int = 4
    """Largest answer; the smallest is 1."""
    others: int = 2
    """Most shapes of other kinds."""
    cells: int = 4
    """Cells of a side."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 1 <= self.most <= self.cells**2 - self.others or self.others < 0:
            raise ValueError(f"{self.cells} x {self.cells} cells have no room for {self.most} + {self.others} shapes")

    def make(self, rng: random.Random) -> Task:
        shape, count, others = rng.choice(SHAPES), rng.randint(1, self.most), rng.randint(0, self.others)
        kinds = [shape] * count + [rng.choice([each for each in SHAPES if each != shape]) for _ in range(others)]
        places = rng.sample(range(self.cells**2), len(kinds))
        shapes = [(cell, kind, rng.choice(COLOURS)) for cell, kind in zip(places, kinds, strict=True)]
        return question_of(shape, tuple(sorted(shapes)), self.cells)

    def neighbour(self, task: Task, rng: random.Random) -> Task:
        """The task with one shape in another colour, in another cell, or of another kind."""
        shapes, at = list(task.info["shapes"]), rng.randrange(len(task.info["shapes"]))
        cell, kind, _ = shapes[at]
        free = [each for each in range(self.cells**2) if all(each != other for other, _, _ in shapes)]
        new = rng.choice([*free, cell]) if free else cell
        counted = [other for _, other, _ in shapes].count(task.info["shape"])
        kinds = [each for each in SHAPES if each == kind or 1 <= counted + self._more(task, kind, each) <= self.most]
        shapes[at] = (new, rng.choice(kinds), rng.choice(COLOURS))
        return question_of(task.info["shape"], tuple(sorted(shapes)), self.cells)

    def _more(self, task: Task, kind: str, other: str) -> int:
        return int(other == task.info["shape"]) - int(kind == task.info["shape"])

    def difficulty(self, task: Task) -> float:
        """Number of shapes."""
        return len(task.info["shapes"])

    def check(self, task: Task, answer: str) -> bool:
        return integer(answer) == int(task.answer)

    def solution(self, task: Task) -> str:
        return str(task.answer)


def question_of(shape: str, shapes: Shapes, cells: int) -> Task:
    (question,) = user(f"How many {shape}s? {SLOT}")
    return Task(
        id=identity("count_shapes", shape, shapes, cells),
        messages=(replace(question, images=(picture(shapes, cells),)),),
        answer=sum(kind == shape for _, kind, _ in shapes), info={"shape": shape, "shapes": shapes},
    )  # fmt: skip


def picture(shapes: Shapes, cells: int) -> Image:
    canvas = Canvas(cells * CELL)
    for cell, kind, colour in shapes:
        left, top = cell % cells * CELL, cell // cells * CELL
        canvas.fill(colour, partial(inside, kind, left, top), (left, top, left + CELL, top + CELL))
    return Image.of(canvas.png())


def inside(kind: str, left: int, top: int, x: float, y: float) -> bool:
    """Whether a point lies in the shape of a cell. Args: left, top: corner of the cell."""
    across, down = (x - left) / (CELL - 1), (y - top) / (CELL - 1)
    if kind == "square":
        return 0 < across < 1 and 0 < down < 1
    if kind == "circle":
        return (across - 0.5) ** 2 + (down - 0.5) ** 2 < 0.25
    return 0 < down < 1 and abs(across - 0.5) < down / 2
