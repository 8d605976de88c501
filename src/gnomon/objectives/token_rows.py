"""Rows whose credit differs from token to token: over a critic, or less the way strayed from a reference."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from gnomon.objectives import advantages, aggregate, closed, penalties, ratios, token_credit
from gnomon.objectives.row import Baseline, Noise, Objective, OffPolicy, Scope, Singleton, row
from gnomon.objectives.target import Seen, TokenShape

__all__ = ["ppo", "ppo_whitened", "reinforce_pp", "reinforce_pp_loo", "vapo", "vc_ppo"]

LAMBDA_RETURN = "Σ π hₜ ∇log π, hₜ = Σ_{k≥t} (γλ)^{k−t}·(r_k + γ(1−λ)V_{k+1}) / L_max"
LIMITED = "; the last reward of a rollout that a limit ended has γV with it, V the critic's value after the last token"
"""Of a row with a value there."""
WHITENED = (
    "Σ π h ∇log π, h = N·E[√(V·(T−1)/(U·T))/T] of right answers, −N·E[√(U·(T−1)/(V·T))/T] of wrong ones; T tokens, "
    "U of right answers and V of wrong ones"
)


@row
def ppo(
    *,
    gamma: float,
    lam: float,
    clip_low: float,
    clip_high: float,
    value_clip: float,
    value_steps: int,
    bootstrap: str,
) -> Objective:
    """With γ = λ = 1 it maximises the expected reward exactly, for any critic; with λ < 1 only where the critic
    is right. With `bootstrap`, where the critic is right, it maximises what rollouts would earn without the limit.

    Differs: the mean over tokens that is usual would weigh answers by their length.
    """
    exact, limited = gamma == lam == 1 and bootstrap == "none", LIMITED * (bootstrap != "none")
    beyond = token_credit.BEYOND[bootstrap]
    return Objective(
        advantage=advantages.raw,
        credit=partial(token_credit.gae, gamma=gamma, lam=lam, beyond=beyond),
        returns=partial(token_credit.gae_returns, gamma=gamma, lam=lam, beyond=beyond),
        ratio=partial(ratios.ppo_clip, low=clip_low, high=clip_high),
        correction=ratios.no_correction,
        aggregate=aggregate.constant,
        target=TokenShape(
            credit=partial(_constant_gae, gamma=gamma, lam=lam, beyond=_BEYOND[bootstrap]),
            text="Σ π hₜ ∇log π, hₜ = Aₜ / L_max",
            closed=closed.lambda_return(
                gamma, lam, "∇p / L_max" if exact else LAMBDA_RETURN + limited, beyond=_BEYOND[bootstrap]
            ),
        ),
        off_policy=OffPolicy.TOKEN,
        singleton=Singleton.RAW,
        baseline=Baseline.CRITIC,
        value_clip=value_clip,
        value_steps=value_steps,
        noise=Noise.STILL if exact else Noise.EVEN if lam == 1 and bootstrap == "none" else Noise.MOVES,
        equation="κ = clip(ρ; A)·A / (S·L_max), Aₜ = Σ_l (γλ)ˡ δ_{t+l}, δₜ = rₜ + γV_{t+1} − Vₜ" + limited,
    )


@row
def vc_ppo(
    *,
    lam: float,
    lam_critic: float,
    clip_low: float,
    clip_high: float,
    value_clip: float,
    value_steps: int,
    bootstrap: str,
) -> Objective:
    """With λ = 1 for the critic it learns what rollouts earn, whatever it expects itself, while a λ below one for the
    policy takes the critic's word for what follows and scatters less.

    Differs: the mean over tokens that the source has would weigh answers by their length; and the source trains the
        critic for 50 batches before the policy, which `value_steps` = 50 does.
    """
    return replace(
        ppo(1.0, lam, clip_low, clip_high, value_clip, value_steps, bootstrap),
        returns=partial(token_credit.gae_returns, gamma=1.0, lam=lam_critic, beyond=token_credit.BEYOND[bootstrap]),
        equation="κ = clip(ρ; A)·A / (S·L_max), Aₜ = Σ_l λˡ δ_{t+l}, δₜ = rₜ + V_{t+1} − Vₜ; the critic learns with a "
        "λ of its own" + LIMITED * (bootstrap != "none"),
    )


@row
def vapo(
    *,
    alpha: float,
    likelihood: float,
    clip_low: float,
    clip_high: float,
    value_clip: float,
    value_steps: int,
    bootstrap: str,
) -> Objective:
    """Long rollouts use the critic as a baseline nearly alone, short ones take its word for what follows.

    Differs: sums over tokens by a constant in place of their means, which would weigh answers by their length; and the
        likelihood of right answers is left out unless `likelihood` has a weight.
    """
    beyond, limited = token_credit.BEYOND[bootstrap], LIMITED * (bootstrap != "none")
    opened, closed_by = ("(", " + μ·1[r ≥ 1])") if likelihood else ("", "")
    return replace(
        ppo(clip_low=clip_low, clip_high=clip_high, value_clip=value_clip, value_steps=value_steps),
        credit=partial(token_credit.length_gae, alpha=alpha, beyond=beyond),
        returns=partial(token_credit.gae_returns, gamma=1.0, lam=1.0, beyond=beyond),
        penalty=penalties.likelihood_of_right if likelihood else None,
        penalty_weight=likelihood,
        target=TokenShape(
            credit=partial(_constant_length_gae, alpha=alpha, likelihood=likelihood, beyond=_BEYOND[bootstrap]),
            text=f"Σ π hₜ ∇log π, hₜ = {opened}Aₜ{closed_by} / L_max",
            closed=closed.lambda_return(
                1.0,
                partial(_trace, alpha=alpha),
                f"Σ π hₜ ∇log π, hₜ = {opened}Σ_{{k≥t}} λ^{{k−t}}·(r_k + (1−λ)V_{{k+1}}){closed_by} / L_max, "
                "λ = max(0, 1 − 1/(α·|y|))" + limited,
                beyond=_BEYOND[bootstrap],
                likelihood=likelihood,
            ),
        ),
        off_policy=OffPolicy.WEIGHTED if likelihood else OffPolicy.TOKEN,
        noise=Noise.MOVES,
        equation=f"κ = {opened}clip(ρ; A)·A{closed_by} / (S·L_max), Aₜ = Σ_l λˡ δ_{{t+l}}, δₜ = rₜ + V_{{t+1}} − Vₜ, "
        "λ = max(0, 1 − 1/(α·|oᵢ|))" + limited,
    )


@row
def ppo_whitened(*, gamma: float, lam: float, clip_low: float, clip_high: float, epsilon: float) -> Objective:
    """The mean weighs long rollouts more and the deviation couples rollouts: the gradient is that of no fixed
    quantity, and noise moves it.

    Differs: released code goes on with a mean over tokens; here the whitening stands alone.
    """
    return replace(
        ppo(gamma, lam, clip_low, clip_high),
        credit=partial(token_credit.whitened_gae, gamma=gamma, lam=lam, epsilon=epsilon),
        target=TokenShape(
            credit=partial(_constant_whitened_gae, gamma=gamma, lam=lam, epsilon=epsilon),
            text="Σ π hₜ ∇log π, hₜ = N·E[(Aₜ − Ā)/√(s² + ε)] / (S·L_max)",
            closed=closed.standardised_form(
                partial(closed.curved_sample, epsilon=epsilon),
                closed.over_limit,
                "Σ π hₜ ∇log π, hₜ = E[(Aₜ − Ā)/√(s² + ε)] / L_max; for answers of one token w(p)/L_max ∇p, "
                "w = √((N−1)/N)·E[√(F/(1+M)) + √(M/(1+F))], M ~ Bin(N−1, p), F = N−1−M",
                one_token=True,
            ),
        ),
        singleton=Singleton.ZERO,
        baseline=Baseline.STEP if gamma == lam == 1 else Baseline.CRITIC,
        scope=Scope.STEP,
        noise=Noise.MOVES,
        equation="κ = clip(ρ; Â)·Â / (S·L_max), Âₜ = (Aₜ − Ā)/√(s² + ε) over the tokens of the step",
    )


@row
def reinforce_pp(*, beta: float, clip_low: float, clip_high: float, epsilon: float, baseline: str) -> Objective:
    """Differs: the penalty is off unless asked for. With the mean of the group for a baseline, released code takes a
    rollout's whole penalty off every token; here a token answers for what follows.
    """
    published = Objective(
        advantage=advantages.raw,
        credit=partial(token_credit.whitened_reward_to_go, beta=beta, epsilon=epsilon),
        ratio=partial(ratios.ppo_clip, low=clip_low, high=clip_high),
        correction=ratios.no_correction,
        aggregate=aggregate.token_mean,
        target=TokenShape(
            credit=partial(_mean_whitened_to_go, beta=beta, epsilon=epsilon),
            text="Σ π hₜ ∇log π, hₜ = N·E[(Aₜ − Ā)/√(s² + ε) / Σ|o|], A to go",
            closed=None if beta else closed.whitened_tokens(epsilon, WHITENED),
        ),
        off_policy=OffPolicy.TOKEN,
        singleton=Singleton.ZERO,
        min_rollouts=1 if beta else 2,
        baseline=Baseline.STEP,
        scope=Scope.STEP,
        noise=Noise.MOVES if beta else Noise.EVEN,
        equation="κ = clip(ρ; Â)·Â / Σ|o|, Âₜ = (Aₜ − Ā)/√(s² + ε), Aₜ = rᵢ − β Σ_{s≥t} log(π/π_ref)",
    )
    if baseline == "none":
        return published
    return replace(
        published,
        advantage=advantages.mean_centred,
        target=TokenShape(
            credit=partial(_mean_whitened_centred_to_go, beta=beta, epsilon=epsilon),
            text="Σ π hₜ ∇log π, hₜ = N·E[(Aₜ − Ā)/√(s² + ε) / Σ|o|], A of r − r̄, to go",
            closed=None if beta else closed.whitened_tokens(epsilon, WHITENED),
        ),
        min_rollouts=1,
        baseline=Baseline.GROUP,
        equation="κ = clip(ρ; Â)·Â / Σ|o|, Âₜ = (Aₜ − Ā)/√(s² + ε), Aₜ = rᵢ − r̄ − β Σ_{s≥t} log(π/π_ref)",
    )


@row
def reinforce_pp_loo(*, beta: float, scale: float, clip_low: float, clip_high: float) -> Objective:
    """Differs: the paper whitens by the step itself and takes a mean over tokens; both bend the gradient."""
    return replace(
        reinforce_pp(beta, clip_low, clip_high),
        advantage=advantages.leave_one_out,
        credit=partial(token_credit.reward_to_go_over, beta=beta, scale=scale),
        aggregate=aggregate.constant,
        target=TokenShape(
            credit=partial(_constant_scaled_to_go, beta=beta, scale=scale),
            text="Σ π hₜ ∇log π, hₜ = E[Aₜ] / L_max",
            closed=closed.of_value(
                partial(_less_divergence, beta=beta, scale=scale),
                "(∇p − β∇KL(π‖π_ref)) / (scale·L_max)" if beta else "∇p / (scale·L_max)",
            ),
        ),
        singleton=Singleton.REFUSED,
        min_rollouts=1,
        baseline=Baseline.OTHERS,
        scope=Scope.GROUP,
        noise=Noise.MOVES if beta else Noise.STILL,
        equation="κ = clip(ρ; A)·A / (S·L_max), Aₜ = (rᵢ − mean_{j≠i} rⱼ − β Σ_{s≥t} log(π/π_ref)) / scale",
    )


def _ends(own: Seen) -> float:
    return 0.0


def _cut_reply(own: Seen) -> float:
    return own.beyond if own.ended == 1 else 0.0


def _any_limit(own: Seen) -> float:
    return own.beyond if own.ended else 0.0


_Beyond = Callable[[Seen], float]
_BEYOND: dict[str, _Beyond] = {"none": _ends, "reply": _cut_reply, "limit": _any_limit}
"""What is expected after the last token, by the value of the option."""


def _gae(own: Seen, gamma: float, lam: float, beyond: _Beyond = _ends) -> list[float]:
    values = [*own.values, beyond(own)]
    paid = [own.reward * (t == own.length - 1) for t in range(own.length)]
    surprise = [paid[t] + gamma * values[t + 1] - values[t] for t in range(own.length)]
    return [
        math.fsum((gamma * lam) ** (later - t) * surprise[later] for later in range(t, own.length))
        for t in range(own.length)
    ]


def _to_go(own: Seen, reward: float, beta: float) -> list[float]:
    strayed = [mine - theirs for mine, theirs in zip(own.logp, own.reference, strict=True)]
    return [reward - beta * math.fsum(strayed[t:]) for t in range(own.length)]


def _white(own: list[float], others: list[list[float]], epsilon: float) -> list[float]:
    every = [*own, *(value for other in others for value in other)]
    if min(every) == max(every):
        return [0.0] * len(own)
    mean = math.fsum(every) / len(every)
    variance = math.fsum((value - mean) ** 2 for value in every) / (len(every) - 1)
    return [(value - mean) / math.sqrt(variance + epsilon) for value in own]


def _constant_gae(
    own: Seen, others: Sequence[Seen], max_tokens: int, *, gamma: float, lam: float, beyond: _Beyond
) -> list[float]:
    return [value / (max_tokens * (1 + len(others))) for value in _gae(own, gamma, lam, beyond)]


def _trace(length: int, *, alpha: float) -> float:
    return max(0.0, 1 - 1 / (alpha * length))


def _constant_length_gae(
    own: Seen, others: Sequence[Seen], max_tokens: int, *, alpha: float, likelihood: float, beyond: _Beyond
) -> list[float]:
    estimates = _gae(own, 1.0, _trace(own.length, alpha=alpha), beyond)
    return [(value + likelihood * (own.reward >= 1)) / (max_tokens * (1 + len(others))) for value in estimates]


def _constant_whitened_gae(
    own: Seen, others: Sequence[Seen], max_tokens: int, *, gamma: float, lam: float, epsilon: float
) -> list[float]:
    white = _white(_gae(own, gamma, lam), [_gae(other, gamma, lam) for other in others], epsilon)
    return [value / (max_tokens * (1 + len(others))) for value in white]


def _mean_whitened_to_go(
    own: Seen, others: Sequence[Seen], max_tokens: int, *, beta: float, epsilon: float, centre: float = 0.0
) -> list[float]:
    to_go = [_to_go(other, other.reward - centre, beta) for other in others]
    tokens = own.length + sum(other.length for other in others)
    return [value / tokens for value in _white(_to_go(own, own.reward - centre, beta), to_go, epsilon)]


def _mean_whitened_centred_to_go(
    own: Seen, others: Sequence[Seen], max_tokens: int, *, beta: float, epsilon: float
) -> list[float]:
    mean = math.fsum([own.reward, *(other.reward for other in others)]) / (1 + len(others))
    return _mean_whitened_to_go(own, others, max_tokens, beta=beta, epsilon=epsilon, centre=mean)


def _constant_scaled_to_go(
    own: Seen, others: Sequence[Seen], max_tokens: int, *, beta: float, scale: float
) -> list[float]:
    rest = math.fsum(other.reward for other in others) / len(others)
    share = scale * max_tokens * (1 + len(others))
    return [value / share for value in _to_go(own, own.reward - rest, beta)]


def _less_divergence(own: Seen, max_tokens: int, *, beta: float, scale: float) -> float:
    """Reward less the divergence of the whole answer."""
    return (own.reward - beta * (math.fsum(own.logp) - math.fsum(own.reference))) / (scale * max_tokens)
