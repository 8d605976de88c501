"""Environments: tasks and their judge. One file each; `ENVS` names the ones that ship."""

from __future__ import annotations

from gnomon.envs.arithmetic import Arithmetic
from gnomon.envs.base import Env, Episode, SingleTurn, Step, identity
from gnomon.envs.char_count import CharCount
from gnomon.envs.countdown import Countdown
from gnomon.envs.scramble import Scramble

__all__ = [
    "ENVS",
    "Arithmetic",
    "CharCount",
    "Countdown",
    "Env",
    "Episode",
    "Scramble",
    "SingleTurn",
    "Step",
    "identity",
]

ENVS: dict[str, type[SingleTurn]] = {
    "arithmetic": Arithmetic,
    "char_count": CharCount,
    "countdown": Countdown,
    "scramble": Scramble,
}
