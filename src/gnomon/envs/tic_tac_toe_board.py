"""Tic-tac-toe boards, as nine characters by rows, and their values."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache

from gnomon.verifiers import Strictness, extract

__all__ = ["best", "boards_of", "free", "perfect_value", "picture", "put", "value"]

LINES = ("012", "345", "678", "036", "147", "258", "048", "246")

MOVE = re.compile(r"\b[xo] at ([1-9])")
"""How an observation tells a move of the other player."""


def free(board: str) -> tuple[str, ...]:
    return tuple(str(cell + 1) for cell in range(9) if board[cell] == " ")


def put(board: str, cell: str) -> str:
    """The board after the next player marks this cell."""
    at = int(cell) - 1
    return board[:at] + "xo"[board.count("x") - board.count("o")] + board[at + 1 :]


def picture(board: str) -> str:
    """The board as lines of text; a free cell has its number."""
    cells = [mark if mark != " " else str(cell + 1) for cell, mark in enumerate(board)]
    return "\n───┼───┼───\n".join(" " + " │ ".join(cells[row : row + 3]) + " " for row in (0, 3, 6))


def boards_of(turns: Sequence[tuple[str, str]]) -> list[str]:
    """The boards of one player, as `MultiTurn.boards`."""
    board, pictures = " " * 9, []
    for observed, reply in turns:
        for cell in MOVE.findall(observed):
            board = put(board, cell)
        pictures.append(picture(board))
        action = extract(reply, Strictness.TRIMMED).text
        board = put(board, action) if action in free(board) else board
    return [*pictures, picture(board)]


def value(board: str) -> float | None:
    """1 if x has won, -1 if o has won, 0 for a draw, None for an unfinished game."""
    for line in LINES:
        if (row := {board[int(cell)] for cell in line}) in ({"x"}, {"o"}):
            return 1.0 if row == {"x"} else -1.0
    return None if " " in board else 0.0


@cache
def perfect_value(board: str) -> float:
    """The value of a board under perfect play."""
    if (end := value(board)) is not None:
        return end
    after = [perfect_value(put(board, cell)) for cell in free(board)]
    return max(after) if board.count("x") == board.count("o") else min(after)


def best(board: str) -> str:
    """The first action that keeps the board's value."""
    return next(cell for cell in free(board) if perfect_value(put(board, cell)) == perfect_value(board))
