"""The exact value of hands and strategies of Kuhn poker, by enumeration."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from math import fsum

__all__ = ["CARDS", "ENDS", "STATES", "VALUE", "equilibrium", "exploitability", "payoff", "value"]

CARDS = "jqk"
"""From the lowest."""
ENDS = ("pp", "pbp", "pbb", "bp", "bb")
"""The lines of passes and bets that end a hand."""

VALUE = -1 / 18
"""Chips per hand that the first player wins in equilibrium."""
DEALS = tuple(map("".join, itertools.permutations(CARDS, 2)))
LINES = (("", "pb"), ("p", "b"))
"""The lines after which the first and the second player act."""
STATES = tuple((card, line) for lines in LINES for card in CARDS for line in lines)
"""The information states: the player's card and the line so far."""

Strategy = Mapping[tuple[str, str], float]
"""The probability of a bet in each of `STATES`."""


def payoff(cards: str, line: str) -> float:
    """Chips that the first player wins by a finished line. Args: cards, the first player's and the second's."""
    if line in ("pbp", "bp"):
        return 1.0 if line == "bp" else -1.0
    stake = 2.0 if line.endswith("b") else 1.0
    return stake if CARDS.index(cards[0]) > CARDS.index(cards[1]) else -stake


def equilibrium(alpha: float = 0.0) -> dict[tuple[str, str], float]:
    """An equilibrium strategy. Args: alpha, probability that the first player opens with J, 0 … ⅓.

    Source: Kuhn 1950; Hoehn et al. 2005, "Effective short-term opponent exploitation in simplified poker".
    """
    if not 0 <= alpha <= 1 / 3:
        raise ValueError(f"alpha is {alpha}; it must be 0 to 1/3")
    bets = {("j", ""): alpha, ("k", ""): 3 * alpha, ("q", "pb"): alpha + 1 / 3, ("k", "pb"): 1.0}
    bets |= {("j", "p"): 1 / 3, ("k", "p"): 1.0, ("q", "b"): 1 / 3, ("k", "b"): 1.0}
    return {state: bets.get(state, 0.0) for state in STATES}


def value(first: Strategy, second: Strategy) -> float:
    """Chips per hand that the first player wins, in expectation over the six deals and both players' draws."""
    return fsum(_winnings(cards, "", (first, second)) for cards in DEALS) / len(DEALS)


def exploitability(strategy: Strategy) -> float:
    """Chips per hand that a best response wins against a strategy that plays each position half of the time.

    Half the sum of the best responses' values in both positions. It is 0 only for an equilibrium.

    Args: strategy: for both players. Raises: ValueError if a state is missing or its value is not a probability.
    """
    if wrong := [state for state in STATES if not 0 <= strategy.get(state, -1.0) <= 1]:
        raise ValueError(f"the strategy has no probability of a bet for {wrong}")
    as_first = max(value(pure, strategy) for pure in _pure(LINES[0]))
    as_second = max(-value(strategy, pure) for pure in _pure(LINES[1]))
    return (as_first + as_second) / 2


def _winnings(cards: str, line: str, players: tuple[Strategy, Strategy]) -> float:
    if line in ENDS:
        return payoff(cards, line)
    player = len(line) % 2
    bet = players[player][cards[player], line]
    return (bet and bet * _winnings(cards, line + "b", players)) + (
        (1 - bet) and (1 - bet) * _winnings(cards, line + "p", players)
    )


def _pure(lines: tuple[str, str]) -> Iterable[dict[tuple[str, str], float]]:
    """Every pure strategy of a player. One of them is a best response."""
    states = [(card, line) for card in CARDS for line in lines]
    return (dict(zip(states, bets, strict=True)) for bets in itertools.product((0.0, 1.0), repeat=len(states)))
