"""Ratings from games between pairs: the Bradley–Terry model, with intervals by bootstrap over deals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from gnomon.keys import Key

__all__ = ["SCALE", "fit", "intervals", "p_value"]

SCALE = 400 / np.log(10)
"""Points of Elo per nat: 400 points are odds of ten to one."""
PRIOR = 1.0
"""Drawn deals that every player is credited with against one of mean strength, so that who won all is finite."""
Pair = tuple[int, int]
Scores = Mapping[Pair, NDArray[np.float64]]
"""By pair, the share of the points of each deal that the first of the two took, 0 … 1."""


def fit(players: int, scores: Scores) -> NDArray[np.float64]:
    """Ratings in points of Elo, with mean zero.

    Equation: the maximum of Σ s·log σ(θᵢ − θⱼ) + (1 − s)·log σ(θⱼ − θᵢ) over all deals, with `PRIOR` drawn deals of
        every player against strength zero.
    Source: Bradley & Terry 1952, Biometrika 39.
    Differs: shares of points between 0 and 1 count as shares of a win.
    """
    counts = {pair: float(len(values)) for pair, values in scores.items()}
    return _fit(players, counts, {pair: float(values.sum()) for pair, values in scores.items()})


def _fit(players: int, counts: Mapping[Pair, float], won: Mapping[Pair, float]) -> NDArray[np.float64]:
    """Newton's method: the sum is concave, and strictly so by its prior."""
    theta = np.zeros(players)
    for _ in range(50):
        chance = 1 / (1 + np.exp(-theta))
        slope, curve = PRIOR * (0.5 - chance), np.diag(PRIOR * chance * (1 - chance))
        for (i, j), count in counts.items():
            p = 1 / (1 + np.exp(theta[j] - theta[i]))
            gradient, bend = won[i, j] - count * p, count * p * (1 - p)
            slope[i] += gradient
            slope[j] -= gradient
            curve[i, i] += bend
            curve[j, j] += bend
            curve[i, j] -= bend
            curve[j, i] -= bend
        step = np.linalg.solve(curve, slope)
        theta += np.clip(step, -2, 2)
        if np.abs(step).max() < 1e-10:
            break
    theta -= theta.mean()
    return np.asarray(SCALE * theta)


def intervals(players: int, scores: Scores, key: Key, rounds: int = 1000) -> list[tuple[float, float]]:
    """95 % intervals of the ratings: the deals of every pair are drawn again, with replacement."""
    rng, drawn = generator(key), []
    for _ in range(rounds):
        won = {pair: float(rng.choice(values, len(values)).sum()) for pair, values in scores.items()}
        drawn.append(_fit(players, {pair: float(len(values)) for pair, values in scores.items()}, won))
    low, high = np.percentile(np.array(drawn), [2.5, 97.5], axis=0)
    return list(zip(low.tolist(), high.tolist(), strict=True))


def p_value(gains: Sequence[float], key: Key, rounds: int = 9999) -> float:
    """Two-sided, by random signs: between equals every deal's gain might as well be its opposite.

    It is at least 1/(rounds + 1).
    """
    values = np.array([gain for gain in gains if gain])
    if not len(values):
        return 1.0
    rng, reached, seen = generator(key), 0, abs(float(values.sum()))
    for start in range(0, rounds, 1000):
        signs = rng.integers(0, 2, (min(1000, rounds - start), len(values)), dtype=np.int8) * 2 - 1
        # What equals the sum that was seen must count, whatever the order of the additions did to its last bits.
        reached += int((np.abs(signs @ values) >= seen - 1e-9).sum())
    return (1 + reached) / (1 + rounds)


def generator(key: Key) -> np.random.Generator:
    first, second = key.words
    return np.random.Generator(np.random.Philox(key=np.array([first, second], dtype=np.uint64)))
