"""Textbook objectives of the rows whose credit differs from token to token.

Written from the papers, with loops and autodiff; they share nothing with the code.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable

import numpy
import torch
from objective_steps import Step
from torch import Tensor

Credit = dict[int, float]
"""The advantage of every token of the step, by its position."""


def _clipped(step: Step, logp: Tensor, credit: Credit, clip_low: float, clip_high: float) -> Tensor:
    """Σ min(ρA, clip(ρ)A), token by token."""
    total = logp.new_zeros(())
    for t, advantage in credit.items():
        ratio = (logp[t] - step.proximal[t]).exp()
        total = total + torch.minimum(ratio * advantage, ratio.clamp(1 - clip_low, 1 + clip_high) * advantage)
    return total


def _value_at_end(step: Step, g: int, i: int, bootstrap: str) -> float:
    """A critic's value where the chosen limits ended the rollout."""
    chosen = {"none": (), "reply": (1,), "limit": (1, 2)}[bootstrap]
    return step.beyond[g][i] if step.ended[g][i] in chosen else 0.0


def _estimates(step: Step, gamma: float, lam: float, bootstrap: str = "none") -> Credit:
    """From the last token back, as the recursion is usually written."""
    credit: Credit = {}
    for g, i, tokens in step.rollouts():
        next_value, next_advantage, reward = _value_at_end(step, g, i, bootstrap), 0.0, step.rewards[g][i]
        for t in reversed(tokens):
            surprise = reward + gamma * next_value - step.values[t]
            next_advantage = surprise + gamma * lam * next_advantage
            credit[t] = next_advantage
            next_value, reward = step.values[t], 0.0
    return credit


def _whitened(credit: Credit, epsilon: float) -> Credit:
    if len(set(credit.values())) < 2:
        return dict.fromkeys(credit, 0.0)
    mean, variance = statistics.fmean(credit.values()), statistics.variance(credit.values())
    return {t: (value - mean) / (variance + epsilon) ** 0.5 for t, value in credit.items()}


def _share(step: Step) -> float:
    return step.max_tokens * len(step.rollouts())


def ppo_loss(
    step: Step,
    logp: Tensor,
    gamma: float,
    lam: float,
    clip_low: float,
    clip_high: float,
    bootstrap: str = "none",
    **of_critic: float,
) -> Tensor:
    """The policy's part; the loss of the critic has tests of its own."""
    return _clipped(step, logp, _estimates(step, gamma, lam, bootstrap), clip_low, clip_high) / _share(step)


def vc_ppo_loss(
    step: Step,
    logp: Tensor,
    lam: float,
    lam_critic: float,
    clip_low: float,
    clip_high: float,
    bootstrap: str = "none",
    **of_critic: float,
) -> Tensor:
    return ppo_loss(step, logp, 1.0, lam, clip_low, clip_high, bootstrap)


def vapo_loss(
    step: Step,
    logp: Tensor,
    alpha: float,
    likelihood: float,
    clip_low: float,
    clip_high: float,
    bootstrap: str = "none",
    **of_critic: float,
) -> Tensor:
    """Every surprise by the one before it, from the first token on: λ as in the paper, where that is not negative."""
    credit: Credit = {}
    for g, i, tokens in step.rollouts():
        trace = 1 - 1 / (alpha * len(tokens)) if alpha * len(tokens) > 1 else 0.0
        values = [step.values[t] for t in tokens] + [_value_at_end(step, g, i, bootstrap)]
        surprise = [
            values[k + 1] - values[k] + (step.rewards[g][i] if k + 1 == len(tokens) else 0.0)
            for k in range(len(tokens))
        ]
        credit |= {
            t: sum(trace ** (later - k) * surprise[later] for later in range(k, len(tokens)))
            for k, t in enumerate(tokens)
        }
    right = [t for g, i, tokens in step.rollouts() for t in tokens if step.rewards[g][i] >= 1]
    return (_clipped(step, logp, credit, clip_low, clip_high) + likelihood * logp[right].sum()) / _share(step)


def ppo_whitened_loss(
    step: Step, logp: Tensor, gamma: float, lam: float, clip_low: float, clip_high: float, epsilon: float
) -> Tensor:
    credit = _whitened(_estimates(step, gamma, lam), epsilon)
    return _clipped(step, logp, credit, clip_low, clip_high) / _share(step)


def _to_go(step: Step, beta: float, outcome: Callable[[list[float], int], float]) -> Credit:
    """What is paid from each token on: −β k1 at every token, the outcome beside it at the last."""
    credit: Credit = {}
    for g, i, tokens in step.rollouts():
        paid = [-beta * (step.proximal[t] - step.reference[t]) for t in tokens]
        if tokens:
            paid[-1] += outcome(step.rewards[g], i)
        credit |= {t: sum(paid[place:]) for place, t in enumerate(tokens)}
    return credit


def _centred(group: list[float], i: int) -> float:
    return 0.0 if len(set(group)) == 1 else group[i] - statistics.fmean(group)


def reinforce_pp_loss(
    step: Step, logp: Tensor, beta: float, clip_low: float, clip_high: float, epsilon: float, baseline: str
) -> Tensor:
    own = _centred if baseline == "group" else lambda group, i: group[i]
    credit = _whitened(_to_go(step, beta, own), epsilon)
    return _clipped(step, logp, credit, clip_low, clip_high) / max(len(step.logp), 1)


def reinforce_pp_loo_loss(
    step: Step, logp: Tensor, beta: float, scale: float, clip_low: float, clip_high: float
) -> Tensor:
    def outcome(group: list[float], i: int) -> float:
        return group[i] - statistics.fmean(group[:i] + group[i + 1 :])

    credit = {t: value / scale for t, value in _to_go(step, beta, outcome).items()}
    return _clipped(step, logp, credit, clip_low, clip_high) / _share(step)


def _distilled(step: Step, logp: Tensor, reward: Callable[[list[int], int], float]) -> Tensor:
    """Importance-weighted tokens, each with a reward of its own: by the tokens of its rollout and its place there."""
    total = logp.new_zeros(())
    for _, _, tokens in step.rollouts():
        for place, t in enumerate(tokens):
            total = total + (logp[t] - step.proximal[t]).exp() * reward(tokens, place)
    return total / _share(step)


def opd_loss(step: Step, logp: Tensor, credit: str = "token") -> Tensor:
    def ahead(tokens: list[int], place: int) -> float:
        rest = tokens[place:] if credit == "answer" else tokens[place : place + 1]
        return sum(step.reference[t] for t in rest) - sum(step.proximal[t] for t in rest)

    return _distilled(step, logp, ahead)


def opsd_loss(step: Step, logp: Tensor) -> Tensor:
    """The reference of a step has read the answer; the loss is the same."""
    return opd_loss(step, logp)


def _turns(step: Step) -> list[tuple[int, int, list[list[int]]]]:
    """Group, place and the token positions of each turn of every rollout."""
    found = []
    for g, i, tokens in step.rollouts():
        turns: dict[int, list[int]] = {}
        for part, t in zip(step.parts(len(tokens)), tokens, strict=True):
            turns.setdefault(part, []).append(t)
        found.append((g, i, [turns[part] for part in sorted(turns)]))
    return found


def _turn_returns(step: Step, gamma: float, from_the_start: bool = False) -> Credit:
    credit: Credit = {}
    for g, i, turns in _turns(step):
        for k, tokens in enumerate(turns):
            earned = sum(gamma ** (later - k) * step.early[g][i][later] for later in range(k, len(turns)))
            credit |= dict.fromkeys(tokens, earned * gamma**k if from_the_start else earned)
    return credit


def _summed(step: Step, logp: Tensor, credit: Credit) -> Tensor:
    total = logp.new_zeros(())
    for t, value in credit.items():
        total = total + value * logp[t]
    return total / len(step.rollouts())


def turn_reinforce_loss(step: Step, logp: Tensor, gamma: float, turns: str) -> Tensor:
    return _summed(step, logp, _turn_returns(step, gamma, from_the_start=turns == "discounted"))


def turn_ppo_loss(step: Step, logp: Tensor, gamma: float, lam: float, clip_low: float, clip_high: float) -> Tensor:
    credit: Credit = {}
    for g, i, turns in _turns(step):
        next_value, next_advantage = 0.0, 0.0
        for k in reversed(range(len(turns))):
            value = step.values[turns[k][0]]
            next_advantage = step.early[g][i][k] + gamma * next_value - value + gamma * lam * next_advantage
            credit |= dict.fromkeys(turns[k], next_advantage)
            next_value = value
    return _clipped(step, logp, credit, clip_low, clip_high) / _share(step)


def turn_grpo_loss(
    step: Step,
    logp: Tensor,
    gamma: float,
    compared: str,
    scale: str,
    clip_low: float,
    clip_high: float,
    epsilon: float,
) -> Tensor:
    def apart(value: float, among: list[float]) -> float:
        spread = statistics.pstdev(among) + epsilon if scale == "deviation" else 1.0
        return 0.0 if alone or len(set(among)) == 1 else (value - statistics.fmean(among)) / spread

    returns, credit = _turn_returns(step, gamma), Credit()
    ks = {(g, i): turns for g, i, turns in _turns(step)}
    sizes = [len(group) for group in step.rewards]
    for (g, i), turns in ks.items():
        group = [ks.get((g, j), []) for j in range(sizes[g])]
        paid = [step.early[g][j] for j in range(sizes[g])]
        later, alone = 0.0, sizes[g] == 1
        for k in reversed(range(len(turns))):
            if compared == "rewards":
                there = [paid[j][k] for j, theirs in enumerate(group) if len(theirs) > k]
                later = apart(paid[i][k], there) + gamma * later
                credit |= dict.fromkeys(turns[k], later)
                continue
            among = {
                "rollouts": [returns[theirs[k][0]] if len(theirs) > k else 0.0 for theirs in group],
                "reached": [returns[theirs[k][0]] for theirs in group if len(theirs) > k],
                "turns": [returns[turn[0]] for theirs in group for turn in theirs],
            }[compared]
            credit |= dict.fromkeys(turns[k], apart(returns[turns[k][0]], among))
    return _clipped(step, logp, credit, clip_low, clip_high) / _share(step)


def rebn_loss(step: Step, logp: Tensor, gamma: float, clip_low: float, clip_high: float, epsilon: float) -> Tensor:
    returns = _turn_returns(step, gamma)
    every = [returns[tokens[0]] for _, _, turns in _turns(step) for tokens in turns]
    credit = dict.fromkeys(returns, 0.0)
    if len(set(every)) > 1:
        mean, deviation = statistics.fmean(every), statistics.pstdev(every)
        credit = {t: (value - mean) / (deviation + epsilon) for t, value in returns.items()}
    return _clipped(step, logp, credit, clip_low, clip_high) / _share(step)


def _over_states(step: Step, gamma: float, weights: list[float]) -> Credit:
    """Every turn by itself, over all turns of its group that share the past."""
    returns, credit = _turn_returns(step, gamma), Credit()
    every = [
        (g, step.observations[g][i][: k + 1], returns[turns[k][0]], turns[k])
        for g, i, turns in _turns(step)
        for k in range(len(turns))
    ]
    for g, seen, value, tokens in every:
        total, share = 0.0, 0.0
        for h, weight in enumerate(weights[: len(seen)]):
            alike = [v for g2, past, v, _ in every if g2 == g and past[-h - 1 :] == seen[-h - 1 :]]
            if len(alike) > 1:
                total, share = total + weight * (value - statistics.fmean(alike)), share + weight
        credit |= dict.fromkeys(tokens, total / share if share else 0.0)
    return credit


def gigpo_loss(step: Step, logp: Tensor, gamma: float, weight: float, clip_low: float, clip_high: float) -> Tensor:
    over_states = _over_states(step, gamma, [1.0])
    whole = {(g, i): sum(step.early[g][i][: len(turns)]) for g, i, turns in _turns(step)}
    credit = {
        t: whole[g, i] - statistics.fmean(v for (g2, _), v in whole.items() if g2 == g) + weight * over_states[t]
        for g, i, tokens in step.rollouts()
        for t in tokens
    }
    return _clipped(step, logp, credit, clip_low, clip_high) / _share(step)


def hgpo_loss(
    step: Step, logp: Tensor, gamma: float, history: int, alpha: float, clip_low: float, clip_high: float
) -> Tensor:
    credit = _over_states(step, gamma, [(h + 2) ** alpha for h in range(history + 1)])
    return _clipped(step, logp, credit, clip_low, clip_high) / _share(step)


def _budget_credit(step: Step, alone: bool) -> Credit:
    """As in the paper: the score to come, less the mix of both baselines."""
    credit: Credit = {}
    for g, i, turns in _turns(step):
        for j, tokens in enumerate(turns):
            scores = step.early[g]
            budgets = len(scores[i])
            to_come = [sum(score[k] / budgets for k in range(j, budgets)) for score in scores]
            among = [value for place, value in enumerate(to_come) if not (alone and place == i)]
            own = 0.0
            if j:
                own = sum(2**k * scores[i][k] for k in range(j)) / sum(2**k for k in range(j)) * (budgets - j) / budgets
            baseline = (j * own + (budgets - j) * statistics.fmean(among)) / budgets
            credit |= dict.fromkeys(tokens, to_come[i] - baseline)
    return credit


def brpo_loss(step: Step, logp: Tensor, clip_low: float, clip_high: float, baseline: str) -> Tensor:
    credit = _budget_credit(step, alone=baseline == "others")
    return _clipped(step, logp, credit, clip_low, clip_high) / _share(step)


def _score(group: list[float], i: int, epsilon: float) -> float:
    return 0.0 if len(set(group)) == 1 else (group[i] - statistics.fmean(group)) / (statistics.pstdev(group) + epsilon)


def entropy_mask_loss(
    step: Step, logp: Tensor, share: float, clip_low: float, clip_high: float, epsilon: float
) -> Tensor:
    """With the quantile as numpy interpolates it."""
    bar = numpy.quantile(step.entropy, 1 - share) if step.entropy else 0.0
    credit = {
        t: _score(step.rewards[g], i, epsilon)
        for g, i, tokens in step.rollouts()
        for t in tokens
        if step.entropy[t] > bar - 1e-9
    }
    return _clipped(step, logp, credit, clip_low, clip_high) / max(len(step.logp), 1)


def otb_loss(step: Step, logp: Tensor, baseline: str) -> Tensor:
    """Position by position, as verl does."""
    rows = {(g, i): tokens for g, i, tokens in step.rollouts()}
    total, size = logp.new_zeros(()), len(step.rewards[0])
    for g, group in enumerate(step.rewards):
        for place in range(max(step.lengths[g])):
            writing = [i for i in range(size) if step.lengths[g][i] > place]
            path = {
                i: sum(
                    max(0.0, 1 - 2 * math.exp(step.proximal[t]) + step.collision[t]) for t in rows[g, i][: place + 1]
                )
                for i in writing
            }
            for i in writing:
                company = [j for j in writing if not (baseline == "others" and j == i)]
                weight = sum(path[j] for j in company)
                offset = 0.0
                if len(writing) > 1 and weight:
                    offset = sum(group[j] * path[j] for j in company) / weight
                total = total + (group[i] - offset) * logp[rows[g, i][place]]
    return total / len(rows)


def rl_zvp_loss(step: Step, logp: Tensor, alpha: float, clip_low: float, clip_high: float, epsilon: float) -> Tensor:
    credit: Credit = {}
    for g, i, tokens in step.rollouts():
        for t in tokens:
            if set(step.rewards[g]) == {1.0}:
                credit[t] = alpha * step.entropy[t]
            elif set(step.rewards[g]) == {0.0}:
                credit[t] = -alpha * (max(step.entropy[s] for s in tokens) - step.entropy[t])
            else:
                credit[t] = _score(step.rewards[g], i, epsilon)
    return _clipped(step, logp, credit, clip_low, clip_high) / max(len(step.logp), 1)


def gdpo_loss(step: Step, logp: Tensor, clip_low: float, clip_high: float, epsilon: float) -> Tensor:
    def sample_score(values: list[float], i: int) -> float:
        if len(set(values)) == 1:
            return 0.0
        return (values[i] - statistics.fmean(values)) / (statistics.stdev(values) + epsilon)

    total = {}
    for g, i, _ in step.rollouts():
        first, second = ([rollout[n] for rollout in step.reward_parts[g]] for n in (0, 1))
        total[g, i] = sample_score(first, i) + 0.5 * sample_score(second, i)
    every = list(total.values())
    whole = {place: sample_score(every, at) for at, place in enumerate(total)}
    credit = {t: whole[g, i] for g, i, tokens in step.rollouts() for t in tokens}
    return _clipped(step, logp, credit, clip_low, clip_high) / max(len(step.logp), 1)


LOSSES: dict[str, Callable[..., Tensor]] = {
    name.removesuffix("_loss"): function for name, function in list(globals().items()) if name.endswith("_loss")
}
"""Textbook loss of every row; it takes the row's options under the row's names."""
