"""Rows whose credit looks beyond the rewards of the group: at answers, lengths, the run's past, or demonstrations."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Literal

from gnomon.objectives import advantages, closed, group_credit, ratios
from gnomon.objectives.group_rows import dr_grpo, reinforce, standard_score
from gnomon.objectives.ratio_rows import OVER_TOKENS, dapo
from gnomon.objectives.row import Baseline, Data, Need, Noise, Objective, OffPolicy, Singleton, above, at_least, whole
from gnomon.objectives.target import Seen, TokenShape

__all__ = ["gfpo", "gfpo_efficiency", "luffy", "luffy_paper", "rae", "seed_grpo", "seed_grpo_loo"]

Fade = Literal["linear", "exponential", "focal"]


def seed_grpo(alpha: float = 0.5, fade: Fade = "linear", clip_low: float = 0.2, clip_high: float = 0.2) -> Objective:
    """SEED-GRPO: groups whose answers lie far apart move the policy less.

    The rollout's own answer takes part in the weight, which bends the gradient; `seed_grpo_loo` does without.

    Args: alpha, how much less, 0 ≤ α < 1; fade, of the weight: linear, exponential or focal; clip_low, clip_high,
        the band of the ratio, ≥ 0.
    Raises: ValueError for an option out of range.
    Differs: α = 0.5 and the exact forms of f are choices made here; the paper names the three.
    """
    _check_fade(alpha, fade)
    return replace(
        dr_grpo(clip_low, clip_high),
        name="seed_grpo",
        credit=partial(group_credit.entropy_weighted, alpha=alpha, fade=group_credit.FADES[fade]),
        target=TokenShape(
            credit=partial(_own_entropy, alpha=alpha, fade=fade),
            text="Σ π h ∇log π, h = E[(r − r̄)·f(α·SE/log N)] / L_max",
            closed=closed.entropy_of_all(
                partial(_faded, alpha=alpha, fade=fade),
                "Σ π h ∇log π, h = E[(r − r̄)·f(α·SE/log N)] / L_max; for pairs f(α)/(2·L_max) ∇p",
            ),
        ),
        equation="κ = clip(ρ; A)·A / (S·L_max), A = (rᵢ − r̄)·f(α·SE/log N)",
        source="Chen et al. 2025, arXiv 2505.12346",
    )


def seed_grpo_loo(
    alpha: float = 0.5, fade: Fade = "linear", clip_low: float = 0.2, clip_high: float = 0.2
) -> Objective:
    """SEED-GRPO made exact: the weight is that of the other answers, the baseline the mean of the other rewards.

    Args: alpha, how much less, 0 ≤ α < 1; fade, of the weight: linear, exponential or focal; clip_low, clip_high,
        the band of the ratio, ≥ 0.
    Raises: ValueError for an option out of range.
    """
    _check_fade(alpha, fade)
    return replace(
        seed_grpo(alpha, fade, clip_low, clip_high),
        name="seed_grpo_loo",
        advantage=advantages.leave_one_out,
        credit=partial(group_credit.others_entropy_weighted, alpha=alpha, fade=group_credit.FADES[fade]),
        target=TokenShape(
            credit=partial(_others_entropy, alpha=alpha, fade=fade),
            text="Σ π h ∇log π, h = E[(r − mean of the others)·f(α·SE₋ᵢ/log(N−1))] / L_max",
            closed=closed.entropy_of_others(partial(_faded, alpha=alpha, fade=fade), "E[f(α·SE₋ᵢ/log(N−1))]/L_max ∇p"),
        ),
        singleton=Singleton.REFUSED,
        baseline=Baseline.OTHERS,
        equation="κ = clip(ρ; A)·A / (S·L_max), A = (rᵢ − mean_{j≠i} rⱼ)·f(α·SE₋ᵢ/log(N−1))",
        source="Chen et al. 2025, arXiv 2505.12346, with the rollout itself left out",
    )


def gfpo(keep: int = 4, clip_low: float = 0.2, clip_high: float = 0.2, epsilon: float = 1e-6) -> Objective:
    """GFPO: only the shortest rollouts of a group teach, compared with each other.

    Whom a rollout is compared with depends on its length, so this is not the gradient of the expected reward.

    Args: keep, how many, at least 2; smaller groups are kept whole; clip_low, clip_high, the band of the ratio, ≥ 0;
        epsilon, added to the standard deviation, ≥ 0.
    Raises: ValueError for an option out of range.
    Differs: rollouts as long as the last that is kept are kept too.
    """
    whole(2, keep=keep)
    return replace(
        dapo(clip_low, clip_high, epsilon),
        name="gfpo",
        credit=partial(group_credit.filtered, score=group_credit.brevity, keep=keep),
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
        source="Shrivastava et al. 2025, arXiv 2508.09726",
    )


def gfpo_efficiency(keep: int = 4, clip_low: float = 0.2, clip_high: float = 0.2, epsilon: float = 1e-6) -> Objective:
    """GFPO by token efficiency: only the rollouts of most reward per token teach, compared with each other.

    Of rewards 0 and 1 it is a filter by count: groups with k successes or more teach nothing, the others whole.
    Of other rewards even one that has nothing to do with the answer moves the policy: who is kept depends on reward
    and length together.

    Args: keep, how many, at least 2; smaller groups are kept whole; clip_low, clip_high, the band of the ratio, ≥ 0;
        epsilon, added to the standard deviation, ≥ 0.
    Raises: ValueError for an option out of range.
    Differs: rollouts level with the last that is kept are kept too; among them are all failures, where fewer than
        k succeed.
    """
    whole(2, keep=keep)
    return replace(
        gfpo(keep, clip_low, clip_high, epsilon),
        name="gfpo_efficiency",
        credit=partial(group_credit.filtered, score=group_credit.reward_per_token, keep=keep),
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


def rae(clip_low: float = 0.2, clip_high: float = 0.2) -> Objective:
    """RAE: rewards less a running mean of past ones, kept for each game and role by whoever plays them.

    Args: clip_low, clip_high, the band of the ratio, ≥ 0.
    Raises: ValueError for an option out of range.
    Differs: the mean moves once per step, by the mean reward of the role; the released code moves it after every
        rollout, so that it also follows the earlier rollouts of the step. Both are known before the reward is, and the
        expectation is the same. With a rate of 0.95 the mean here forgets a step as that one forgets a rollout.
    """
    at_least(0, clip_low=clip_low, clip_high=clip_high)
    return replace(
        reinforce(),
        name="rae",
        credit=group_credit.past_centred,
        needs=frozenset({Need.BASELINE}),
        ratio=partial(ratios.ppo_clip, low=clip_low, high=clip_high),
        off_policy=OffPolicy.TOKEN,
        singleton=Singleton.SHIFTED,
        equation="κ = clip(ρ; A)·A / S, A = rᵢ − bᵢ",
        source="Liu et al. 2025 (SPIRAL), arXiv 2506.24119",
    )


def luffy(gamma: float = 0.1) -> Objective:
    """LUFFY as released: sampled rollouts and demonstrations in one group, each less the mean reward of the group.

    Sampled rollouts move the policy by their importance ratio, demonstrations by their shaped probability, unlikely
    tokens most. Nothing is clipped, and nothing is divided by a deviation or by a length.

    Args: gamma, of the shape π/(π + γ), > 0.
    Raises: ValueError for an option out of range.
    Differs: the released run adds an entropy bonus of 1e-3 (`regularize.entropy`) and divides by a constant of 8192;
        here the constant is the length limit. `luffy_paper` has the division by the deviation, the mean over tokens and
        the clip that this leaves out.
    """
    above(0, gamma=gamma)
    return replace(
        dr_grpo(),
        name="luffy",
        ratio=partial(ratios.unclipped_or_shaped, gamma=gamma),
        data=Data.MIXED,
        needs=frozenset({Need.DEMONSTRATIONS}),
        target=closed.demonstrated(closed.centred("Σ π h ∇log π, h = (N−1)/N·(r − E[r]) / L_max"), gamma),
        equation="κ = f·A / (S·L_max), f = ρ, or πγ/(π+γ)² of demonstrations, A = rᵢ − r̄",
        source="Yan et al. 2025, arXiv 2504.14945; ElliottYan/LUFFY, train.sh",
    )


def luffy_paper(gamma: float = 0.1, clip_low: float = 0.2, clip_high: float = 0.2, epsilon: float = 1e-6) -> Objective:
    """LUFFY on top of GRPO as its paper begins: standardised rewards, a clip, the mean over all tokens of the step.

    Args: gamma, of the shape π/(π + γ), > 0; clip_low, clip_high, the band of the ratio of sampled rollouts, ≥ 0;
        epsilon, added to the standard deviation, ≥ 0.
    Raises: ValueError for an option out of range.
    Differs: `luffy` is what was released and run: rewards less their mean, a constant divisor, no clip.
    """
    above(0, gamma=gamma)
    plain = closed.per_token(partial(closed.population, epsilon=epsilon), OVER_TOKENS)
    return replace(
        dapo(clip_low, clip_high, epsilon),
        name="luffy_paper",
        ratio=partial(ratios.clipped_or_shaped, low=clip_low, high=clip_high, gamma=gamma),
        data=Data.MIXED,
        needs=frozenset({Need.DEMONSTRATIONS}),
        target=TokenShape(
            credit=partial(_with_demonstrations, gamma=gamma, epsilon=epsilon),
            text="N Σ π h ∇log π, h = E[(r − r̄)/(σ + ε) / Σ|y|], times πγ/(π+γ)² for tokens of demonstrations",
            closed=closed.demonstrated(plain, gamma),
        ),
        equation="κ = f·A / Σⱼ|oⱼ|, f = clip(ρ; A), or πγ/(π+γ)² of demonstrations, A = (rᵢ − r̄)/(σ + ε)",
        source="Yan et al. 2025, arXiv 2504.14945",
    )


def _check_fade(alpha: float, fade: str) -> None:
    at_least(0, alpha=alpha)
    if not alpha < 1:
        raise ValueError(f"alpha must be below 1, not {alpha!r}")
    if fade not in group_credit.FADES:
        raise ValueError(f"no fade is called {fade!r}; known: {', '.join(group_credit.FADES)}")


def _certainty(answers: Sequence[int], alpha: float, fade: str) -> float:
    """f of the share of the largest entropy that these answers have."""
    if len(answers) < 2:
        return 1.0
    times = Counter(answers).values()
    entropy = -math.fsum(math.log(n / len(answers)) for n in times) / len(times)
    return _faded(entropy / math.log(len(answers)), alpha=alpha, fade=fade)


def _faded(uncertainty: float, *, alpha: float, fade: str) -> float:
    """f(α·u), u the entropy over its largest value."""
    less = alpha * uncertainty
    return {"linear": 1 - less, "exponential": math.exp(-less), "focal": (1 - less) ** 2}[fade]


def _own_entropy(own: Seen, others: Sequence[Seen], max_tokens: int, *, alpha: float, fade: str) -> list[float]:
    group = [own, *others]
    centred = own.reward - math.fsum(seen.reward for seen in group) / len(group)
    weight = _certainty([seen.answer for seen in group], alpha, fade)
    return [centred * weight / (len(group) * max_tokens)] * own.length


def _others_entropy(own: Seen, others: Sequence[Seen], max_tokens: int, *, alpha: float, fade: str) -> list[float]:
    excess = own.reward - math.fsum(seen.reward for seen in others) / max(len(others), 1)
    weight = _certainty([seen.answer for seen in others], alpha, fade)
    return [excess * weight / ((len(others) + 1) * max_tokens)] * own.length


def _shortness(seen: Seen) -> float:
    return -seen.length


def _efficiency(seen: Seen) -> float:
    return seen.reward / seen.length


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
    kept = [seen for seen in group if sum(score(other) > score(seen) for other in group) < keep]
    credit = 0.0
    if kept and kept[0] is own:
        credit = standard_score(own.reward, [seen.reward for seen in kept[1:]], epsilon=epsilon)
    return [credit / sum(seen.length for seen in group)] * own.length


def _with_demonstrations(
    own: Seen, others: Sequence[Seen], max_tokens: int, *, gamma: float, epsilon: float
) -> list[float]:
    tokens = own.length + sum(seen.length for seen in others)
    credit = standard_score(own.reward, [seen.reward for seen in others], epsilon=epsilon) / tokens
    if not own.demonstrated:
        return [credit] * own.length
    return [credit * gamma * math.exp(logp) / (math.exp(logp) + gamma) ** 2 for logp in own.logp]
