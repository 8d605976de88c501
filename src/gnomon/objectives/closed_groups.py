"""Closed forms of expected gradients where tokens are compared at a position, turns in a state, or answers by reward.

As in `closed`, none takes the credit of a group: the rest of a group matters through sums over its members.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

from gnomon.objectives.closed import sums
from gnomon.objectives.target import Chances, ClosedForm, Seen, Shape

__all__ = ["pairs_by_target", "position_baseline", "states", "turns", "with_tokens_of_best"]


def position_baseline(text: str) -> ClosedForm:
    """Rewards less their mean at each position, every rollout by its squared score so far, itself included.

    Equation: hₜ = r − Σ P(n, U, W)·1[n > 0]·(r·w + U)/(w + W), over the sums of N−1 rollouts.
    """
    return ClosedForm(shape=_position_baseline, text=text)


def _position_baseline(law: Chances, group: int, max_tokens: int) -> Shape:
    def so_far(rollout: Seen, position: int) -> float:
        return math.fsum(1 - 2 * math.exp(rollout.logp[at]) + rollout.collision[at] for at in range(position + 1))

    def count(rollout: Seen, *, position: int) -> tuple[float, ...]:
        """Whether it has a token there, its reward times its squared score, and that score."""
        if rollout.length <= position:
            return 0, 0.0, 0.0
        return 1, rollout.reward * so_far(rollout, position), so_far(rollout, position)

    others = [sums(law, partial(count, position=position), group - 1) for position in range(max_tokens)]

    def h(own: Seen) -> Sequence[float]:
        return [
            own.reward
            - math.fsum(
                chance * (own.reward * so_far(own, position) + earned) / (so_far(own, position) + total)
                for (met, earned, total), chance in others[position].items()
                if met
            )
            for position in range(own.length)
        ]

    return h


def states(gamma: float, weights: Sequence[float], text: str, *, weight: float, rollouts: float) -> ClosedForm:
    """Returns of turns less their means over turns with the same past, every token a turn.

    Equation: hₜ = (c·(1 − 1/N)(R − E[R]) + ω·E[Σ_h w_h·(G_t − (g_h + S_h)/(k_h + n_h)) / Σ_h w_h]) / L_max, over h with
        k_h + n_h > 1, from the sums (n_h, S_h) of N−1 rollouts over their turns with the same last h + 1 observations.
    Args: weights, w_h of h = 0, 1, …; weight, ω; rollouts, c.
    """
    return ClosedForm(shape=partial(_states, gamma=gamma, weights=weights, weight=weight, rollouts=rollouts), text=text)


def _states(
    law: Chances, group: int, max_tokens: int, *, gamma: float, weights: Sequence[float], weight: float, rollouts: float
) -> Shape:
    def to_come(rollout: Seen, turn: int) -> float:
        return math.fsum(gamma ** (k - turn) * rollout.early[k] for k in range(turn, rollout.length))

    def visits(rollout: Seen, *, past: tuple[int, ...]) -> tuple[float, ...]:
        """For h = 0, 1, …: turns whose last h + 1 observations are the last of this past, and what they earn."""
        sums: list[float] = []
        for depth in range(len(past)):
            turns = [
                turn
                for turn in range(depth, rollout.length)
                if rollout.observations[turn - depth : turn + 1] == past[len(past) - 1 - depth :]
            ]
            sums += [len(turns), math.fsum(to_come(rollout, turn) for turn in turns)]
        return tuple(sums)

    whole = {id(rollout): math.fsum(rollout.early[: rollout.length]) for rollout, _ in law}
    mean = math.fsum(whole[id(rollout)] * chance for rollout, chance in law)
    met: dict[tuple[int, ...], dict[tuple[float, ...], float]] = {}

    def apart(own: Seen, turn: int) -> float:
        past = own.observations[max(0, turn + 1 - len(weights)) : turn + 1]
        if past not in met:
            met[past] = sums(law, partial(visits, past=past), group - 1)
        mine, value, total = visits(own, past=past), to_come(own, turn), 0.0
        for others, chance in met[past].items():
            both = [a + b for a, b in zip(mine, others, strict=True)]
            levels = [(w, both[2 * h], both[2 * h + 1]) for h, w in enumerate(weights[: len(past)]) if both[2 * h] > 1]
            if levels:
                share = math.fsum(w for w, _, _ in levels)
                total += chance * math.fsum(w * (value - earned / count) for w, count, earned in levels) / share
        return total

    def h(own: Seen) -> Sequence[float]:
        ahead = rollouts * (1 - 1 / group) * (whole[id(own)] - mean)
        return [(ahead + weight * apart(own, turn)) / max_tokens for turn in range(own.length)]

    return h


def turns(compared: str, gamma: float, text: str) -> ClosedForm:
    """What is earned from each turn on, less a mean within the group, every token a turn.

    Equation: hₖ = (1 − 1/N) G_k / L_max against all rollouts; w_k G_k / L_max against those that reach turn k, with
        w = 1 − (1 − (1−q)ᴺ)/(N q) and q the chance to reach it; Σ_{l≥k} γ^{l−k} w_l (r_l − m_l) / L_max for rewards
        against those that reach their turn, m the mean of theirs; (G_k − E[(g + S)/(|y| + n)]) / L_max against all
        turns, g the sum of the own returns, n and S turns and returns of N−1 others.
    Args: compared, the option of that name.
    Source: derived: of N rollouts 1 + M reach a turn, M ~ Bin(N−1, q), so the mean holds an own share of E[1/(1 + M)].
    """
    return ClosedForm(shape=partial(_turns, compared=compared, gamma=gamma), text=text)


def _turns(law: Chances, group: int, max_tokens: int, *, compared: str, gamma: float) -> Shape:
    def returns(rollout: Seen) -> list[float]:
        return [
            math.fsum(gamma ** (k - t) * rollout.early[k] for k in range(t, rollout.length))
            for t in range(rollout.length)
        ]

    def total(rollout: Seen) -> tuple[float, ...]:
        return rollout.length, math.fsum(returns(rollout))

    reach = [math.fsum(chance for rollout, chance in law if rollout.length > k) for k in range(max_tokens)]
    mean = [
        math.fsum(c * rollout.early[k] for rollout, c in law if rollout.length > k) / reach[k]
        for k in range(max_tokens)
    ]
    shrinkage = [1 - (1 - (1 - q) ** group) / (group * q) for q in reach]
    others = sums(law, total, group - 1) if compared == "turns" else {}

    def h(own: Seen) -> Sequence[float]:
        value, turns = returns(own), range(own.length)
        if group == 1:
            return [0.0] * own.length
        if compared == "rewards":
            apart = [shrinkage[k] * (own.early[k] - mean[k]) for k in turns]
            value = [math.fsum(gamma ** (k - t) * apart[k] for k in range(t, own.length)) for t in turns]
        elif compared == "turns":
            baseline = math.fsum(c * (math.fsum(value) + s) / (own.length + n) for (n, s), c in others.items())
            value = [each - baseline for each in value]
        else:
            share = [1 - 1 / group] * own.length if compared == "rollouts" else shrinkage
            value = [share[k] * value[k] for k in turns]
        return [each / max_tokens for each in value]

    return h


def pairs_by_target(temperature: float, text: str) -> ClosedForm:
    """How much the shares of two answers with different rewards change, where they are tilted by ±1/η.

    Equation: h = ±2·Σ_{y'} π(y')·(σ(x + 2/η) − σ(x)) over the answers y' with another reward,
        x = log π⁺ − log π⁻ of the better and the worse.
    """
    return ClosedForm(shape=partial(_pairs_by_target, temperature=temperature), text=text)


def _pairs_by_target(law: Chances, group: int, max_tokens: int, *, temperature: float) -> Shape | None:
    def h(own: Seen) -> Sequence[float]:
        total = 0.0
        for other, chance in law:
            sign = (own.reward > other.reward) - (own.reward < other.reward)
            ahead = sign * (math.fsum(own.logp) - math.fsum(other.logp))
            total += sign * chance * (1 / (1 + math.exp(-ahead - 2 / temperature)) - 1 / (1 + math.exp(-ahead)))
        return [2 * total] * own.length

    return h if group == 2 else None


def with_tokens_of_best(of: ClosedForm) -> ClosedForm:
    """Another form, and the log-likelihood of the best answers of the group as a mean over all their tokens.

    Equation: h + N·Σ P(k, n)·1[k < N−1]/(|y| + n), over the k of N−1 rollouts that earn as much as y, with n tokens,
        where none earns more.
    """
    text = f"{of.text}; + E[Σ ∇log π over the best / their tokens] where rewards differ"
    return ClosedForm(shape=partial(_with_tokens_of_best, of=of.shape), text=text)


def _with_tokens_of_best(
    law: Chances, group: int, max_tokens: int, *, of: Callable[[Chances, int, int], Shape | None]
) -> Shape | None:
    plain = of(law, group, max_tokens)

    def preference(own: Seen) -> float:
        def count(rollout: Seen) -> tuple[int, ...]:
            return (1, rollout.length) if rollout.reward == own.reward else (0, 0)

        others = sums([(rollout, chance) for rollout, chance in law if rollout.reward <= own.reward], count, group - 1)
        return group * math.fsum(
            chance / (own.length + tokens) for (level, tokens), chance in others.items() if level < group - 1
        )

    def h(own: Seen) -> Sequence[float]:
        assert plain is not None
        return [value + preference(own) for value in plain(own)]

    return plain and h
