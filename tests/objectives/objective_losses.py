"""The maximised textbook objective of every row, as a function of the policy's log-probabilities [T].

Written from the papers, with loops, subsets and autodiff; they share nothing with the code.
"""

from __future__ import annotations

import functools
import itertools
import math
import statistics
from collections.abc import Callable, Sequence

import likelihood_losses
import off_policy_losses
import outcome_losses
import preference_losses
import torch
import trust_region_losses
from objective_steps import Step
from scipy.integrate import quad
from torch import Tensor


def reinforce_loss(step: Step, logp: Tensor) -> Tensor:
    total = logp.new_zeros(())
    for g, i, tokens in step.rollouts():
        total = total + step.rewards[g][i] * logp[tokens].sum()
    return total / len(step.rollouts())


def remax_loss(step: Step, logp: Tensor) -> Tensor:
    total = logp.new_zeros(())
    for g, i, tokens in step.rollouts():
        total = total + (step.rewards[g][i] - step.greedy[g][i]) * logp[tokens].sum()
    return total / len(step.rollouts())


def rloo_loss(step: Step, logp: Tensor) -> Tensor:
    total = logp.new_zeros(())
    for g, i, tokens in step.rollouts():
        others = [reward for j, reward in enumerate(step.rewards[g]) if j != i]
        total = total + (step.rewards[g][i] - sum(others) / len(others)) * logp[tokens].sum()
    return total / len(step.rollouts())


def _old(step: Step, tokens: list[int], logp: Tensor) -> Tensor:
    return torch.tensor([step.proximal[t] for t in tokens], dtype=logp.dtype)


def _surrogate(ratio: Tensor, advantage: float, low: float, high: float) -> Tensor:
    return torch.minimum(ratio * advantage, ratio.clamp(1 - low, 1 + high) * advantage)


def grpo_loss(
    step: Step,
    logp: Tensor,
    clip_low: float,
    clip_high: float,
    epsilon: float,
    deviation: str = "population",
    reference_weight: float = 0.0,
) -> Tensor:
    spread = {"population": statistics.pstdev, "sample": statistics.stdev}[deviation]
    total = logp.new_zeros(())
    for g, i, tokens in step.rollouts():
        group = step.rewards[g]
        advantage = 0.0
        if len(set(group)) > 1:
            advantage = (group[i] - statistics.fmean(group)) / (spread(group) + epsilon)
        ratio = (logp[tokens] - _old(step, tokens, logp)).exp()
        log_reference = torch.tensor([step.reference[t] for t in tokens], dtype=logp.dtype) - logp[tokens]
        kl = log_reference.exp() - log_reference - 1
        each = _surrogate(ratio, advantage, clip_low, clip_high) - reference_weight * kl
        if tokens:
            total = total + each.sum() / len(tokens)
    return total / len(step.rollouts())


def echo_loss(
    step: Step, logp: Tensor, observation: float, clip_low: float, clip_high: float, epsilon: float
) -> Tensor:
    """These answers have one turn, so nothing is observed."""
    return grpo_loss(step, logp, clip_low, clip_high, epsilon)


def dr_grpo_loss(step: Step, logp: Tensor, clip_low: float, clip_high: float, cap: float | None = None) -> Tensor:
    total = logp.new_zeros(())
    for g, i, tokens in step.rollouts():
        advantage = step.rewards[g][i] - statistics.fmean(step.rewards[g])
        old = _old(step, tokens, logp)
        each = _surrogate((logp[tokens] - old).exp(), advantage, clip_low, clip_high)
        if cap is not None:
            sampler = torch.tensor([step.behavior[t] for t in tokens], dtype=logp.dtype)
            each = each * torch.minimum((old - sampler).exp(), torch.tensor(cap, dtype=logp.dtype))
        total = total + each.sum() / step.max_tokens
    return total / len(step.rollouts())


def _credited(step: Step, logp: Tensor, credit: Callable[[list[float], int], float]) -> Tensor:
    """Σ over rollouts of a credit times the log-probability of the answer."""
    total = logp.new_zeros(())
    for g, i, tokens in step.rollouts():
        total = total + credit(step.rewards[g], i) * logp[tokens].sum()
    return total


def reinforce_centred_loss(step: Step, logp: Tensor) -> Tensor:
    return _credited(step, logp, lambda group, i: group[i] - statistics.fmean(group)) / len(step.rollouts())


def maxrl_loss(step: Step, logp: Tensor) -> Tensor:
    """The mean over groups of the mean log-probability of the successes."""
    found = _credited(step, logp, lambda group, i: group[i] / sum(group) if sum(group) else 0.0)
    return found / len(step.rewards)


def maxrl_control_loss(step: Step, logp: Tensor) -> Tensor:
    return maxrl_loss(step, logp) - logp.sum() / len(step.rollouts())


def maxrl_released_loss(step: Step, logp: Tensor, epsilon: float) -> Tensor:
    def credit(group: list[float], i: int) -> float:
        mean = statistics.fmean(group)
        return (group[i] - mean) / (mean + epsilon) if mean else 0.0

    return _credited(step, logp, credit) / len(step.rollouts())


def maxrl_sub_loss(step: Step, logp: Tensor, order: int) -> Tensor:
    """MaxRL on every subset of that size, averaged."""

    def credit(group: list[float], i: int) -> float:
        subsets = list(itertools.combinations(range(len(group)), order))
        return sum(group[i] / sum(group[j] for j in s) for s in subsets if i in s and group[i]) / len(subsets)

    return _credited(step, logp, credit) / len(step.rewards)


@functools.cache
def family_credit(family: str, n: int, k: int, x: float) -> float:
    """c(K): what a success weighs in g = c(K) Σᵢ rᵢ ∇log π(yᵢ)."""
    if family == "A":
        return math.gamma(n + x) * math.gamma(k) / (n * math.gamma(n) * math.gamma(k + x))
    if family == "B":
        return n ** (x - 1) * k**-x
    if family == "C":
        shift = n * (1 - x) / x if x else math.inf
        return (n + shift) / (n * (k + shift)) if x else 1 / n
    value: float = quad(lambda t: (1 - t) ** (k - 1) * (1 - t + x * t) ** (n - k), 0, 1, epsabs=1e-14)[0]
    return value


def rl2ml_loss(step: Step, logp: Tensor, family: str, parameter: float, baseline: float) -> Tensor:
    def credit(group: list[float], i: int) -> float:
        return family_credit(family, len(group), int(sum(group)), parameter) if group[i] else 0.0

    return _credited(step, logp, credit) / len(step.rewards) - baseline * logp.sum() / len(step.rollouts())


def _best(group: list[float], chosen: Sequence[int]) -> float:
    return max(group[j] for j in chosen)


def _subsets(group: list[float], k: int, *, of: int | None = None, without: int | None = None) -> list[tuple[int, ...]]:
    """Subsets of k rollouts, those that hold one or those that lack one."""
    every = itertools.combinations([j for j in range(len(group)) if j != without], k)
    return [subset for subset in every if of is None or of in subset]


def pkpo_loss(step: Step, logp: Tensor, k: int) -> Tensor:
    """The best reward of every subset of k times the log-probability of all in it, averaged."""
    return _credited(step, logp, lambda group, i: _pkpo_credit(group, i, k)) / len(step.rewards)


def _pkpo_credit(group: list[float], i: int, k: int) -> float:
    return sum(_best(group, s) for s in _subsets(group, k, of=i)) / math.comb(len(group), k)


def pkpo_loo_loss(step: Step, logp: Tensor, k: int) -> Tensor:
    def credit(group: list[float], i: int) -> float:
        rest = statistics.fmean(_best(group, s) for s in _subsets(group, k, without=i))
        return _pkpo_credit(group, i, k) - k / len(group) * rest

    return _credited(step, logp, credit) / len(step.rewards)


def pkpo_marginal_loss(step: Step, logp: Tensor, k: int) -> Tensor:
    def credit(group: list[float], i: int) -> float:
        gains = [_best(group, s) - _best(group, [j for j in s if j != i]) for s in _subsets(group, k, of=i)]
        return sum(gains) / math.comb(len(group), k)

    return _credited(step, logp, credit) / len(step.rewards)


def pass_at_all_loss(step: Step, logp: Tensor) -> Tensor:
    def credit(group: list[float], i: int) -> float:
        return max(group) - max(group[:i] + group[i + 1 :])

    return _credited(step, logp, credit) / len(step.rollouts())


def _subset_credit(group: list[float], i: int, k: int) -> tuple[float, float]:
    """How much better the subsets of a rollout do than all subsets, and the deviation over all."""
    every = [_best(group, s) for s in _subsets(group, k)]
    return statistics.fmean(_best(group, s) for s in _subsets(group, k, of=i)) - statistics.fmean(
        every
    ), statistics.pstdev(every)


def pass_at_k_analytic_loss(step: Step, logp: Tensor, k: int, scale: str) -> Tensor:
    def credit(group: list[float], i: int) -> float:
        excess, deviation = _subset_credit(group, i, k)
        if scale == "none":
            return excess
        return excess / deviation if deviation else 0.0

    return _credited(step, logp, credit) / len(step.rollouts())


def loop_loss(step: Step, logp: Tensor, clip_low: float, clip_high: float) -> Tensor:
    total = logp.new_zeros(())
    for g, i, tokens in step.rollouts():
        others = step.rewards[g][:i] + step.rewards[g][i + 1 :]
        ratio = (logp[tokens] - _old(step, tokens, logp)).exp()
        total = total + _surrogate(ratio, step.rewards[g][i] - statistics.fmean(others), clip_low, clip_high).sum()
    return total / len(step.rollouts())


def _centred(step: Step, g: int, i: int) -> float:
    return step.rewards[g][i] - statistics.fmean(step.rewards[g])


def _standard(step: Step, g: int, i: int, epsilon: float) -> float:
    group = step.rewards[g]
    return _centred(step, g, i) / (statistics.pstdev(group) + epsilon) if len(set(group)) > 1 else 0.0


def dual_clip_ppo_loss(step: Step, logp: Tensor, clip_low: float, clip_high: float, ceiling: float) -> Tensor:
    total = logp.new_zeros(())
    for g, i, tokens in step.rollouts():
        advantage = _centred(step, g, i)
        each = _surrogate((logp[tokens] - _old(step, tokens, logp)).exp(), advantage, clip_low, clip_high)
        if advantage < 0:
            each = torch.maximum(each, torch.full_like(each, ceiling * advantage))
        total = total + each.sum() / step.max_tokens
    return total / len(step.rollouts())


def sequence_is_loss(step: Step, logp: Tensor, *, timestep: int) -> Tensor:
    total = logp.new_zeros(())
    for g, i, tokens in step.rollouts():
        others = step.rewards[g][:i] + step.rewards[g][i + 1 :]
        ratio = (logp[tokens] - torch.tensor([step.behavior[t] for t in tokens], dtype=logp.dtype)).exp()
        for part in ratio.split(timestep or len(tokens)):
            total = total + (step.rewards[g][i] - statistics.fmean(others)) * part.prod()
    return total / len(step.rollouts())


def gspo_loss(step: Step, logp: Tensor, clip_low: float, clip_high: float, epsilon: float) -> Tensor:
    total = logp.new_zeros(())
    for g, i, tokens in step.rollouts():
        if tokens:
            mean = (logp[tokens] - _old(step, tokens, logp)).exp().prod() ** (1 / len(tokens))
            total = total + _surrogate(mean, _standard(step, g, i, epsilon), clip_low, clip_high)
    return total / len(step.rollouts())


def gmpo_loss(step: Step, logp: Tensor, clip_low: float, clip_high: float, epsilon: float) -> Tensor:
    total = logp.new_zeros(())
    for g, i, tokens in step.rollouts():
        advantage = _standard(step, g, i, epsilon)
        if tokens and advantage:
            ratio = (logp[tokens] - _old(step, tokens, logp)).exp()
            held = torch.minimum(ratio * advantage, ratio.clamp(math.exp(-clip_low), math.exp(clip_high)) * advantage)
            total = total + math.copysign(1, advantage) * held.abs().prod() ** (1 / len(tokens))
    return total / len(step.rollouts())


def sapo_loss(step: Step, logp: Tensor, gain: float, loss: float, epsilon: float) -> Tensor:
    total = logp.new_zeros(())
    for g, i, tokens in step.rollouts():
        advantage = _standard(step, g, i, epsilon)
        rate = gain if advantage > 0 else loss
        ratio = (logp[tokens] - _old(step, tokens, logp)).exp()
        if tokens:
            total = total + advantage * ((rate * (ratio - 1)).sigmoid() * 4 / rate).mean()
    return total / len(step.rollouts())


def dapo_loss(step: Step, logp: Tensor, clip_low: float, clip_high: float, epsilon: float) -> Tensor:
    total = logp.new_zeros(())
    for g, i, tokens in step.rollouts():
        ratio = (logp[tokens] - _old(step, tokens, logp)).exp()
        total = total + _surrogate(ratio, _standard(step, g, i, epsilon), clip_low, clip_high).sum()
    return total / max(len(step.logp), 1)


def by_prompt_loss(step: Step, logp: Tensor) -> Tensor:
    """DAPO with the mean over the tokens of each group, then over groups."""
    total = logp.new_zeros(())
    for g, i, tokens in step.rollouts():
        ratio = (logp[tokens] - _old(step, tokens, logp)).exp()
        if tokens:
            total = total + _surrogate(ratio, _standard(step, g, i, 1e-6), 0.2, 0.28).sum() / sum(step.lengths[g])
    return total / len(step.rewards)


def scale_rl_loss(step: Step, logp: Tensor, cap: float, epsilon: float) -> Tensor:
    """Per prompt the mean over tokens, over the prompts whose rollouts differ, in deviations of all that is kept."""
    kept = [g for g, group in enumerate(step.rewards) if len(set(group)) > 1]
    apart = [_centred(step, g, i) for g in kept for i in range(len(step.rewards[g]))]
    total = logp.new_zeros(())
    for g, i, tokens in step.rollouts():
        if g in kept and tokens:
            sampler = torch.tensor([step.behavior[t] for t in tokens], dtype=logp.dtype)
            weight = (logp[tokens] - sampler).exp().detach().clamp(max=cap)
            advantage = _centred(step, g, i) / (statistics.pstdev(apart) + epsilon)
            total = total + advantage * (weight * logp[tokens]).sum() / sum(step.lengths[g]) / len(kept)
    return total


def cispo_loss(step: Step, logp: Tensor, clip_high: float, epsilon: float) -> Tensor:
    total = logp.new_zeros(())
    for g, i, tokens in step.rollouts():
        weight = (logp[tokens] - _old(step, tokens, logp)).exp().detach().clamp(max=1 + clip_high)
        total = total + _standard(step, g, i, epsilon) * (weight * logp[tokens]).sum()
    return total / max(len(step.logp), 1)


def _corrected(
    step: Step, logp: Tensor, clip_low: float, clip_high: float, correct: Callable[[Tensor], Tensor]
) -> Tensor:
    """Dr. GRPO, its surrogate times what a correction makes of the ratios proximal/behavior of a rollout."""
    total = logp.new_zeros(())
    for g, i, tokens in step.rollouts():
        if tokens:
            old = _old(step, tokens, logp)
            weight = (old - torch.tensor([step.behavior[t] for t in tokens], dtype=logp.dtype)).exp()
            each = _surrogate((logp[tokens] - old).exp(), _centred(step, g, i), clip_low, clip_high)
            total = total + (correct(weight) * each).sum() / step.max_tokens
    return total / len(step.rollouts())


def tis_loss(step: Step, logp: Tensor, cap: float, clip_low: float, clip_high: float) -> Tensor:
    return _corrected(step, logp, clip_low, clip_high, lambda w: torch.minimum(w, torch.full_like(w, cap)))


def icepop_loss(step: Step, logp: Tensor, least: float, most: float, clip_low: float, clip_high: float) -> Tensor:
    return _corrected(step, logp, clip_low, clip_high, lambda w: w * ((w >= least) & (w <= most)))


def sequence_tis_loss(step: Step, logp: Tensor, cap: float, clip_low: float, clip_high: float) -> Tensor:
    return _corrected(step, logp, clip_low, clip_high, lambda w: w.prod().clamp(max=cap))


def sequence_mis_loss(step: Step, logp: Tensor, cap: float, clip_low: float, clip_high: float) -> Tensor:
    return _corrected(step, logp, clip_low, clip_high, lambda w: w.prod() * (w.prod() <= cap))


def geometric_rejection_loss(
    step: Step, logp: Tensor, least: float, most: float, clip_low: float, clip_high: float
) -> Tensor:
    def correct(weight: Tensor) -> Tensor:
        return (least <= weight.log().mean().exp() <= most) * torch.ones_like(weight)

    return _corrected(step, logp, clip_low, clip_high, correct)


def _seed_weight(answers: list[int], alpha: float, fade: str) -> float:
    """What the weight of a group is, from all of its answers or those of the others."""
    if len(answers) == 1:
        return 1.0
    surprises = [-math.log(answers.count(answer) / len(answers)) for answer in set(answers)]
    x = alpha * statistics.fmean(surprises) / math.log(len(answers))
    return {"linear": 1 - x, "exponential": math.exp(-x), "focal": (1 - x) * (1 - x)}[fade]


def seed_grpo_loss(
    step: Step, logp: Tensor, alpha: float, fade: str, clip_low: float, clip_high: float, baseline: str
) -> Tensor:
    total = logp.new_zeros(())
    for g, i, tokens in step.rollouts():
        advantage, answers = _centred(step, g, i), step.answers[g]
        if baseline == "others":
            others = step.rewards[g][:i] + step.rewards[g][i + 1 :]
            advantage, answers = step.rewards[g][i] - statistics.fmean(others), answers[:i] + answers[i + 1 :]
        ratio = (logp[tokens] - _old(step, tokens, logp)).exp()
        each = _surrogate(ratio, advantage * _seed_weight(answers, alpha, fade), clip_low, clip_high)
        total = total + each.sum() / step.max_tokens
    return total / len(step.rollouts())


def gfpo_loss(
    step: Step,
    logp: Tensor,
    keep: int,
    clip_low: float,
    clip_high: float,
    epsilon: float,
    by: str,
) -> Tensor:
    """A rollout is dropped if as many as are to be kept are better."""
    total = logp.new_zeros(())
    for g, i, tokens in step.rollouts():
        score = [
            reward / (length or 1) if by == "efficiency" else -length
            for reward, length in zip(step.rewards[g], step.lengths[g], strict=True)
        ]
        last = sorted(score, reverse=True)[:keep][-1]
        kept = [reward for reward, value in zip(step.rewards[g], score, strict=True) if value >= last]
        if score[i] >= last and len(set(kept)) > 1:
            advantage = (step.rewards[g][i] - statistics.fmean(kept)) / (statistics.pstdev(kept) + epsilon)
            ratio = (logp[tokens] - _old(step, tokens, logp)).exp()
            total = total + _surrogate(ratio, advantage, clip_low, clip_high).sum()
    return total / max(len(step.logp), 1)


def a_star_po_loss(step: Step, logp: Tensor, beta: float, temperature: float) -> Tensor:
    """The squared distance of the regularised reward from the value of the task, halved and over β."""
    total, reference = logp.new_zeros(()), torch.tensor(step.reference, dtype=logp.dtype)
    for g, i, tokens in step.rollouts():
        apart = (logp[tokens] - reference[tokens]).sum()
        total = total - (step.rewards[g][i] - step.past[g][i] - beta * apart).square() / (2 * beta)
    return total / len(step.rollouts())


def rae_loss(step: Step, logp: Tensor, mean_per: str, clip_low: float, clip_high: float) -> Tensor:
    assert mean_per == "step", "the mean of before the step"
    total = logp.new_zeros(())
    for g, i, tokens in step.rollouts():
        ratio = (logp[tokens] - _old(step, tokens, logp)).exp()
        total = total + _surrogate(ratio, step.rewards[g][i] - step.past[g][i], clip_low, clip_high).sum()
    return total / len(step.rollouts())


def luffy_loss(step: Step, logp: Tensor, gamma: float) -> Tensor:
    total = logp.new_zeros(())
    for g, i, tokens in step.rollouts():
        chance = logp[tokens].exp()
        shown = step.demonstrated[g][i]
        each = chance / (chance + gamma) if shown else (logp[tokens] - _old(step, tokens, logp)).exp()
        total = total + _centred(step, g, i) * each.sum() / step.max_tokens
    return total / len(step.rollouts())


def luffy_paper_loss(
    step: Step, logp: Tensor, gamma: float, clip_low: float, clip_high: float, epsilon: float
) -> Tensor:
    total = logp.new_zeros(())
    for g, i, tokens in step.rollouts():
        advantage = _standard(step, g, i, epsilon)
        if step.demonstrated[g][i]:
            chance = logp[tokens].exp()
            each = chance / (chance + gamma) * advantage
        else:
            each = _surrogate((logp[tokens] - _old(step, tokens, logp)).exp(), advantage, clip_low, clip_high)
        total = total + each.sum()
    return total / max(len(step.logp), 1)


def penalised_loss(step: Step, logp: Tensor, penalty: str, weight: float) -> Tensor:
    """Dr. GRPO less a penalty on log(policy/reference), under the same constant."""
    total = logp.new_zeros(())
    for _, _, tokens in step.rollouts():
        apart = logp[tokens] - torch.tensor([step.reference[t] for t in tokens], dtype=logp.dtype)
        ratio = (logp[tokens] - torch.tensor([step.behavior[t] for t in tokens], dtype=logp.dtype)).exp()
        k3 = (-apart).exp() - 1 + apart
        total = (
            total
            + {
                "k1_in_return": apart.sum().detach() * logp[tokens].sum(),
                "k2": apart.square().sum() / 2,
                "ratio_weighted_k3": (ratio * k3).sum(),
            }[penalty]
        )
    penalised = weight * total / (step.max_tokens * len(step.rollouts()))
    return dr_grpo_loss(step, logp, clip_low=0.2, clip_high=0.2) - penalised


LOSSES: dict[str, Callable[..., Tensor]] = {
    name.removesuffix("_loss"): function
    for module in (
        globals(),
        *map(
            vars,
            (
                likelihood_losses,
                off_policy_losses,
                outcome_losses,
                preference_losses,
                trust_region_losses,
            ),
        ),
    )
    for name, function in list(module.items())
    if name.endswith("_loss") and function not in (penalised_loss, by_prompt_loss)
}
"""Textbook loss of every row; it takes the row's options under the row's names."""
