"""Rows whose credit is divided by something of the whole step. A target is that of a step of one group."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from gnomon.objectives import advantages, aggregate, closed, ratios, rollout_credit
from gnomon.objectives.group_rows import reinforce_centred, sample_score
from gnomon.objectives.ratio_rows import dapo, scale_rl
from gnomon.objectives.row import Baseline, Objective, OffPolicy, Scope, row
from gnomon.objectives.target import Chances, ClosedForm, Seen, Shape, SharedLength, TokenShape

__all__ = ["gdpo", "gpg", "gpg_verl", "lite_ppo", "magistral"]


@row
def gdpo(*, clip_low: float, clip_high: float, epsilon: float) -> Objective:
    """No part drowns another: of two parts with different spreads each moves the policy by its weight.
    With one part it is `grpo` with the sample deviation and a mean over tokens, standardised again over the step.

    Differs: the second deviation is over rollouts, as in TRL; verl takes it over tokens. It is that of the collected
        step, also where that is trained on in several minibatches.
    """
    return replace(
        dapo(clip_low, clip_high),
        advantage=partial(advantages.sample_standardised, epsilon=epsilon),
        credit=partial(rollout_credit.by_part, epsilon=epsilon),
        target=TokenShape(
            credit=partial(_by_part, epsilon=epsilon),
            text="Σ π h ∇log π, h = N·E[(A − Ā)/(s + ε) / Σⱼ|yⱼ|], A = Σₙ wₙ·(rₙ − r̄ₙ)/(sₙ + ε)",
            closed=ClosedForm(
                shape=partial(_two_values, epsilon=epsilon),
                text="Σ π h ∇log π, h = N·E[(A − Ā)/(s + ε) / Σⱼ|yⱼ|], A = Σₙ wₙ·(rₙ − r̄ₙ)/(sₙ + ε); where every part "
                "follows from whether an answer is right, h = ±N·E[√(F/K)/T] of right and ∓N·E[√(K/F)/T] of wrong "
                "answers, times √((N−1)/N)",
                binary=True,
            ),
        ),
        scope=Scope.STEP,
        equation="κ = clip(ρ; A)·(A − Ā)/(s + ε) / Σⱼ|oⱼ|, A = Σₙ wₙ·(rₙ − r̄ₙ)/(sₙ + ε)",
    )


@row
def gpg() -> Objective:
    """Of G groups on one prompt with the chance q = 1 − pᴺ − (1−p)ᴺ of deciding anything, the expectation is the
    target times (1 − (1−q)^G)/q: the fewer groups decide, the more each counts.
    """
    return replace(
        reinforce_centred(),
        credit=rollout_credit.over_deciding_groups,
        aggregate=aggregate.sequence_mean,
        target=closed.centred_form("(N−1)/N·(∇E[r/|y|] − p·∇E[1/|y|])", closed.over_length),
        scope=Scope.STEP,
        equation="κ = α·(rᵢ − r̄) / (S·|oᵢ|), α = groups / groups with more than one reward",
    )


@row
def gpg_verl() -> Objective:
    """Not the paper's factor: verl divides by the rollouts with a reward other than zero instead of by those of groups
    that decide anything. For rewards 0 and 1 that is the success rate of the batch, and on a step of one group the
    credit is that of `maxrl_released`.

    Differs: verl keeps the reward of a group of one.
    """
    return replace(
        gpg(),
        credit=rollout_credit.over_nonzero_rewards,
        aggregate=aggregate.token_mean,
        target=SharedLength(
            advantage=_over_nonzero,
            text="Σ π h ∇log π, h = N·E[(r − r̄)·N/#{rⱼ ≠ 0} / Σⱼ|yⱼ|]",
            closed=closed.tallied_form(
                _by_success_rate,
                "Σ π h ∇log π, h = N·E[(F/K)/T] of right answers, −N·E[1[K > 0]/T] of wrong ones; K right and F wrong "
                "of T tokens",
            ),
        ),
        baseline=Baseline.NONE,
        equation="κ = α·(rᵢ − r̄) / Σⱼ|oⱼ|, α = rollouts / rollouts with a reward other than 0",
    )


@row
def lite_ppo(*, clip_low: float, clip_high: float, epsilon: float) -> Objective:
    """Differs: the deviation is that of the collected step, also where it is trained on in several minibatches."""
    return replace(
        dapo(clip_low, clip_high, epsilon),
        advantage=advantages.mean_centred,
        credit=partial(rollout_credit.over_spread_of_rewards, epsilon=epsilon),
        target=SharedLength(
            advantage=partial(sample_score, epsilon=epsilon),
            text="Σ π h ∇log π, h = N·E[(r − r̄)/(s + ε) / Σⱼ|yⱼ|]",
            closed=closed.per_token(
                partial(closed.sample, epsilon=epsilon),
                "Σ π h ∇log π, h = N·E[√((N−1)F/(N·K))/T] of right answers, −N·E[√((N−1)K/(N·F))/T] of wrong ones; "
                "K right and F wrong of T tokens",
            ),
        ),
        scope=Scope.STEP,
        equation="κ = clip(ρ; A)·A / Σⱼ|oⱼ|, A = (rᵢ − r̄)/(s_step + ε), s_step the deviation of all rewards",
    )


@row
def magistral(*, clip_low: float, clip_high: float, epsilon: float) -> Objective:
    """With whole groups the mean of the advantages is zero, so to normalise them is to divide by their deviation, as
    `scale_rl` does.

    Differs: there advantages are normalised over each minibatch, here over the collected step, which is the same with
        one minibatch. The paper prints no lower width of the clip and no ε.
    """
    return replace(
        scale_rl(epsilon=epsilon),
        ratio=partial(ratios.ppo_clip, low=clip_low, high=clip_high),
        mismatch=OffPolicy.ON_POLICY,
        equation="κ = clip(ρ; A)·A / (G′·Σ_{j∈g}|oⱼ|), A = (rᵢ − r̄)/(σ_step + ε), G′ groups with more than one reward",
    )


def _over_nonzero(reward: float, others: Sequence[float]) -> float:
    rewards = [reward, *others]
    mean = math.fsum(rewards) / len(rewards)
    return (reward - mean) * len(rewards) / max(sum(value != 0 for value in rewards), 1)


def _by_success_rate(own: Seen, total: tuple[int, ...]) -> float:
    right, wrong, tokens = total[0], total[1], total[2] + total[3]
    if not right:
        return 0.0
    return (wrong / right if own.reward else -1.0) / tokens


def _by_part(own: Seen, others: Sequence[Seen], max_tokens: int, *, epsilon: float) -> list[float]:
    group, tokens = [own, *others], own.length + sum(rollout.length for rollout in others)
    total = [0.0] * len(group)
    for n, weight in enumerate(own.part_weights):
        of_part = [rollout.parts[n] for rollout in group]
        for i, value in enumerate(of_part):
            total[i] += weight * sample_score(value, [*of_part[:i], *of_part[i + 1 :]], epsilon=epsilon)
    return [sample_score(total[0], total[1:], epsilon=epsilon) / tokens] * own.length


def _two_values(law: Chances, group: int, max_tokens: int, *, epsilon: float) -> Shape:
    """Two outcomes: every part is one of two values, so all parts standardise to the same up to sign and ε."""
    right, wrong = (next(rollout.parts for rollout, _ in law if rollout.reward == value) for value in (1, 0))
    weights = law[0][0].part_weights

    def deviation(successes: int, failures: int) -> float:
        plain, size = closed.sample(successes, failures, epsilon=0.0), successes + failures
        rises = zip(weights, right, wrong, strict=True)
        rise = math.fsum(w * (b - a) / (abs(b - a) * plain + epsilon) for w, b, a in rises)
        return (abs(rise) * plain + epsilon) / rise if size > 1 else 1.0

    shape = closed.per_token(deviation, "").shape(law, group, max_tokens)
    assert shape is not None
    return shape
