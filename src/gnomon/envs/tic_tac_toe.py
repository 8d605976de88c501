"""Tic-tac-toe: self-play for both players, or one player against a random or perfect opponent."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from gnomon.envs.base import SLOT, identity, user
from gnomon.envs.tic_tac_toe_board import best, boards_of, free, put, value
from gnomon.envs.turns import Ask, MultiTurn, Play
from gnomon.types import Task


@dataclass(frozen=True, kw_only=True)
class TicTacToe(MultiTurn):
    """Cells 1 to 9, by rows; x begins. A single player plays x, and a draw earns 0.5. Tasks differ by their deal."""

    opponent: Literal["self", "random", "perfect"] = "self"

    def make(self, rng: random.Random) -> Task:
        deal = rng.getrandbits(32)
        prompt = f"Tic-tac-toe, cells 1-9. You are x. {SLOT}"
        return Task(id=identity("tic_tac_toe", deal), messages=user(prompt), answer=None, info={"deal": deal})

    def play(self, task: Task, rng: random.Random) -> Play:
        board, text = " " * 9, ""
        while value(board) is None:
            mine, legal = "xo"[board.count("x") - board.count("o")], free(board)
            if mine == "o" and self.opponent != "self":
                cell = rng.choice(legal) if self.opponent == "random" else best(board)
            else:
                rules = f"Tic-tac-toe, cells 1-9. You are o. {SLOT} " if mine == "o" and board.count("x") == 1 else ""
                cell = yield Ask(text=rules + text, legal=legal, player="xo".index(mine), state=board)
            board, text = put(board, cell), f"{mine} at {cell}"
        x = value(board) or 0
        return [x, -x] if self.opponent == "self" else [(x + 1) / 2]

    @classmethod
    def boards(cls, turns: Sequence[tuple[str, str]]) -> list[str]:
        return boards_of(turns)

    @property
    def moves(self) -> int:
        return 9 if self.opponent == "self" else 5

    @property
    def players(self) -> int:
        return 2 if self.opponent == "self" else 1

    def best(self, task: Task, ask: Ask) -> str:
        return best(ask.state)
