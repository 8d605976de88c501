"""Rows without a verifier: they raise the likelihood of given texts or of a known answer, or learn from a teacher that
scores the policy's own tokens."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from gnomon.objectives import advantages, aggregate, closed, ratios, token_credit
from gnomon.objectives.advantages import count_advantage, raw
from gnomon.objectives.counts import CountWeight
from gnomon.objectives.credit import Advantage, Rollouts
from gnomon.objectives.group_rows import reinforce, rloo
from gnomon.objectives.row import Baseline, Noise, Objective, OffPolicy, Singleton, row
from gnomon.objectives.target import Chances, ClosedForm, Seen, Shape, TokenShape

__all__ = [
    "answer_likelihood",
    "fcp",
    "finished_alone",
    "likelihood_on_answer",
    "likelihood_throughout",
    "opd",
    "opsd",
    "rft",
    "sft",
    "successes",
    "unit_advantage",
    "verifree",
]


@row
def sft() -> Objective:
    """The gradient is that of E[log π] under the law that gave the rollouts; each counts by its share of the tokens."""
    return replace(
        reinforce(),
        advantage=unit_advantage,
        aggregate=aggregate.token_mean,
        target=closed.tallied_form(
            _by_tokens, "N·E[∇log π / Σⱼ|yⱼ|] over the data's law; of own answers ∇E[1/Σⱼ|yⱼ|]", binary=False
        ),
        singleton=Singleton.UNIT,
        noise=Noise.MOVES,
        equation="κ = 1 / Σⱼ|oⱼ|",
    )


@row
def rft() -> Objective:
    """Differs: divided by the tokens of the step as planned, the failures' included; over the successes' alone it is
    the same direction in a step, and longer where successes are rare.
    """
    return replace(
        sft(),
        advantage=successes,
        target=closed.tallied_form(_right_by_tokens, "Σ π h ∇log π, h = r·N·E[1/Σⱼ|yⱼ|]"),
        singleton=Singleton.RAW,
        equation="κ = rᵢ / Σⱼ|oⱼ|",
    )


@row
def fcp() -> Objective:
    """The prompt of a trained rollout differs from the one it was sampled with: it contains the feedback on the
    answer afterwards. Fitted exactly, π(o|c) ∝ π_ref(o)·p(c|o); answers sampled for a wanted c, judged afresh and
    fitted again T times give π_ref(o)·p(c|o)^{T+1}. Rewards play no part. A policy that never saw feedback in a
    prompt must be taught first, from answers of the policy that the run begins with (`rollout.offline`): without
    that the answers to an unknown prompt are all that it learns from, and they only get worse.

    Differs: what the length limit cut off teaches nothing. Few such rollouts hold most of a step's tokens, and a policy
        that learns from its own text then writes more of them every step.
    """
    return replace(
        sft(),
        credit=finished_alone,
        equation="κ = 1[oᵢ ended] / Σⱼ|oⱼ|",
    )


@row
def verifree(*, baseline_on: str) -> Objective:
    """The rollout's text ends in the reference answer, which the policy did not write: segment 0 is the reasoning, the
    others are the answer. Then the gradient is exactly that of J = E_z[π(y*|x, z)], and it scatters less than that
    of a verifier which compares a sampled answer with y*. With a baseline on all tokens it unlearns the answer wherever
    the likelihood is below that of the others.

    Differs: log-probabilities are of the policy as the step begins; a rollout without an answer has likelihood 0.
    """
    exact = replace(
        rloo(),
        advantage=advantages.leave_one_out,
        credit=likelihood_on_answer,
        target=TokenShape(
            credit=_on_answer,
            text="h = R − mean R of the others on reasoning, R on the answer",
            closed=closed.of_value(_likelihood_of_answer, "∇E[π(y*|x, z)]"),
        ),
        noise=Noise.MOVES,
        equation="κ = (Rᵢ − mean_{j≠i} Rⱼ) / S on reasoning, Rᵢ / S on the answer, R = π(y*|x, z)",
    )
    if baseline_on == "reasoning":
        return exact
    return replace(
        exact,
        credit=likelihood_throughout,
        target=TokenShape(
            credit=_throughout,
            text="h = R − mean R of the others on every token",
            closed=ClosedForm(shape=_less_on_answer, text="∇E[R] − E[R]·E[∇log π(y*|x, z)], R = π(y*|x, z)"),
        ),
        equation="κ = (Rᵢ − mean_{j≠i} Rⱼ) / S, R = π(y*|x, z)",
    )


def _by_tokens(own: Seen, total: tuple[int, ...]) -> float:
    return 1 / (total[2] + total[3])


def _right_by_tokens(own: Seen, total: tuple[int, ...]) -> float:
    return own.reward / (total[2] + total[3])


def _likelihood_of_answer(own: Seen, max_tokens: int) -> float:
    return _likelihood(own)


def _less_on_answer(law: Chances, group: int, max_tokens: int) -> Shape:
    mean = math.fsum(_likelihood(rollout) * chance for rollout, chance in law)
    return lambda own: [_likelihood(own)] + [_likelihood(own) - mean] * (own.length - 1)


def _likelihood(rollout: Seen) -> float:
    return math.exp(math.fsum(rollout.logp[1:])) if rollout.length > 1 else 0.0


def _ahead(own: Seen, others: Sequence[Seen]) -> float:
    return _likelihood(own) - math.fsum(map(_likelihood, others)) / len(others)


def _on_answer(own: Seen, others: Sequence[Seen], max_tokens: int) -> list[float]:
    group = len(others) + 1
    return [_ahead(own, others) / group] + [_likelihood(own) / group] * (own.length - 1)


def _throughout(own: Seen, others: Sequence[Seen], max_tokens: int) -> list[float]:
    return [_ahead(own, others) / (len(others) + 1)] * own.length


def unit_advantage(rewards: Tensor) -> Tensor:
    """One for every rollout, independent of its reward.

    Equation: Aᵢ = 1.
    Returns: advantage per rollout.
    """
    return torch.ones_like(raw(rewards))


def successes(rewards: Tensor) -> Tensor:
    """One for every success, zero for every failure.

    Equation: Aᵢ = rᵢ.
    Returns: advantage per rollout.
    Raises: ValueError for a reward other than 0 and 1.
    """
    return count_advantage(rewards, weight=_unit)


def finished_alone(rollouts: Rollouts, advantage: Advantage) -> Tensor:
    """The advantage of a rollout on each of its tokens, nothing on those of one that the length limit cut off.

    Equation: Aₜ = A·1[finished].
    Returns: [T].
    """
    credit = advantage(rollouts.rewards)
    return rollouts.spread(credit if rollouts.finished is None else credit * rollouts.finished)


def answer_likelihood(rollouts: Rollouts) -> Tensor:
    """How likely the policy finds the answer of each rollout, after its reasoning.

    Equation: Rᵢ = exp Σ_{t: segment > 0} log π(yₜ|y_{<t}).
    Returns: [G, N], 0 … 1; zero for a rollout whose answer never came: nothing of it is likely.
    Raises: ValueError for rollouts without segments or without log-probabilities.
    """
    segment, logp = _parts(rollouts)
    total = torch.zeros(rollouts.rewards.numel(), dtype=logp.dtype)
    inside = segment > 0
    owner = rollouts.sequence[inside]
    total.index_add_(0, owner, logp[inside])
    answered = torch.zeros(len(total), dtype=torch.bool).index_fill_(0, owner, True)
    return torch.where(answered, total.exp(), torch.zeros_like(total)).reshape(rollouts.rewards.shape)


def likelihood_on_answer(rollouts: Rollouts, advantage: Advantage) -> Tensor:
    """The advantage of the answer's likelihood on the reasoning, the likelihood itself on the answer.

    A baseline is free on tokens that the policy chose; the answer was not chosen, so its score does not vanish on
    average and what is taken off there changes the gradient.

    Equation: Aₜ = A(R)ᵢ in segment 0, Rᵢ in the others.
    Returns: [T].
    Raises: ValueError for rollouts without segments or without log-probabilities.
    Source: Zhou et al. 2025 (VeriFree), arXiv 2505.21493.
    """
    likelihood = answer_likelihood(rollouts)
    segment, _ = _parts(rollouts)
    return torch.where(segment > 0, rollouts.spread(likelihood), rollouts.spread(advantage(likelihood)))


def likelihood_throughout(rollouts: Rollouts, advantage: Advantage) -> Tensor:
    """The advantage of the answer's likelihood on every token. Biased by −mean(R)·∇log π(answer): see above.

    Equation: Aₜ = A(R)ᵢ.
    Returns: [T].
    Raises: ValueError for rollouts without segments or without log-probabilities.
    Source: sail-sg/VeriFree, `sft_coef_source = adv`.
    """
    return rollouts.spread(advantage(answer_likelihood(rollouts)))


def _parts(rollouts: Rollouts) -> tuple[Tensor, Tensor]:
    if rollouts.segment is None:
        raise ValueError("answer and reasoning must be marked: segment 0 is reasoning, the others are the answer")
    if rollouts.logp is None:
        raise ValueError("the likelihood of an answer takes log-probabilities under the policy")
    return rollouts.segment, rollouts.logp


def _unit(group: int) -> CountWeight:
    return CountWeight(success=(1.0,) * (group + 1), failure=(0.0,) * (group + 1))


NEXT_TOKEN = "−Σ_s P(s)·∇KL(π(·|s)‖π_T(·|s)) / L_max, with P(s) as a constant"


@row
def opd(*, credit: str) -> Objective:
    """Every next-token distribution moves toward the teacher's, in the states that the policy visits. The effect of a
    token on the states that follow is left out. With `credit=answer` it is included, the divergence of whole answers
    falls, and the gradient is noisier, the more so the longer the answers.

    Differs: a sum over tokens by a constant, where a mean over the tokens of the step would weigh states by the lengths
        of the answers. The source takes log π and the ratio from the sampler, here both are of the policy as the step
        begins.
    """
    by_token = Objective(
        advantage=unit_advantage,
        credit=partial(token_credit.toward_reference, gamma=0.0),
        ratio=ratios.unclipped,
        correction=ratios.no_correction,
        aggregate=aggregate.constant,
        target=TokenShape(
            credit=_constant_toward,
            text="Σ π hₜ ∇log π, hₜ = log(π_T/π)ₜ / L_max",
            closed=ClosedForm(shape=_toward, text=NEXT_TOKEN),
        ),
        off_policy=OffPolicy.TOKEN,
        singleton=Singleton.ZERO,
        baseline=Baseline.NONE,
        noise=Noise.MOVES,
        equation="κ = ρ·log(π_T/π)ₜ / (S·L_max)",
    )
    if credit == "token":
        return by_token
    return replace(
        by_token,
        credit=partial(token_credit.toward_reference, gamma=1.0),
        target=TokenShape(
            credit=_constant_to_go,
            text="Σ π hₜ ∇log π, hₜ = Σ_{s≥t} log(π_T/π)ₛ / L_max",
            closed=closed.of_value(_whole_answer, "−∇KL(π‖π_T) / L_max, of whole answers"),
        ),
        equation="κ = ρ·Σ_{s≥t} log(π_T/π)ₛ / (S·L_max)",
    )


@row
def opsd() -> Objective:
    """The teacher reads the reference answer of the task before the question; it is the policy as the run began, unless
    `policy.reference` names another. The target is that of `opd`, with π_T conditioned on the prompt with the answer.

    Differs: the source shows a worked solution and compares whole next-token distributions, unless its option for the
        sampled token is on; here the prompt has the answer that the environment knows, and the sampled token is scored.
    """
    return opd()


def _toward(law: Chances, group: int, max_tokens: int) -> Shape:
    return lambda own: [gap / max_tokens for gap in _gaps(own)]


def _constant_toward(own: Seen, others: Sequence[Seen], max_tokens: int) -> list[float]:
    return [gap / (max_tokens * (1 + len(others))) for gap in _gaps(own)]


def _constant_to_go(own: Seen, others: Sequence[Seen], max_tokens: int) -> list[float]:
    gaps = _gaps(own)
    return [math.fsum(gaps[t:]) / (max_tokens * (1 + len(others))) for t in range(own.length)]


def _whole_answer(own: Seen, max_tokens: int) -> float:
    return math.fsum(_gaps(own)) / max_tokens


def _gaps(own: Seen) -> list[float]:
    return [theirs - mine for mine, theirs in zip(own.logp, own.reference, strict=True)]
