"""Environments: tasks and their judge. One file each; `ENVS` names the ones that ship."""

from __future__ import annotations

from gnomon.envs.arithmetic import Arithmetic
from gnomon.envs.base import Env, Episode, SingleTurn, Step, Tasks, identity
from gnomon.envs.char_count import CharCount
from gnomon.envs.countdown import Countdown
from gnomon.envs.guess_number import GuessNumber
from gnomon.envs.kuhn_poker import KuhnPoker
from gnomon.envs.scramble import Scramble
from gnomon.envs.turns import Ask, MultiTurn, Play

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
    "MultiTurn",
    "Play",
    "Scramble",
    "SingleTurn",
    "Step",
    "Tasks",
    "identity",
]

ENVS: dict[str, type[Env]] = {
    "arithmetic": Arithmetic,
    "char_count": CharCount,
    "countdown": Countdown,
    "guess_number": GuessNumber,
    "kuhn_poker": KuhnPoker,
    "scramble": Scramble,
}
