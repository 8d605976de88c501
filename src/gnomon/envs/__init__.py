"""Environments: tasks and their judge. One file each; `ENVS` names the ones that ship."""

from __future__ import annotations

from gnomon.envs.anytime import Anytime
from gnomon.envs.arithmetic import Arithmetic
from gnomon.envs.base import Env, Episode, SingleTurn, Step, Tasks, identity
from gnomon.envs.calculator import Calculator
from gnomon.envs.char_count import CharCount
from gnomon.envs.code import Code
from gnomon.envs.countdown import Countdown
from gnomon.envs.dataset import Dataset
from gnomon.envs.guess_number import GuessNumber
from gnomon.envs.kuhn_poker import KuhnPoker
from gnomon.envs.linear_equation import LinearEquation
from gnomon.envs.list_puzzle import ListPuzzle
from gnomon.envs.mastermind import Mastermind
from gnomon.envs.multiple_choice import MultipleChoice
from gnomon.envs.nim import Nim
from gnomon.envs.number_words import NumberWords
from gnomon.envs.polynomial_product import PolynomialProduct
from gnomon.envs.scramble import Scramble
from gnomon.envs.tic_tac_toe import TicTacToe
from gnomon.envs.turns import Ask, MultiTurn, Play
from gnomon.envs.word_problem import WordProblem
from gnomon.envs.wordle import Wordle

__all__ = [
    "ENVS",
    "Anytime",
    "Arithmetic",
    "Ask",
    "Calculator",
    "CharCount",
    "Code",
    "Countdown",
    "Dataset",
    "Env",
    "Episode",
    "GuessNumber",
    "KuhnPoker",
    "LinearEquation",
    "ListPuzzle",
    "Mastermind",
    "MultiTurn",
    "MultipleChoice",
    "Nim",
    "NumberWords",
    "Play",
    "PolynomialProduct",
    "Scramble",
    "SingleTurn",
    "Step",
    "Tasks",
    "TicTacToe",
    "WordProblem",
    "Wordle",
    "identity",
]

ENVS: dict[str, type[Env]] = {
    "anytime": Anytime,
    "arithmetic": Arithmetic,
    "calculator": Calculator,
    "char_count": CharCount,
    "code": Code,
    "countdown": Countdown,
    "dataset": Dataset,
    "guess_number": GuessNumber,
    "kuhn_poker": KuhnPoker,
    "linear_equation": LinearEquation,
    "list_puzzle": ListPuzzle,
    "mastermind": Mastermind,
    "multiple_choice": MultipleChoice,
    "nim": Nim,
    "number_words": NumberWords,
    "polynomial_product": PolynomialProduct,
    "scramble": Scramble,
    "tic_tac_toe": TicTacToe,
    "word_problem": WordProblem,
    "wordle": Wordle,
}
