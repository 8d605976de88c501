"""Rows whose credit looks beyond the rewards of the group: at answers, lengths, the run's past, or demonstrations."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from gnomon.objectives import advantages, closed, penalties, ratios, rollout_credit
from gnomon.objectives.group_rows import dr_grpo, reinforce, standard_score
from gnomon.objectives.past import mean_per_rollout, mean_per_step, optimal_value_per_task
from gnomon.objectives.ratio_rows import OVER_TOKENS, dapo
from gnomon.objectives.row import Baseline, Noise, Objective, OffPolicy, Scope, Singleton, row
from gnomon.objectives.target import Seen, TokenShape

__all__ = [
    "a_star_po",
    "gfpo",
    "luffy",
    "luffy_paper",
    "opo",
    "rae",
    "remax",
    "seed_grpo",
]


@row
def seed_grpo(*, alpha: float, fade: str, clip_low: float, clip_high: float, baseline: str) -> Objective:
    """The rollout's own answer takes part in the weight, which bends the gradient; with `others`, the weight is that of
    the other answers.

    Differs: α = 0.5 and the exact forms of f are choices made here; the paper names the three.
    """
    published = replace(
        dr_grpo(clip_low, clip_high),
        credit=partial(rollout_credit.entropy_weighted, alpha=alpha, fade=rollout_credit.FADES[fade]),
        target=TokenShape(
            credit=partial(_own_entropy, alpha=alpha, fade=fade),
            text="Σ π h ∇log π, h = E[(r − r̄)·f(α·SE/log N)] / L_max",
            closed=closed.entropy_of_all(
                partial(_fade, alpha=alpha, fade=fade),
                "Σ π h ∇log π, h = E[(r − r̄)·f(α·SE/log N)] / L_max; for pairs f(α)/(2·L_max) ∇p",
            ),
        ),
        equation="κ = clip(ρ; A)·A / (S·L_max), A = (rᵢ − r̄)·f(α·SE/log N)",
    )
    if baseline == "group":
        return published
    return replace(
        published,
        advantage=advantages.leave_one_out,
        credit=partial(rollout_credit.others_entropy_weighted, alpha=alpha, fade=rollout_credit.FADES[fade]),
        target=TokenShape(
            credit=partial(_others_entropy, alpha=alpha, fade=fade),
            text="Σ π h ∇log π, h = E[(r − mean of the others)·f(α·SE₋ᵢ/log(N−1))] / L_max",
            closed=closed.entropy_of_others(partial(_fade, alpha=alpha, fade=fade), "E[f(α·SE₋ᵢ/log(N−1))]/L_max ∇p"),
        ),
        singleton=Singleton.REFUSED,
        baseline=Baseline.OTHERS,
        equation="κ = clip(ρ; A)·A / (S·L_max), A = (rᵢ − mean_{j≠i} rⱼ)·f(α·SE₋ᵢ/log(N−1))",
    )


@row
def gfpo(*, keep: int, clip_low: float, clip_high: float, epsilon: float, by: str) -> Objective:
    """Whom a rollout is compared with depends on its length, so this is not the gradient of the expected reward.

    With `efficiency` and rewards 0 and 1 it is a filter by count: groups with k successes or more teach nothing, the
    others whole. Of other rewards even one that has nothing to do with the answer moves the policy: who is kept depends
    on reward and length together.

    Differs: rollouts level with the last that is kept are kept too; with `efficiency`, among them are all failures,
        where fewer than k succeed.
    """
    shortest = replace(
        dapo(clip_low, clip_high, epsilon),
        credit=partial(rollout_credit.keep_best, score=rollout_credit.brevity, keep=keep),
        target=TokenShape(
            credit=partial(_among_best, score=_shortness, keep=keep, epsilon=epsilon),
            text="N Σ π h ∇log π, h = E[1[kept]·(r − r̄)/(σ + ε) / Σ|y|], r̄ and σ of the k shortest",
            closed=closed.kept_by_length(
                keep,
                epsilon,
                "Σ π h ∇log π, h = N·E[√(F/K)/T] of right answers, −N·E[√(K/F)/T] of wrong ones, 0 of those longer "
                "than the k shortest; K right and F wrong among these, T tokens of the group",
            ),
        ),
        equation="κ = clip(ρ; A)·A / Σⱼ|oⱼ|, A = 1[i ∈ K]·(rᵢ − r̄_K)/(σ_K + ε), K the k shortest",
    )
    if by == "length":
        return shortest
    return replace(
        shortest,
        credit=partial(rollout_credit.keep_best, score=rollout_credit.reward_per_token, keep=keep),
        target=TokenShape(
            credit=partial(_among_best, score=_efficiency, keep=keep, epsilon=epsilon),
            text="N Σ π h ∇log π, h = E[1[kept]·(r − r̄)/(σ + ε) / Σ|y|], r̄ and σ of the k best by r/|y|",
            closed=closed.kept_by_count(
                keep,
                epsilon,
                "Σ π h ∇log π, h = N·E[1[K < k]·√(F/K)/T] of right answers, −N·E[1[K < k]·√(K/F)/T] of wrong ones; "
                "K right and F wrong of T tokens",
            ),
        ),
        baseline=Baseline.NONE,
        noise=Noise.MOVES,
        equation="κ = clip(ρ; A)·A / Σⱼ|oⱼ|, A = 1[i ∈ K]·(rᵢ − r̄_K)/(σ_K + ε), K the k best by rⱼ/|oⱼ|",
    )


@row
def opo(*, baseline: str) -> Objective:
    """The baseline of least variance if a rollout's squared score grows as its length. It contains the rollout itself;
    with `others`, it does not, and the gradient is exact.

    Differs: for one update per batch, as there. A group of one has no gradient; verl keeps its reward.
    """
    published = replace(
        reinforce(),
        credit=rollout_credit.length_centred,
        target=TokenShape(
            credit=_length_centred,
            text="Σ π h ∇log π, h = E[r − Σⱼ|yⱼ|rⱼ/Σⱼ|yⱼ|]",
            closed=closed.length_centred(
                "Σ π h ∇log π, h = E[V/(U+V)] of right answers, −E[U/(U+V)] of wrong ones; U tokens of right answers "
                "and V of wrong ones",
            ),
        ),
        singleton=Singleton.ZERO,
        baseline=Baseline.GROUP,
        equation="κ = (rᵢ − Σⱼ|oⱼ|rⱼ/Σⱼ|oⱼ|) / S",
    )
    if baseline == "group":
        return published
    return replace(
        published,
        credit=rollout_credit.others_length_centred,
        target=TokenShape(
            credit=_others_length_centred,
            text="Σ π h ∇log π, h = E[r − Σ_{j≠i}|yⱼ|rⱼ/Σ_{j≠i}|yⱼ|]",
            closed=closed.of_value(_reward, "∇p"),
        ),
        singleton=Singleton.REFUSED,
        baseline=Baseline.OTHERS,
        equation="κ = (rᵢ − Σ_{j≠i}|oⱼ|rⱼ/Σ_{j≠i}|oⱼ|) / S",
    )


@row
def rae(*, clip_low: float, clip_high: float, mean_per: str) -> Objective:
    """Differs: by default the mean moves once per step, by the mean reward of the role. The released code moves it
    after every rollout (`mean_per=rollout`), so it also follows the earlier rollouts of the step. Both means are known
    before the reward is, and the expectation is the same. With a rate of 0.95 the default forgets a step as the
    released code forgets a rollout.
    """
    recall = {"step": mean_per_step, "rollout": mean_per_rollout}[mean_per]
    return replace(
        reinforce(),
        credit=rollout_credit.past_centred,
        recall=recall,
        ratio=partial(ratios.ppo_clip, low=clip_low, high=clip_high),
        off_policy=OffPolicy.TOKEN,
        singleton=Singleton.SHIFTED,
        scope=Scope.STEP if mean_per == "rollout" else Scope.GROUP,
        equation="κ = clip(ρ; A)·A / S, A = rᵢ − bᵢ",
    )


@row
def a_star_po(*, beta: float, temperature: float) -> Objective:
    """With a reference apart the expectation is ∇(p − β·KL(π‖π_ref)), whatever V* is; with the V* of the reference
    every coefficient is zero at the policy that is best in that sense, π ∝ π_ref·exp(r/β). One rollout of a task will
    do.

    Differs: the source estimates V* before training from 8 rollouts of the reference on every task, and leaves out
        tasks that none of them solves; here it comes from the first visit of a task, by the policy of that time. The
        source's factor 2β is left to the learning rate.
    """
    return replace(
        reinforce(),
        credit=rollout_credit.past_centred,
        recall=partial(optimal_value_per_task, temperature=temperature),
        penalty=penalties.k1_in_return,
        penalty_weight=beta,
        singleton=Singleton.SHIFTED,
        equation="κ = (rᵢ − V* − β·Σₜ log(π/π_ref)) / S, V* = β₁·log mean e^{r/β₁} over the first visit of the task",
    )


@row
def remax() -> Objective:
    """Unlike a mean over the group it works with one rollout per task, beside the greedy one; unlike a running mean it
    belongs to the task. A task that is always solved, the greedy answer included, gives exactly zero.

    Differs: for one update per batch, and without the penalty by a reference, which `regularize.kl` adds.
    """
    return replace(
        reinforce(),
        credit=rollout_credit.greedy_centred,
        singleton=Singleton.SHIFTED,
        baseline=Baseline.GREEDY,
        equation="κ = (rᵢ − r(greedy)) / S",
    )


@row
def luffy(*, gamma: float) -> Objective:
    """Sampled rollouts move the policy by their importance ratio, demonstrations by their shaped probability, unlikely
    tokens most. Nothing is clipped, and nothing is divided by a deviation or by a length.

    Differs: the released run adds an entropy bonus of 1e-3 (`regularize.entropy`) and divides by a constant of 8192;
        here the constant is the length limit. `luffy_paper` has the division by the deviation, the mean over tokens and
        the clip that this leaves out.
    """
    return replace(
        dr_grpo(),
        ratio=partial(ratios.unclipped_or_shaped, gamma=gamma),
        target=closed.with_demonstrations(closed.centred_form("Σ π h ∇log π, h = (N−1)/N·(r − E[r]) / L_max"), gamma),
        equation="κ = f·A / (S·L_max), f = ρ, or πγ/(π+γ)² of demonstrations, A = rᵢ − r̄",
    )


@row
def luffy_paper(*, gamma: float, clip_low: float, clip_high: float, epsilon: float) -> Objective:
    """Differs: `luffy` is what was released and run: rewards less their mean, a constant divisor, no clip."""
    plain = closed.per_token(partial(closed.population, epsilon=epsilon), OVER_TOKENS)
    return replace(
        dapo(clip_low, clip_high, epsilon),
        ratio=partial(ratios.clipped_or_shaped, low=clip_low, high=clip_high, gamma=gamma),
        target=TokenShape(
            credit=partial(_with_demonstrations, gamma=gamma, epsilon=epsilon),
            text="N Σ π h ∇log π, h = E[(r − r̄)/(σ + ε) / Σ|y|], times πγ/(π+γ)² for tokens of demonstrations",
            closed=closed.with_demonstrations(plain, gamma),
        ),
        equation="κ = f·A / Σⱼ|oⱼ|, f = clip(ρ; A), or πγ/(π+γ)² of demonstrations, A = (rᵢ − r̄)/(σ + ε)",
    )


def _length_centred(own: Seen, others: Sequence[Seen], max_tokens: int) -> list[float]:
    group = [own, *others]
    mean = math.fsum(rollout.length * rollout.reward for rollout in group) / sum(rollout.length for rollout in group)
    return [(own.reward - mean) / len(group)] * own.length


def _others_length_centred(own: Seen, others: Sequence[Seen], max_tokens: int) -> list[float]:
    tokens = sum(rollout.length for rollout in others)
    mean = math.fsum(rollout.length * rollout.reward for rollout in others) / max(tokens, 1)
    return [(own.reward - mean) / (len(others) + 1)] * own.length


def _reward(own: Seen, max_tokens: int) -> float:
    return own.reward


def _certainty(answers: Sequence[int], alpha: float, fade: str) -> float:
    """f of the share of the largest entropy that these answers have."""
    if len(answers) < 2:
        return 1.0
    times = Counter(answers).values()
    entropy = -math.fsum(math.log(n / len(answers)) for n in times) / len(times)
    return _fade(entropy / math.log(len(answers)), alpha=alpha, fade=fade)


def _fade(uncertainty: float, *, alpha: float, fade: str) -> float:
    """f(α·u), u the entropy over its largest value."""
    less = alpha * uncertainty
    return {"linear": 1 - less, "exponential": math.exp(-less), "focal": (1 - less) ** 2}[fade]


def _own_entropy(own: Seen, others: Sequence[Seen], max_tokens: int, *, alpha: float, fade: str) -> list[float]:
    group = [own, *others]
    centred = own.reward - math.fsum(rollout.reward for rollout in group) / len(group)
    weight = _certainty([rollout.answer for rollout in group], alpha, fade)
    return [centred * weight / (len(group) * max_tokens)] * own.length


def _others_entropy(own: Seen, others: Sequence[Seen], max_tokens: int, *, alpha: float, fade: str) -> list[float]:
    excess = own.reward - math.fsum(rollout.reward for rollout in others) / max(len(others), 1)
    weight = _certainty([rollout.answer for rollout in others], alpha, fade)
    return [excess * weight / ((len(others) + 1) * max_tokens)] * own.length


def _shortness(rollout: Seen) -> float:
    return -rollout.length


def _efficiency(rollout: Seen) -> float:
    return rollout.reward / rollout.length


def _among_best(
    own: Seen,
    others: Sequence[Seen],
    max_tokens: int,
    *,
    score: Callable[[Seen], float],
    keep: int,
    epsilon: float,
) -> list[float]:
    """As many as are better than a rollout decide whether it is kept, and so for its company."""
    group = [own, *others]
    best = [rollout for rollout in group if sum(score(other) > score(rollout) for other in group) < keep]
    credit = 0.0
    if best and best[0] is own:
        credit = standard_score(own.reward, [rollout.reward for rollout in best[1:]], epsilon=epsilon)
    return [credit / sum(rollout.length for rollout in group)] * own.length


def _with_demonstrations(
    own: Seen, others: Sequence[Seen], max_tokens: int, *, gamma: float, epsilon: float
) -> list[float]:
    tokens = own.length + sum(rollout.length for rollout in others)
    credit = standard_score(own.reward, [rollout.reward for rollout in others], epsilon=epsilon) / tokens
    if not own.demonstrated:
        return [credit] * own.length
    return [credit * gamma * math.exp(logp) / (math.exp(logp) + gamma) ** 2 for logp in own.logp]
