"""Rows whose credit looks at how uncertain the policy was before each token."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from gnomon.objectives import closed, token_credit
from gnomon.objectives.group_rows import standard_score
from gnomon.objectives.ratio_rows import OVER_TOKENS, dapo
from gnomon.objectives.row import Noise, Objective, Scope, Singleton, row
from gnomon.objectives.target import Chances, ClosedForm, Seen, Shape, TokenShape

__all__ = ["entropy_mask", "rl_zvp"]


@row
def entropy_mask(*, share: float, clip_low: float, clip_high: float, epsilon: float) -> Objective:
    """The mean is still one over all tokens: fewer of them teach, and each weighs the same. What is left out is not
    noise alone: the expected gradient loses a part of ∇p, and jumps where a token crosses the quantile.

    Differs: the quantile is that of the collected step, also where it is trained on in several minibatches; TRL takes
        that of each micro-batch, so its gradient depends on how a step is split.
    """
    plain = dapo(clip_low, clip_high, epsilon)
    return replace(
        plain,
        credit=partial(token_credit.most_uncertain_alone, share=share),
        target=TokenShape(
            credit=partial(_most_uncertain, share=share, epsilon=epsilon),
            text="N Σ π hₜ ∇log π, hₜ = E[1[Hₜ ≥ quantile]·(r − r̄)/(σ + ε) / Σ|y|]",
            closed=closed.standardised_form(
                partial(closed.population, epsilon=epsilon),
                closed.whole,
                "N Σ π hₜ ∇log π, hₜ = E[1[Hₜ ≥ quantile]·(r − r̄)/(σ + ε) / Σ|y|]; for answers of one token, all of "
                "one entropy, that of `dapo`",
                one_token=True,
            ),
        ),
        scope=Scope.STEP,
        equation="κ = 1[Hₜ ≥ quantile]·clip(ρ; A)·A / Σⱼ|oⱼ|, A = (rᵢ − r̄)/(σ + ε)",
    )


@row
def rl_zvp(*, alpha: float, clip_low: float, clip_high: float, epsilon: float) -> Objective:
    """Groups that are all right or all wrong teach too, so no prompt is wasted; but what they teach depends on the
    policy's entropy and not on a comparison, and a group of one moves the policy.

    Differs: α = 0.1 is a choice made here.
    """
    return replace(
        dapo(clip_low, clip_high, epsilon),
        credit=partial(token_credit.zero_variance, alpha=alpha),
        target=TokenShape(
            credit=partial(_zero_variance, alpha=alpha, epsilon=epsilon),
            text="N Σ π hₜ ∇log π, hₜ = E[Aₜ / Σ|y|]",
            closed=ClosedForm(
                shape=partial(_with_entropy, alpha=alpha, epsilon=epsilon),
                text=f"{OVER_TOKENS}; beside it hₜ = α·Hₜ·N·E[1[K = N]/T] of right answers, "
                "−α·(max H − Hₜ)·N·E[1[K = 0]/T] of wrong ones",
                binary=True,
            ),
        ),
        singleton=Singleton.SCALED,
        noise=Noise.MOVES,
        equation="κ = clip(ρ; A)·A / Σⱼ|oⱼ|, Aₜ = (rᵢ − r̄)/(σ + ε) where 0 < K < N, αHₜ where K = N, "
        "−α(max H − Hₜ) where K = 0",
    )


def _most_uncertain(own: Seen, others: Sequence[Seen], max_tokens: int, *, share: float, epsilon: float) -> list[float]:
    every = sorted((value for rollout in (own, *others) for value in rollout.entropy), reverse=True)
    bar = every[int(share * (len(every) - 1) + 1e-9)]
    score = standard_score(own.reward, [rollout.reward for rollout in others], epsilon=epsilon) / len(every)
    return [score * (value >= bar) for value in own.entropy]


def _zero_variance(own: Seen, others: Sequence[Seen], max_tokens: int, *, alpha: float, epsilon: float) -> list[float]:
    tokens = own.length + sum(rollout.length for rollout in others)
    if any(rollout.reward != own.reward for rollout in others):
        credit = standard_score(own.reward, [rollout.reward for rollout in others], epsilon=epsilon) / tokens
        return [credit] * own.length
    return [value / tokens for value in _by_entropy(own, alpha)]


def _by_entropy(own: Seen, alpha: float) -> list[float]:
    return [alpha * (value if own.reward else value - max(own.entropy)) for value in own.entropy]


def _with_entropy(law: Chances, group: int, max_tokens: int, *, alpha: float, epsilon: float) -> Shape:
    mixed = closed.per_token(partial(closed.population, epsilon=epsilon), "").shape(law, group, max_tokens)
    alike = closed.tallied_form(_one_over_tokens, "").shape(law, group, max_tokens)
    assert mixed is not None and alike is not None

    def h(own: Seen) -> list[float]:
        weights = zip(mixed(own), alike(own), _by_entropy(own, alpha), strict=True)
        return [standard + share * push for standard, share, push in weights]

    return h


def _one_over_tokens(own: Seen, total: tuple[int, ...]) -> float:
    """Of a group that is all right or all wrong."""
    return 0.0 if total[0] and total[1] else 1 / (total[2] + total[3])
