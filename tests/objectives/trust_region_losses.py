"""Maximised textbook objectives of the rows that differ in their trust region."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable

import torch
from objective_steps import Step
from outcome_losses import surrogate
from torch import Tensor


def _centred(step: Step, g: int, i: int) -> float:
    return step.rewards[g][i] - statistics.fmean(step.rewards[g])


def _standard(step: Step, g: int, i: int, epsilon: float) -> float:
    group = step.rewards[g]
    return _centred(step, g, i) / (statistics.pstdev(group) + epsilon) if len(set(group)) > 1 else 0.0


def _of(step: Step, logp: Tensor, tokens: list[int], name: str) -> Tensor:
    return torch.tensor([getattr(step, name)[t] for t in tokens], dtype=logp.dtype)


def _weighted(
    step: Step, logp: Tensor, weight: Callable[[float, float, float], float], name: str = "behavior"
) -> Tensor:
    """Dr. GRPO on log-probabilities, every token by a held weight of its advantage, π and the other probability."""
    total = logp.new_zeros(())
    for g, i, tokens in step.rollouts():
        advantage = _centred(step, g, i)
        for t in tokens:
            held = weight(advantage, math.exp(float(logp[t].detach())), math.exp(getattr(step, name)[t]))
            total = total + held * advantage * logp[t] / step.max_tokens
    return total / len(step.rollouts())


def luspo_loss(step: Step, logp: Tensor, clip_low: float, clip_high: float, epsilon: float) -> Tensor:
    total = logp.new_zeros(())
    for g, i, tokens in step.rollouts():
        if tokens:
            mean = (logp[tokens] - _of(step, logp, tokens, "proximal")).exp().prod() ** (1 / len(tokens))
            advantage = _standard(step, g, i, epsilon)
            each = torch.minimum(mean * advantage, mean.clamp(1 - clip_low, 1 + clip_high) * advantage)
            total = total + len(tokens) * each
    return total / len(step.rollouts())


def vespo_loss(
    step: Step, logp: Tensor, gain_power: float, gain_decay: float, loss_power: float, loss_decay: float
) -> Tensor:
    total = logp.new_zeros(())
    for g, i, tokens in step.rollouts():
        advantage = _centred(step, g, i)
        power, decay = (gain_power, gain_decay) if advantage >= 0 else (loss_power, loss_decay)
        whole = math.exp(sum(float(logp[t].detach()) - step.behavior[t] for t in tokens))
        total = total + whole**power * math.exp(decay * (1 - whole)) * advantage * logp[tokens].sum()
    return total / max(len(step.logp), 1)


def gppo_loss(step: Step, logp: Tensor, clip_low: float, clip_high: float, ceiling: float, epsilon: float) -> Tensor:
    total = logp.new_zeros(())
    for g, i, tokens in step.rollouts():
        advantage = _standard(step, g, i, epsilon)
        for t in tokens:
            ratio = math.exp(float(logp[t].detach()) - step.proximal[t])
            held = min(ratio, 1 + clip_high)
            if advantage < 0:
                held = 0.0 if ratio > ceiling else max(ratio, 1 - clip_low)
            total = total + held * advantage * logp[t]
    return total / max(len(step.logp), 1)


def _score(reward: float, mean: float, deviation: float, epsilon: float) -> float:
    return (reward - mean) / (deviation + epsilon) if deviation else 0.0


def _smaller_blend(rewards: list[float], reward: float, earlier: list[float], epsilon: float) -> float:
    """The one of two blends of the group's score and that over all visits which is nearer to zero."""
    if len(rewards) == 1:
        return 0.0
    mean, spread = statistics.fmean(rewards), statistics.stdev(rewards)
    mean = rewards[0] if len(set(rewards)) == 1 else mean
    spread = 0.0 if len(set(rewards)) == 1 else spread
    before, old_mean, old_variance = earlier
    visits = before + 1
    all_mean = (before * old_mean + mean) / visits
    variance = (before * old_variance + spread**2 + before / visits * (mean - old_mean) ** 2) / visits
    now, whole = _score(reward, mean, spread, epsilon), _score(reward, all_mean, math.sqrt(variance), epsilon)
    share = 1 / visits
    return min(share * whole + (1 - share) * now, share * now + (1 - share) * whole, key=abs)


def dcpo_loss(step: Step, logp: Tensor, clip_low: float, clip_high: float, ceiling: float, epsilon: float) -> Tensor:
    """min(ρA, clip(ρ)A), the band of each token from the probability that it had."""
    total = logp.new_zeros(())
    for g, i, tokens in step.rollouts():
        rewards = step.rewards[g]
        advantage = _smaller_blend(rewards, rewards[i], step.visits[g][i], epsilon)
        for t in tokens:
            before = math.exp(step.proximal[t])
            low = (1 + math.sqrt(max(0.0, 1 - 4 * clip_low / before))) / 2
            high = min((1 + math.sqrt(1 + 4 * clip_high / before)) / 2, ceiling)
            ratio = (logp[t] - step.proximal[t]).exp()
            if advantage > 0 or float(ratio.detach()) <= ceiling:
                total = total + torch.minimum(ratio * advantage, ratio.clamp(low, high) * advantage)
    return total / max(len(step.logp), 1)


def m2po_loss(step: Step, logp: Tensor, limit: float, epsilon: float) -> Tensor:
    """Tokens left out one square after the other, the largest first."""
    apart = logp.detach() - torch.tensor(step.behavior, dtype=logp.dtype)
    moved = dict(enumerate(apart.square().tolist()))
    kept = dict(moved)
    while kept and statistics.fmean(kept.values()) > limit:
        worst = max(kept.values())
        kept = {t: square for t, square in kept.items() if square < worst}
    total = logp.new_zeros(())
    for g, i, tokens in step.rollouts():
        for t in tokens:
            if t in kept:
                total = total + (logp[t] - step.behavior[t]).exp() * _standard(step, g, i, epsilon)
    return total / max(len(moved), 1)


def fipo_loss(
    step: Step, logp: Tensor, half_life: float, most: float, clip_low: float, clip_high: float, epsilon: float
) -> Tensor:
    total = logp.new_zeros(())
    for g, i, tokens in step.rollouts():
        advantage = _standard(step, g, i, epsilon)
        for place, t in enumerate(tokens):
            ahead = sum(
                0.5 ** (far / half_life) * (float(logp[s].detach()) - step.proximal[s])
                for far, s in enumerate(tokens[place:])
            )
            weight = min(max(1.0, math.exp(min(ahead, 80))), most)
            total = total + weight * surrogate(step, logp, [t], advantage, clip_low, clip_high)
    return total / max(len(step.logp), 1)


def aspo_loss(step: Step, logp: Tensor, clip_low: float, clip_high: float, cap: float) -> Tensor:
    def weight(advantage: float, now: float, before: float) -> float:
        if advantage > 0:
            return 0.0 if now / before > 1 + clip_high else min(before / now, cap)
        return 0.0 if now / before < 1 - clip_low else min(now / before, cap)

    return _weighted(step, logp, weight, "proximal")


def bapo_loss(
    step: Step,
    logp: Tensor,
    floor: float,
    floor_end: float,
    top: float,
    top_end: float,
    stride: float,
    ceiling: float,
    epsilon: float,
) -> Tensor:
    """Both ends move by a stride while the raised weigh less: the floor until its end, then the top until its own."""
    seen = [
        (math.exp(float(logp[t].detach()) - step.proximal[t]), _standard(step, g, i, epsilon))
        for g, i, tokens in step.rollouts()
        for t in tokens
    ]
    low, high = floor, top
    while sum(min(r, high) * a for r, a in seen if a > 0) < sum(-max(r, low) * a for r, a in seen if a < 0):
        if low < floor_end - 1e-9:
            low = min(low + stride, floor_end)
        elif high < top_end - 1e-9:
            high = min(high + stride, top_end)
        else:
            break
    total = logp.new_zeros(())
    for g, i, tokens in step.rollouts():
        advantage = _standard(step, g, i, epsilon)
        ratio = (logp[tokens] - _of(step, logp, tokens, "proximal")).exp()
        each = torch.minimum(ratio * advantage, ratio.clamp(low, high) * advantage)
        if advantage < 0:
            each = torch.maximum(each, torch.full_like(each, ceiling * advantage))
        total = total + each.sum()
    return total / max(len(step.logp), 1)


def clip_cov_loss(
    step: Step,
    logp: Tensor,
    share: float,
    least: float,
    most: float,
    clip_low: float,
    clip_high: float,
    epsilon: float,
) -> Tensor:
    """DAPO's surrogate token by token; a token that may be drawn counts by its chance of not being drawn."""
    total, owner = logp.new_zeros(()), {t: (g, i) for g, i, tokens in step.rollouts() for t in tokens}
    if not owner:
        return total
    advantage = {t: _standard(step, g, i, epsilon) for t, (g, i) in owner.items()}
    now = {t: float(logp[t].detach()) for t in owner}
    usual = statistics.fmean(advantage.values()), statistics.fmean(now.values())

    def may_be_drawn(t: int) -> bool:
        ratio = math.exp(now[t] - step.proximal[t])
        clipped = ratio > 1 + clip_high if advantage[t] > 0 else advantage[t] < 0 and ratio < 1 - clip_low
        return not clipped and least < (advantage[t] - usual[0]) * (now[t] - usual[1]) < most

    band = {t for t in owner if may_be_drawn(t)}
    chance = min(1.0, max(1, math.floor(share * len(owner))) / len(band)) if band else 0.0
    for t in owner:
        each = surrogate(step, logp, [t], advantage[t], clip_low, clip_high)
        total = total + (1 - chance * (t in band)) * each
    return total / len(owner)


def cpgd_loss(step: Step, logp: Tensor, alpha: float, cap: float, clip_low: float, clip_high: float) -> Tensor:
    """The clipped log-ratio times A, less α times the held drift."""
    total = logp.new_zeros(())
    for g, i, tokens in step.rollouts():
        advantage = _centred(step, g, i)
        apart = logp[tokens] - _of(step, logp, tokens, "proximal")
        held = apart.clamp(math.log(1 - clip_low), math.log(1 + clip_high))
        drift = (apart.exp() - 1).clamp(max=cap).detach()
        total = total + (torch.minimum(apart * advantage, held * advantage) - alpha * drift * logp[tokens]).sum()
    return total / max(len(step.logp), 1)


def mini_rl_loss(step: Step, logp: Tensor, cap: float, clip_low: float, clip_high: float) -> Tensor:
    total = logp.new_zeros(())
    for g, i, tokens in step.rollouts():
        old = _of(step, logp, tokens, "proximal")
        weight = (old - _of(step, logp, tokens, "behavior")).exp().clamp(max=cap)
        ratio, advantage = (logp[tokens] - old).exp(), _centred(step, g, i)
        each = torch.minimum(ratio * advantage, ratio.clamp(1 - clip_low, 1 + clip_high) * advantage)
        total = total + (weight * each).sum()
    return total / len(step.rollouts())


def opsm_loss(step: Step, logp: Tensor, limit: float, clip_low: float, clip_high: float) -> Tensor:
    total = logp.new_zeros(())
    for g, i, tokens in step.rollouts():
        advantage = _centred(step, g, i)
        if tokens:
            drift = float((_of(step, logp, tokens, "behavior") - logp[tokens].detach()).mean())
            if advantage < 0 and drift > limit:
                continue
            total = total + surrogate(step, logp, tokens, advantage, clip_low, clip_high) / step.max_tokens
    return total / len(step.rollouts())


def prime_ipo_loss(step: Step, logp: Tensor, width: float) -> Tensor:
    return _weighted(step, logp, lambda _, now, before: now / before if abs(now - before) <= width else 0.0)


def gepo_loss(step: Step, logp: Tensor, clip_low: float, clip_high: float, epsilon: float) -> Tensor:
    total = logp.new_zeros(())
    rows = {(g, i): tokens for g, i, tokens in step.rollouts() if tokens}
    for (g, i), tokens in rows.items():
        theirs = [float(_of(step, logp, rows[at], "behavior").mean().exp()) for at in rows if at[0] == g]
        expected = sum(q**2 for q in theirs) / sum(theirs)
        weight = logp[tokens].mean().exp() / expected
        advantage = _standard(step, g, i, epsilon)
        total = total + torch.minimum(weight * advantage, weight.clamp(1 - clip_low, 1 + clip_high) * advantage)
    return total / len(step.rollouts())


def real_loss(step: Step, logp: Tensor, temperature: float) -> Tensor:
    total = logp.new_zeros(())
    for g in range(len(step.rewards)):
        sides: dict[float, list[Tensor]] = {1.0: [], -1.0: []}
        for at, i, tokens in step.rollouts():
            if at == g and tokens:
                sign = 1.0 if step.rewards[g][i] else -1.0
                mean = (logp[tokens] - _of(step, logp, tokens, "proximal")).mean()
                sides[sign].append((-sign * mean / temperature).exp())
        for found in sides.values():
            if found:
                total = total - torch.stack(found).sum().log1p()
    return total / len(step.rewards)


def tba_loss(step: Step, logp: Tensor, beta: float) -> Tensor:
    """The squared distance of every regularised reward from the group's mean, halved and over β, the mean held."""
    total = logp.new_zeros(())
    for g in range(len(step.rewards)):
        rows = [(i, tokens) for at, i, tokens in step.rollouts() if at == g and tokens]
        apart = [(logp[tokens] - _of(step, logp, tokens, "reference")).sum() for _, tokens in rows]
        if rows:
            mean = torch.stack(apart).mean().detach()
            for (i, _), far in zip(rows, apart, strict=True):
                total = total - (_centred(step, g, i) - beta * (far - mean)) ** 2 / (2 * beta)
    return total / len(step.rollouts())
