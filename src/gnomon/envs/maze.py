"""Maze: find the way to the green square. Every move draws the maze again."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

from gnomon.envs.base import SLOT, identity, user
from gnomon.envs.drawing import Canvas
from gnomon.envs.turns import Ask, MultiTurn, Play
from gnomon.images import Image
from gnomon.types import Task

CELL = 8
"""Pixels of a cell. Its walls are lines within it, so that a patch of a vision tower shows all of them."""
MOVES = {"up": (0, -1), "down": (0, 1), "left": (-1, 0), "right": (1, 0)}
Cell = tuple[int, int]
"""Column and row."""
Halls = frozenset[tuple[Cell, Cell]]
"""Pairs of neighbours without a wall between them, in both orders."""


@dataclass(frozen=True, kw_only=True)
class Maze(MultiTurn):
    """A maze without loops: one way leads to the goal. A move into a wall changes nothing."""

    cells: int = 4
    """Cells of a side."""
    spare: int = 2
    """Moves beyond those of the way to the goal."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.cells < 2 or self.spare < 0:
            raise ValueError(f"cells is {self.cells} and spare {self.spare}; they must be at least 2 and 0")

    def make(self, rng: random.Random) -> Task:
        halls = dig(self.cells, rng)
        start, goal = rng.sample([(x, y) for x in range(self.cells) for y in range(self.cells)], 2)
        (question,) = user(f"Red to green: up, down, left or right? {SLOT}")
        return Task(
            id=identity("maze", self.cells, sorted(halls), start, goal),
            messages=(replace(question, images=(self.draw(halls, start, goal),)),),
            answer=None,
            info={"halls": halls, "start": start, "goal": goal},
        )

    def play(self, task: Task, rng: random.Random) -> Play:
        halls, cell, goal = task.info["halls"], task.info["start"], task.info["goal"]
        images: tuple[Image, ...] = ()  # The first drawing is in the task's message.
        for _ in range(len(way(halls, cell, goal)) + self.spare):
            move = yield Ask(images=images, legal=MOVES, state=cell)
            across, down = MOVES[move]
            ahead = (cell[0] + across, cell[1] + down)
            cell = ahead if (cell, ahead) in halls else cell
            if cell == goal:
                return [1.0]
            images = (self.draw(halls, cell, goal),)
        return [0.0]

    @property
    def moves(self) -> int:
        return self.cells**2 - 1 + self.spare

    def best(self, task: Task, ask: Ask) -> str:
        """The first move of the way to the goal."""
        return way(task.info["halls"], ask.state, task.info["goal"])[0]

    def draw(self, halls: Halls, player: Cell, goal: Cell) -> Image:
        canvas = Canvas(CELL * self.cells)
        canvas.square("black", 0, 0, canvas.side)
        rooms = [((x, y), (x, y)) for x in range(self.cells) for y in range(self.cells)]
        for (x, y), (i, j) in (*rooms, *halls):
            canvas.square("white", CELL * x + 1 + i - x, CELL * y + 1 + j - y, CELL - 2)
        for colour, (x, y) in (("green", goal), ("red", player)):
            canvas.square(colour, CELL * x + 2, CELL * y + 2, CELL - 4)
        return Image.of(canvas.png())


def way(halls: Halls, cell: Cell, goal: Cell) -> tuple[str, ...]:
    """The moves of the shortest way to the goal."""
    ways: dict[Cell, tuple[str, ...]] = {cell: ()}
    fresh = [cell]
    while goal not in ways:
        x, y = cell = fresh.pop(0)
        for move, (across, down) in MOVES.items():
            ahead = (x + across, y + down)
            if (cell, ahead) in halls and ahead not in ways:
                ways[ahead] = (*ways[cell], move)
                fresh.append(ahead)
    return ways[goal]


def dig(cells: int, rng: random.Random) -> Halls:
    """The halls of a random maze: walls in random order, of which each goes unless another way leads around it."""
    rooms = [(x, y) for x in range(cells) for y in range(cells)]
    walls = [((x, y), near) for x, y in rooms for near in ((x + 1, y), (x, y + 1)) if max(near) < cells]
    areas, halls = {room: {room} for room in rooms}, set[tuple[Cell, Cell]]()
    for one, other in rng.sample(walls, len(walls)):
        if areas[one] is not areas[other]:
            areas[one] |= areas[other]
            areas |= dict.fromkeys(areas[other], areas[one])
            halls |= {(one, other), (other, one)}
    return frozenset(halls)
