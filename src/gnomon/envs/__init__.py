"""Environments: tasks and their judge. One file each; `ENVS` names the ones that ship."""

from __future__ import annotations

from gnomon.envs.arithmetic import Arithmetic
from gnomon.envs.base import Env, Episode, SingleTurn, Step, Tasks, identity
from gnomon.envs.char_count import CharCount
from gnomon.envs.countdown import Countdown
from gnomon.envs.guess_number import GuessNumber
from gnomon.envs.kuhn_poker import KuhnPoker
from gnomon.envs.mastermind import Mastermind
from gnomon.envs.nim import Nim
from gnomon.envs.scramble import Scramble
from gnomon.envs.tic_tac_toe import TicTacToe
from gnomon.envs.turns import Ask, MultiTurn, Play
from gnomon.envs.wordle import Wordle

__all__ = [
    "ENVS",
    "Arithmetic",
    "Ask",
    "CharCount",
    "Countdown",
    "Env",
    "Episode",
    "GuessNumber",
    "KuhnPoker",
    "Mastermind",
    "MultiTurn",
    "Nim",
    "Play",
    "Scramble",
    "SingleTurn",
    "Step",
    "Tasks",
    "TicTacToe",
    "Wordle",
    "identity",
]

ENVS: dict[str, type[Env]] = {
    "arithmetic": Arithmetic,
    "char_count": CharCount,
    "countdown": Countdown,
    "guess_number": GuessNumber,
    "kuhn_poker": KuhnPoker,
    "scramble": Scramble,
    "wordle": Wordle,
    "tic_tac_toe": TicTacToe,
    "nim": Nim,
    "mastermind": Mastermind,
}
