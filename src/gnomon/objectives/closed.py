"""Closed forms of expected gradients, from the law of one rollout: what targets of rows are built of.

Each is derived from what an estimator does to chances, and none takes the credit of a group. With rewards 0 and 1 a
group matters through its successes K and failures F, under a mean over tokens through the tokens of either, and where
the best meets the worst through its largest and smallest reward.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from gnomon.objectives.target import Chances, ClosedForm, Seen, Shape

__all__ = [
    "best_of",
    "budgets_with_oneself",
    "centred_form",
    "curved_sample",
    "entropy_of_all",
    "entropy_of_others",
    "kept_by_count",
    "kept_by_length",
    "lambda_return",
    "length_centred",
    "of_counts",
    "of_pairs",
    "of_value",
    "over_length",
    "over_limit",
    "pairs_by_covariance",
    "pairs_by_likelihood",
    "per_token",
    "population",
    "sample",
    "standardised_form",
    "sums",
    "tallied_form",
    "whitened_tokens",
    "whole",
    "with_demonstrations",
]

Deviation = Callable[[int, int], float]
"""The standard deviation of K ones and F zeros, K, F ≥ 1."""
Tally = tuple[int, ...]
Number = TypeVar("Number", int, float)
T = TypeVar("T")


def whole(length: int, max_tokens: int) -> float:
    """A rollout by the sum over its tokens."""
    return 1.0


def over_length(length: int, max_tokens: int) -> float:
    """A rollout by the mean over its tokens."""
    return 1 / length


def over_limit(length: int, max_tokens: int) -> float:
    """A rollout by the sum over its tokens, over the length limit."""
    return 1 / max_tokens


def population(right: int, wrong: int, *, epsilon: float) -> float:
    """√(KF)/N + ε."""
    return math.sqrt(right * wrong) / (right + wrong) + epsilon


def sample(right: int, wrong: int, *, epsilon: float) -> float:
    """√(KF/(N(N−1))) + ε."""
    size = right + wrong
    return math.sqrt(right * wrong / (size * (size - 1))) + epsilon


def curved_sample(right: int, wrong: int, *, epsilon: float) -> float:
    """√(KF/(N(N−1)) + ε)."""
    size = right + wrong
    return math.sqrt(right * wrong / (size * (size - 1)) + epsilon)


# Gradients of a number.


def of_value(value: Callable[[Seen, int], float], text: str) -> ClosedForm:
    """The gradient of the expected value of an answer.

    Equation: ∇E[v(y)] = Σ π(y) v(y) ∇log π(y), v of an answer and L_max.
    """
    return ClosedForm(shape=partial(_of_value, value=value), text=text)


def _of_value(law: Chances, group: int, max_tokens: int, *, value: Callable[[Seen, int], float]) -> Shape:
    return lambda own: [value(own, max_tokens)] * own.length


def best_of(k: int | None, text: str) -> ClosedForm:
    """The gradient of the expected best of k rollouts; where k is None that of all N, over N.

    Equation: h = k·E[max(r, best of k−1 others)] = k·(r·F(r)^{k−1} + Σ_{v>r} v·(F(v)^{k−1} − F(v⁻)^{k−1})), F the
        distribution of rewards.
    """
    return ClosedForm(shape=partial(_best_of, k=k), text=text)


def _best_of(law: Chances, group: int, max_tokens: int, *, k: int | None) -> Shape:
    rewards, others = _rewards(law), (k or group) - 1

    def best(own: Seen) -> float:
        below = math.fsum(chance for value, chance in rewards.items() if value <= own.reward)
        total = own.reward * below**others
        for value in sorted(value for value in rewards if value > own.reward):
            total += value * ((below + rewards[value]) ** others - below**others)
            below += rewards[value]
        return (k or 1) * total

    return lambda own: [best(own)] * own.length


# Rewards 0 and 1: the count of successes.


def standardised_form(
    deviation: Deviation, share: Callable[[int, int], float], text: str, *, one_token: bool = False
) -> ClosedForm:
    """The gradient of standardised rewards, with every rollout weighted by its own length.

    Equation: h = w(p)·(r − p)·n(|y|), w(p) = Σₘ βₘ C(N−1, m) pᵐ(1−p)^{N−1−m},
        βₘ = (N−1−m)/(N·s(m+1)) + m/(N·s(m)), s(K) the deviation; at ε = 0 of the population
        βₘ = √((N−1−m)/(m+1)) + √(m/(N−m)).
    Args: share, n from the length and the length limit.
    """
    shape = partial(_standardised_shape, deviation=deviation, share=share)
    return ClosedForm(shape=shape, text=text, binary=True, one_token=one_token)


def _standardised_shape(
    law: Chances, group: int, max_tokens: int, *, deviation: Deviation, share: Callable[[int, int], float]
) -> Shape:
    def beta(m: int) -> float:
        failures = group - 1 - m
        gain = failures / group / deviation(m + 1, failures) if failures else 0.0
        return gain + (m / group / deviation(m, failures + 1) if m else 0.0)

    p = math.fsum(rollout.reward * chance for rollout, chance in law)
    last = group - 1
    w = math.fsum(math.comb(last, m) * p**m * (1 - p) ** (last - m) * beta(m) for m in range(group))
    return lambda own: [w * (own.reward - p) * share(own.length, max_tokens)] * own.length


def of_counts(
    success: Callable[[int, int], float],
    failure: Callable[[int, int], float],
    text: str,
    share: Callable[[int, int], float] = whole,
) -> ClosedForm:
    """A weight of a success and of a failure by the count of successes, every rollout weighed by its own length.

    Equation: h = (r·E[a(1+M)] + (1−r)·E[b(M)])·n(|y|), M ~ Bin(N−1, p).
    Args: success, failure, a and b from K and N; share, n from the length and the length limit.
    """
    shape = partial(_of_counts, success=success, failure=failure, share=share)
    return ClosedForm(shape=shape, text=text, binary=True)


def _of_counts(
    law: Chances,
    group: int,
    max_tokens: int,
    *,
    success: Callable[[int, int], float],
    failure: Callable[[int, int], float],
    share: Callable[[int, int], float],
) -> Shape:
    p = math.fsum(rollout.reward * chance for rollout, chance in law)
    others = [math.comb(group - 1, m) * p**m * (1 - p) ** (group - 1 - m) for m in range(group)]
    gain = math.fsum(chance * success(m + 1, group) for m, chance in enumerate(others))
    loss = math.fsum(chance * failure(m, group) for m, chance in enumerate(others))
    return lambda own: [(gain if own.reward else loss) * share(own.length, max_tokens)] * own.length


# Means over tokens: how many of them belong to right answers, and how many to wrong ones.


def tallied_form(weight: Callable[[Seen, Tally], float], text: str, *, binary: bool = True) -> ClosedForm:
    """A weight that sees a group through its successes, its failures and the tokens of either.

    Equation: h = N·Σ_T P(T)·weight(y, T + own), T = (K, F, U, V) of N−1 rollouts, whose law P is a power of the
        generating function of one.
    """
    return ClosedForm(shape=partial(_tallied_shape, weight=weight, count=_outcome), text=text, binary=binary)


def _tallied_shape(
    law: Chances,
    group: int,
    max_tokens: int,
    *,
    weight: Callable[[Seen, Tally], float],
    count: Callable[[Seen], Tally],
) -> Shape:
    rest = sums(law, count, group - 1)

    def h(own: Seen) -> Sequence[float]:
        mine = count(own)
        met = math.fsum(chance * weight(own, _plus(others, mine)) for others, chance in rest.items())
        return [group * met] * own.length

    return h


def per_token(deviation: Deviation, text: str) -> ClosedForm:
    """Standardised rewards under the mean over all tokens of the group.

    Equation: weight = (F or −K)/(N·s(K))/T, at ε = 0 of the population √(F/K)/T of a success, −√(K/F)/T of a failure.
    """
    return tallied_form(partial(_per_token, deviation=deviation), text)


def _per_token(own: Seen, total: Tally, *, deviation: Deviation) -> float:
    right, wrong, tokens = total[0], total[1], total[2] + total[3]
    if not right or not wrong:
        return 0.0
    return (wrong if own.reward else -right) / ((right + wrong) * deviation(right, wrong) * tokens)


def whitened_tokens(epsilon: float, text: str) -> ClosedForm:
    """Rewards on every token, whitened over the tokens of the group, under their mean.

    Equation: weight = (V or −U)/(T²·√(UV/(T(T−1)) + ε)), U tokens of right answers and V of wrong ones, T = U + V.
    """
    return tallied_form(partial(_whiten, epsilon=epsilon), text)


def _whiten(own: Seen, total: Tally, *, epsilon: float) -> float:
    right, wrong = total[2:]
    if not right or not wrong:
        return 0.0
    return (wrong if own.reward else -right) / ((right + wrong) ** 2 * curved_sample(right, wrong, epsilon=epsilon))


def length_centred(text: str) -> ClosedForm:
    """Rewards less the mean reward of the tokens of the group, under a sum over tokens.

    Equation: weight = (r − U/(U+V))/N, U tokens of right answers and V of wrong ones.
    """
    return tallied_form(_length_centred, text)


def _length_centred(own: Seen, total: Tally) -> float:
    right, wrong, of_right, of_wrong = total
    return (own.reward - of_right / (of_right + of_wrong)) / (right + wrong)


def kept_by_count(keep: int, epsilon: float, text: str) -> ClosedForm:
    """`per_token` where fewer than k succeed, nothing elsewhere: what keeping the best by reward per token comes to."""
    return tallied_form(partial(_kept_by_count, keep=keep, epsilon=epsilon), text)


def _kept_by_count(own: Seen, total: Tally, *, keep: int, epsilon: float) -> float:
    return _per_token(own, total, deviation=partial(population, epsilon=epsilon)) if total[0] < keep else 0.0


def kept_by_length(keep: int, epsilon: float, text: str) -> ClosedForm:
    """Standardised among the k shortest, those level with the last included, over the tokens of the whole group.

    Equation: weight = (F_ℓ or −K_ℓ)/(N_ℓ·s(K_ℓ))/T for |y| ≤ ℓ, 0 beyond, ℓ the least length with K_ℓ + F_ℓ ≥ min(k, N)
        successes and failures of at most that length.
    """
    return ClosedForm(shape=partial(_kept_by_length, keep=keep, epsilon=epsilon), text=text, binary=True)


def _kept_by_length(law: Chances, group: int, max_tokens: int, *, keep: int, epsilon: float) -> Shape:
    def count(own: Seen) -> Tally:
        """Successes of each length, then failures of each."""
        index = own.length - 1 + (0 if own.reward else max_tokens)
        return tuple(int(at == index) for at in range(2 * max_tokens))

    def weight(own: Seen, total: Tally) -> float:
        right = wrong = last = 0
        while right + wrong < min(keep, group):
            right, wrong, last = right + total[last], wrong + total[last + max_tokens], last + 1
        if own.length > last or not right or not wrong:
            return 0.0
        tokens = sum((index % max_tokens + 1) * times for index, times in enumerate(total))
        deviation = population(right, wrong, epsilon=epsilon)
        return (wrong if own.reward else -right) / ((right + wrong) * deviation * tokens)

    return _tallied_shape(law, group, max_tokens, weight=weight, count=count)


def _outcome(own: Seen) -> Tally:
    """Successes, failures, tokens of successes, tokens of failures."""
    won = int(own.reward == 1)
    return won, 1 - won, won * own.length, (1 - won) * own.length


def sums(law: Chances, count: Callable[[Seen], tuple[Number, ...]], times: int) -> dict[tuple[Number, ...], float]:
    """The law of the sum of so many."""
    one: dict[tuple[Number, ...], float] = {}
    for rollout, chance in law:
        one[count(rollout)] = one.get(count(rollout), 0.0) + chance
    total = {tuple(0 * number for number in next(iter(one))): 1.0}
    for _ in range(times):
        grown: dict[tuple[Number, ...], float] = {}
        for before, so_far in total.items():
            for step, chance in one.items():
                key = _plus(before, step)
                grown[key] = grown.get(key, 0.0) + so_far * chance
        total = grown
    return total


def _plus(a: tuple[Number, ...], b: tuple[Number, ...]) -> tuple[Number, ...]:
    return tuple(x + y for x, y in zip(a, b, strict=True))


# Pairs of the best and the worst.


def of_pairs(
    strength: Callable[[Seen, Seen], float],
    share: Callable[[int, int], float],
    text: str,
    worse: Callable[[Seen, Seen], float] | None = None,
) -> ClosedForm:
    """The gradient of a loss on pairs of a best and a worst answer of the group, averaged over such pairs.

    Equation: E[g] = Σ_{v>w} P(best v, worst w)·E[s(y⁺, y⁻)·(n(y⁺)∇log π(y⁺) − n(y⁻)∇log π(y⁻))], y⁺ an answer that
        earns v, y⁻ one that earns w. With rewards 0 and 1 P is 1 − pᴺ − (1−p)ᴺ, and a constant s = c gives
        c·P·∇log(p/(1−p)).
    Args: strength: s of a better and a worse answer; share: n from the length and the length limit; worse: what the
        worse answer has instead of s.
    """
    return ClosedForm(shape=partial(_of_pairs, strength=strength, share=share, worse=worse or strength), text=text)


def _of_pairs(
    law: Chances,
    group: int,
    max_tokens: int,
    *,
    strength: Callable[[Seen, Seen], float],
    share: Callable[[int, int], float],
    worse: Callable[[Seen, Seen], float],
) -> Shape:
    rewards = _rewards(law)

    def probability(worst: float, best: float) -> float:
        """P(the best of a group is so good, and the worst so bad)."""
        inside = math.fsum(chance for value, chance in rewards.items() if worst < value < best)
        low, high = inside + rewards[worst], inside + rewards[best]
        return (low + rewards[best]) ** group - low**group - high**group + inside**group

    def against(own: Seen, value: float) -> float:
        """Σ of s over the answers with this reward."""
        rivals = [(other, chance) for other, chance in law if other.reward == value]
        if own.reward > value:
            return math.fsum(chance * strength(own, other) for other, chance in rivals)
        return -math.fsum(chance * worse(other, own) for other, chance in rivals)

    def h(own: Seen) -> Sequence[float]:
        total = math.fsum(
            probability(min(value, own.reward), max(value, own.reward)) * against(own, value) / chance
            for value, chance in rewards.items()
            if value != own.reward
        )
        return [total / rewards[own.reward] * share(own.length, max_tokens)] * own.length

    return h


def pairs_by_likelihood(low: float, high: float, epsilon: float, text: str) -> ClosedForm:
    """Standardised rewards of groups of two, each answer weighed by how likely the pair finds it, and clipped.

    Equation: h = ±½/(½+ε)·Σ_{y'} π(y')·c·1[not clipped]/|y| over the answers y' with the other reward,
        c = Q(Q+Q')/(Q²+Q'²), Q = π(y)^{1/|y|}.
    """
    return ClosedForm(shape=partial(_pairs_by_likelihood, low=low, high=high, epsilon=epsilon), text=text, binary=True)


def _pairs_by_likelihood(
    law: Chances, group: int, max_tokens: int, *, low: float, high: float, epsilon: float
) -> Shape | None:
    def likely(rollout: Seen) -> float:
        return math.exp(math.fsum(rollout.logp) / rollout.length)

    def h(own: Seen) -> Sequence[float]:
        total = 0.0
        for other, chance in law:
            if own.reward != other.reward:
                mine, theirs = likely(own), likely(other)
                weight = mine * (mine + theirs) / (mine**2 + theirs**2)
                clipped = weight > 1 + high if own.reward else weight < 1 - low
                total += 0.0 if clipped else chance * weight
        return [(1 if own.reward else -1) * 0.5 / (0.5 + epsilon) * total / own.length] * own.length

    return h if group == 2 else None


def pairs_by_covariance(share: float, least: float, most: float, epsilon: float, text: str) -> ClosedForm:
    """Standardised rewards of groups of two under the mean over tokens, less on tokens of a band of covariance.

    Equation: hₜ = ±2a·Σ_{y'} π(y')·(1 − min(1, n/|B|)·1[t ∈ B])/T over the answers y' with the other reward,
        a = ½/(½+ε), Ā = a·(U − V)/T with U tokens of the right answer and V of the wrong one.
    """
    shape = partial(_pairs_by_covariance, share=share, least=least, most=most, epsilon=epsilon)
    return ClosedForm(shape=shape, text=text, binary=True)


def _pairs_by_covariance(
    law: Chances, group: int, max_tokens: int, *, share: float, least: float, most: float, epsilon: float
) -> Shape | None:
    size = 0.5 / (0.5 + epsilon)

    def band(own: Seen, other: Seen) -> tuple[list[bool], list[bool]]:
        """Which tokens of either have a covariance in the band."""
        tokens, sign = own.length + other.length, 1 if own.reward else -1
        mean = sign * size * (own.length - other.length) / tokens
        usual = math.fsum([*own.logp, *other.logp]) / tokens
        mine = [least < (sign * size - mean) * (logp - usual) < most for logp in own.logp]
        return mine, [least < (-sign * size - mean) * (logp - usual) < most for logp in other.logp]

    def h(own: Seen) -> Sequence[float]:
        total = [0.0] * own.length
        for other, chance in law:
            if own.reward != other.reward:
                mine, theirs = band(own, other)
                tokens = own.length + other.length
                lost = min(1.0, max(1, int(share * tokens)) / max(sum(mine) + sum(theirs), 1))
                remaining = [1 - lost * inside for inside in mine]
                total = [so_far + chance * part / tokens for so_far, part in zip(total, remaining, strict=True)]
        return [(2 if own.reward else -2) * size * part for part in total]

    return h if group == 2 else None


def _rewards(law: Chances) -> dict[float, float]:
    """Every reward with its chance."""
    return _chances(law, lambda rollout: rollout.reward)


def _chances(law: Chances, of: Callable[[Seen], T]) -> dict[T, float]:
    """Every value with its chance."""
    chances: dict[T, float] = {}
    for rollout, chance in law:
        chances[of(rollout)] = chances.get(of(rollout), 0.0) + chance
    return chances


# Credit that differs from token to token.


def nothing_beyond(own: Seen) -> float:
    """What is expected after the last token: 0."""
    return 0.0


def lambda_return(
    gamma: float,
    lam: float | Callable[[int], float],
    text: str,
    *,
    turns: bool = False,
    beyond: Callable[[Seen], float] = nothing_beyond,
    likelihood: float = 0.0,
) -> ClosedForm:
    """The λ-return of every token over the length limit, without a baseline: what a prefix knows averages out.

    Equation: hₜ = [(γλ)^{T−t}·γ·V_end + Σ_{k≥t} (γλ)^{k−t}·(r_k + γ(1−λ)·V_{k+1}) + μ·1[r ≥ 1]] / L_max, V = 0 after
        the last token T within the sum.
    Args: lam, λ, or λ by the length of the answer; turns, whether every token is a turn that pays, or the last token
        alone pays; beyond, V_end, what is expected after the last token; likelihood, μ.
    """
    shape = partial(_lambda_return, gamma=gamma, lam=lam, turns=turns, beyond=beyond, likelihood=likelihood)
    return ClosedForm(shape=shape, text=text)


def _lambda_return(
    law: Chances,
    group: int,
    max_tokens: int,
    *,
    gamma: float,
    lam: float | Callable[[int], float],
    turns: bool,
    beyond: Callable[[Seen], float],
    likelihood: float,
) -> Shape:
    def h(own: Seen) -> Sequence[float]:
        liked = likelihood * (own.reward >= 1)
        trace = lam(own.length) if callable(lam) else lam
        paid = own.early if turns else (*[0.0] * (own.length - 1), own.reward + gamma * beyond(own))
        ahead = (*own.values[1:], 0.0)
        earned = [paid[k] + gamma * (1 - trace) * ahead[k] for k in range(own.length)]
        return [
            (math.fsum((gamma * trace) ** (k - t) * earned[k] for k in range(t, own.length)) + liked) / max_tokens
            for t in range(own.length)
        ]

    return h


def budgets_with_oneself(text: str) -> ClosedForm:
    """Scores at the budgets to come, less the rollout's own share of the group mean.

    Equation: h_j = (1 − (m−j)/(m·N))·Σ_{k≥j} r_k / (m·L_max) on segment j of m budgets, segments of one token.
    """
    return ClosedForm(shape=_budgets_with_oneself, text=text)


def _budgets_with_oneself(law: Chances, group: int, max_tokens: int) -> Shape:
    def h(own: Seen) -> Sequence[float]:
        budgets = len(own.early)
        shrinkage = [1 - (budgets - j) / (budgets * group) for j in range(own.length)]
        return [shrinkage[j] * math.fsum(own.early[j:]) / (budgets * max_tokens) for j in range(own.length)]

    return h


# Weights by how far answers lie apart. An answer has one reward; f is given the entropy over its largest value.


def entropy_of_others(fade: Callable[[float], float], text: str) -> ClosedForm:
    """∇E[r] weighed by the mean fade of the others' entropy, for groups of up to four.

    Equation: h = r·(a·f(0) + b·f(u) + c·f(1)) / L_max with the chances a that all N−1 others agree, b that two of three
        do, c that no two do; u = log(9/2)/(2·log 3).
    """
    return ClosedForm(shape=partial(_entropy_of_others, fade=fade), text=text)


def _entropy_of_others(law: Chances, group: int, max_tokens: int, *, fade: Callable[[float], float]) -> Shape | None:
    twice, thrice = (
        math.fsum(chance**power for chance in _chances(law, lambda rollout: rollout.answer).values())
        for power in (2, 3)
    )
    chances = {
        2: (1.0, 0.0, 0.0),
        3: (twice, 0.0, 1 - twice),
        4: (thrice, 3 * (twice - thrice), 1 - 3 * twice + 2 * thrice),
    }
    if group not in chances:
        return None
    same, pair, apart = chances[group]
    weight = same * fade(0.0) + pair * fade(TWO_OF_THREE) + apart * fade(1.0)
    return lambda own: [weight * own.reward / max_tokens] * own.length


def entropy_of_all(fade: Callable[[float], float], text: str) -> ClosedForm:
    """Centred rewards weighed by the fade of the group's entropy, for groups of two and three.

    Equation: N = 2: h = f(1)·(r − Er)/2/L_max; N = 3: h = ⅔·{f(1)·(r − Er) + (f(u) − f(1))·[π(y)(r − Er) +
        r·Σπ² − Σπ²r]}/L_max, u = log(9/2)/(2·log 3).
    """
    return ClosedForm(shape=partial(_entropy_of_all, fade=fade), text=text)


def _entropy_of_all(law: Chances, group: int, max_tokens: int, *, fade: Callable[[float], float]) -> Shape | None:
    answers = _chances(law, lambda rollout: rollout.answer)
    mean = math.fsum(rollout.reward * chance for rollout, chance in law)
    squares = math.fsum(chance**2 for chance in answers.values())
    earned = math.fsum(answers[rollout.answer] * chance * rollout.reward for rollout, chance in law)

    def of_two(own: Seen) -> Sequence[float]:
        return [fade(1.0) * (own.reward - mean) / 2 / max_tokens] * own.length

    def of_three(own: Seen) -> Sequence[float]:
        ahead = own.reward - mean
        bent = answers[own.answer] * ahead + own.reward * squares - earned
        return [2 / 3 * (fade(1.0) * ahead + (fade(TWO_OF_THREE) - fade(1.0)) * bent) / max_tokens] * own.length

    return {2: of_two, 3: of_three}.get(group)


TWO_OF_THREE = math.log(9 / 2) / 2 / math.log(3)
"""The mean surprise at two equal answers and another, over that at three different ones."""


# Demonstrations among the sampled.


def with_demonstrations(of: ClosedForm, gamma: float) -> ClosedForm:
    """Another form, tokens of demonstrations by their shape.

    Equation: h·πγ/(π+γ)² on tokens of demonstrations, h elsewhere.
    """
    shape = partial(_demonstration_shape, of=of.shape, gamma=gamma)
    return ClosedForm(shape=shape, text=f"{of.text}, times πγ/(π+γ)² on demonstrations", binary=of.binary)


def _demonstration_shape(
    law: Chances, group: int, max_tokens: int, *, of: Callable[[Chances, int, int], Shape | None], gamma: float
) -> Shape | None:
    plain = of(law, group, max_tokens)

    def h(own: Seen) -> Sequence[float]:
        assert plain is not None
        if not own.demonstrated:
            return plain(own)
        shapes = (math.exp(logp) * gamma / (math.exp(logp) + gamma) ** 2 for logp in own.logp)
        return [value * shape for value, shape in zip(plain(own), shapes, strict=True)]

    return plain and h


def centred_form(text: str, share: Callable[[int, int], float] = over_limit) -> ClosedForm:
    """Rewards less the mean of their group, every rollout weighed by its own length.

    Equation: h = (1 − 1/N)·(r − Er)·n(|y|).
    Args: share, n from the length and the length limit.
    """
    return ClosedForm(shape=partial(_centred_shape, share=share), text=text)


def _centred_shape(law: Chances, group: int, max_tokens: int, *, share: Callable[[int, int], float]) -> Shape:
    mean = math.fsum(rollout.reward * chance for rollout, chance in law)
    return lambda own: [(1 - 1 / group) * (own.reward - mean) * share(own.length, max_tokens)] * own.length
