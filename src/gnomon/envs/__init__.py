"""Environments: tasks and the code that judges replies, one file each. `ENVS` maps names to the shipped classes.

An environment is imported on first use, so a command loads only the ones it needs.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from gnomon.envs.base import Env, Episode, SingleTurn, Step, Tasks, identity

if TYPE_CHECKING:
    from gnomon.envs.agent import Agent, End
    from gnomon.envs.anytime import Anytime
    from gnomon.envs.arithmetic import Arithmetic
    from gnomon.envs.calculator import Calculator
    from gnomon.envs.char_count import CharCount
    from gnomon.envs.code import Code
    from gnomon.envs.count_shapes import CountShapes
    from gnomon.envs.countdown import Countdown
    from gnomon.envs.dataset import Dataset
    from gnomon.envs.guess_number import GuessNumber
    from gnomon.envs.kuhn_poker import KuhnPoker
    from gnomon.envs.linear_equation import LinearEquation
    from gnomon.envs.list_puzzle import ListPuzzle
    from gnomon.envs.mastermind import Mastermind
    from gnomon.envs.maze import Maze
    from gnomon.envs.multiple_choice import MultipleChoice
    from gnomon.envs.nim import Nim
    from gnomon.envs.number_words import NumberWords
    from gnomon.envs.polynomial_product import PolynomialProduct
    from gnomon.envs.read_clock import ReadClock
    from gnomon.envs.repair import Repair
    from gnomon.envs.scramble import Scramble
    from gnomon.envs.tic_tac_toe import TicTacToe
    from gnomon.envs.turns import Ask, MultiTurn, Play
    from gnomon.envs.word_problem import WordProblem
    from gnomon.envs.wordle import Wordle

__all__ = [
    "ENVS",
    "Agent",
    "Anytime",
    "Arithmetic",
    "Ask",
    "Calculator",
    "CharCount",
    "Code",
    "CountShapes",
    "Countdown",
    "Dataset",
    "End",
    "Env",
    "Episode",
    "GuessNumber",
    "KuhnPoker",
    "LinearEquation",
    "ListPuzzle",
    "Mastermind",
    "Maze",
    "MultiTurn",
    "MultipleChoice",
    "Nim",
    "NumberWords",
    "Play",
    "PolynomialProduct",
    "ReadClock",
    "Repair",
    "Scramble",
    "SingleTurn",
    "Step",
    "Tasks",
    "TicTacToe",
    "WordProblem",
    "Wordle",
    "identity",
]

NAMES = (
    "anytime",
    "arithmetic",
    "calculator",
    "char_count",
    "code",
    "count_shapes",
    "countdown",
    "dataset",
    "guess_number",
    "kuhn_poker",
    "linear_equation",
    "list_puzzle",
    "mastermind",
    "maze",
    "multiple_choice",
    "nim",
    "number_words",
    "polynomial_product",
    "read_clock",
    "repair",
    "scramble",
    "tic_tac_toe",
    "word_problem",
    "wordle",
)
"""Names of the shipped environments. Each is a module of this package; its class has the same name in CamelCase."""
TURNS = ("Ask", "MultiTurn", "Play")
"""Names from `gnomon.envs.turns`, for environments of several turns."""
AGENTS = ("Agent", "End")
"""Names from `gnomon.envs.agent`, for environments whose episode is a program."""


class Shipped(Mapping[str, type[Env]]):
    """Maps names to classes. Looking up a class imports its module; listing names imports nothing."""

    def __getitem__(self, name: str) -> type[Env]:
        if name not in self:
            raise KeyError(name)
        kind: type[Env] = getattr(importlib.import_module(f"{__name__}.{name}"), capitals(name))
        return kind

    def __contains__(self, name: object) -> bool:
        return name in NAMES

    def __iter__(self) -> Iterator[str]:
        return iter(NAMES)

    def __len__(self) -> int:
        return len(NAMES)


def capitals(name: str) -> str:
    """`kuhn_poker` as `KuhnPoker`."""
    return "".join(word.title() for word in name.split("_"))


ENVS = Shipped()


def __getattr__(name: str) -> Any:
    if name in TURNS:
        return getattr(importlib.import_module(f"{__name__}.turns"), name)
    if name in AGENTS:
        return getattr(importlib.import_module(f"{__name__}.agent"), name)
    for env in NAMES:
        if capitals(env) == name:
            return ENVS[env]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
