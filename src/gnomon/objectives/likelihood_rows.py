"""Rows without a verifier: they raise the likelihood of given texts, or of a known answer after own reasoning."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from gnomon.objectives import advantages, aggregate, closed, likelihood
from gnomon.objectives.group_rows import reinforce, rloo
from gnomon.objectives.row import Noise, Objective, Singleton, row
from gnomon.objectives.target import Chances, ClosedForm, Seen, Shape, TokenShape

__all__ = ["fcp", "rft", "sft", "verifree", "verifree_advantage"]


@row
def sft() -> Objective:
    """The gradient is that of E[log π] under the law that gave the rollouts; each counts by its share of the tokens."""
    return replace(
        reinforce(),
        advantage=likelihood.unit_advantage,
        aggregate=aggregate.token_mean,
        target=closed.tallied(
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
        advantage=likelihood.successes,
        target=closed.tallied(_right_by_tokens, "Σ π h ∇log π, h = r·N·E[1/Σⱼ|yⱼ|]"),
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
        credit=likelihood.finished_alone,
        equation="κ = 1[oᵢ ended] / Σⱼ|oⱼ|",
    )


@row
def verifree() -> Objective:
    """The rollout's text ends in the reference answer, which the policy did not write: segment 0 is the reasoning, the
    others are the answer. Then the gradient is exactly that of J = E_z[π(y*|x, z)], and it scatters less than that
    of a verifier which compares a sampled answer with y*.

    Differs: log-probabilities are of the policy as the step begins; a rollout without an answer has likelihood 0.
    """
    return replace(
        rloo(),
        advantage=advantages.leave_one_out,
        credit=likelihood.likelihood_on_answer,
        target=TokenShape(
            credit=_on_answer,
            text="h = R − mean R of the others on reasoning, R on the answer",
            closed=closed.of_value(_likelihood_of_answer, "∇E[π(y*|x, z)]"),
        ),
        noise=Noise.MOVES,
        equation="κ = (Rᵢ − mean_{j≠i} Rⱼ) / S on reasoning, Rᵢ / S on the answer, R = π(y*|x, z)",
    )


@row
def verifree_advantage() -> Objective:
    """For comparison with `verifree`; it unlearns the answer wherever the likelihood is below that of the others."""
    return replace(
        verifree(),
        credit=likelihood.likelihood_throughout,
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
    mean = math.fsum(_likelihood(seen) * chance for seen, chance in law)
    return lambda own: [_likelihood(own)] + [_likelihood(own) - mean] * (own.length - 1)


def _likelihood(seen: Seen) -> float:
    return math.exp(math.fsum(seen.logp[1:])) if seen.length > 1 else 0.0


def _ahead(own: Seen, others: Sequence[Seen]) -> float:
    return _likelihood(own) - math.fsum(map(_likelihood, others)) / len(others)


def _on_answer(own: Seen, others: Sequence[Seen], max_tokens: int) -> list[float]:
    group = len(others) + 1
    return [_ahead(own, others) / group] + [_likelihood(own) / group] * (own.length - 1)


def _throughout(own: Seen, others: Sequence[Seen], max_tokens: int) -> list[float]:
    return [_ahead(own, others) / (len(others) + 1)] * own.length
