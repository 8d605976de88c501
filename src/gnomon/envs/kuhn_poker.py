"""Kuhn poker: three cards, one betting round, two players; its equilibria are known (`gnomon.envs.kuhn_value`)."""

from __future__ import annotations

import random
from dataclasses import dataclass

from gnomon.envs.base import SLOT, identity, user
from gnomon.envs.kuhn_value import CARDS, ENDS, payoff
from gnomon.envs.turns import Ask, MultiTurn, Play
from gnomon.types import Task


@dataclass(frozen=True, kw_only=True)
class KuhnPoker(MultiTurn):
    """Each player puts in one chip and sees its own card of J < Q < K. A bet adds a chip; a pass after a bet folds.

    Payoffs are chips won or lost. There are six deals; a number makes the tasks of one deal distinct.
    Source: Kuhn 1950, "A simplified two-person poker".
    """

    def make(self, rng: random.Random) -> Task:
        cards, deal = "".join(rng.sample(CARDS, 2)), rng.getrandbits(32)
        messages = user(observation(cards[0], ""))
        return Task(id=identity("kuhn_poker", cards, deal), messages=messages, answer=cards, info={"deal": deal})

    def play(self, task: Task, rng: random.Random) -> Play:
        line = ""
        while line not in ENDS:
            player = len(line) % 2
            text = "" if not line else observation(task.answer[1], line) if player else "They bet."
            line += (yield Ask(text=text, legal=("pass", "bet"), player=player, state=(task.answer[player], line)))[0]
        won = payoff(task.answer, line)
        return [won, -won]

    @property
    def moves(self) -> int:
        return 3

    @property
    def players(self) -> int:
        return 2

    @property
    def payoffs(self) -> tuple[float, float]:
        return -2.0, 2.0

    def best(self, task: Task, ask: Ask) -> str:
        """The most likely action in the equilibrium in which the first player never opens."""
        card, line = ask.state
        return "bet" if card == "k" and line else "pass"


def observation(card: str, line: str) -> str:
    """The first observation of a player: its card, and the other player's action."""
    before = {"": "", "p": " They pass.", "b": " They bet."}[line]
    return f"Kuhn poker. Card {card.upper()}.{before} pass or bet? {SLOT}"
