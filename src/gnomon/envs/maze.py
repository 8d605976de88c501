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
"""Pixels of a cell and of a wall."""
MOVES = {"up": (0, -1), "down": (0, 1), "left": (-1, 0), "right": (1, 0)}
Cell = tuple[int, int]
"""Column and row."""
Halls = frozenset[tuple[Cell, Cell]]
"""Pairs of neighbours without a wall between them, in both orders."""


@dataclass(frozen=True, kw_only=True)
class Maze(MultiTurn):
    """A maze without loops: one way leads to the goal. A move into a wall changes nothing."""

    cells: int = 3
    """Cells of a side."""
    spare: int = 2
    """Moves beyond those of the longest way that is possible."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.cells < 2 or self.spare < 0:
            raise ValueError(f"cells is {self.cells} and spare {self.spare}; they must be at least 2 and 0")

    def make(self, rng: random.Random) -> Task:
        halls = dug(self.cells, rng)
        start, goal = rng.sample([(x, y) for x in range(self.cells) for y in range(self.cells)], 2)
        (question,) = user(f"Red to green: up, down, left or right? {SLOT}")
        return Task(
            id=identity("maze", self.cells, sorted(halls), start, goal),
            messages=(replace(question, images=(self.drawn(halls, start, goal),)),),
            answer=None,
            info={"halls": halls, "start": start, "goal": goal},
        )

    def play(self, task: Task, rng: random.Random) -> Play:
        halls, cell, goal = task.info["halls"], task.info["start"], task.info["goal"]
        images: tuple[Image, ...] = ()  # The first drawing is in the task's message.
        for _ in range(self.moves):
            move = yield Ask(images=images, legal=MOVES, state=cell)
            across, down = MOVES[move]
            ahead = (cell[0] + across, cell[1] + down)
            cell = ahead if (cell, ahead) in halls else cell
            if cell == goal:
                return [1.0]
            images = (self.drawn(halls, cell, goal),)
        return [0.0]

    @property
    def moves(self) -> int:
        return self.cells**2 - 1 + self.spare

    def best(self, task: Task, ask: Ask) -> str:
        """The first move of the way to the goal."""
        ways = {task.info["goal"]: ""}
        fresh = [task.info["goal"]]
        while ask.state not in ways:
            cell = fresh.pop(0)
            for move, (across, down) in MOVES.items():
                behind = (cell[0] - across, cell[1] - down)
                if (behind, cell) in task.info["halls"] and behind not in ways:
                    ways[behind] = move
                    fresh.append(behind)
        return ways[ask.state]

    def drawn(self, halls: Halls, player: Cell, goal: Cell) -> Image:
        canvas = Canvas(CELL * (2 * self.cells + 1))
        rooms = [((x, y), (x, y)) for x in range(self.cells) for y in range(self.cells)]
        canvas.square("black", 0, 0, canvas.side)
        for one, other in (*rooms, *sorted(halls)):
            fill(canvas, "white", one[0] + other[0] + 1, one[1] + other[1] + 1)
        fill(canvas, "green", 2 * goal[0] + 1, 2 * goal[1] + 1)
        fill(canvas, "red", 2 * player[0] + 1, 2 * player[1] + 1)
        return Image.of(canvas.png())


def fill(canvas: Canvas, colour: str, column: int, row: int) -> None:
    canvas.square(colour, column * CELL, row * CELL, CELL)


def dug(cells: int, rng: random.Random) -> Halls:
    """The halls of a random maze: from a cell, dig to a neighbour that no hall reaches, or go back."""
    way, visited, halls = [(rng.randrange(cells), rng.randrange(cells))], set[Cell](), set[tuple[Cell, Cell]]()
    while way:
        x, y = way[-1]
        visited.add((x, y))
        near = [(x + across, y + down) for across, down in MOVES.values()]
        fresh = [(i, j) for i, j in near if 0 <= i < cells and 0 <= j < cells and (i, j) not in visited]
        if not fresh:
            way.pop()
            continue
        way.append(rng.choice(fresh))
        halls |= {((x, y), way[-1]), (way[-1], (x, y))}
    return frozenset(halls)
