"""Rows that learn from a teacher: the reference policy scores the policy's own tokens. Rewards are not used."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from gnomon.objectives import aggregate, closed, likelihood, ratios, token_credit
from gnomon.objectives.row import Baseline, Noise, Objective, OffPolicy, Singleton, row
from gnomon.objectives.target import Chances, ClosedForm, Seen, Shape, TokenShape

__all__ = ["opd", "opd_sequence", "opsd"]

NEXT_TOKEN = "−Σ_s P(s)·∇KL(π(·|s)‖π_T(·|s)) / L_max, with P(s) as a constant"


@row
def opd() -> Objective:
    """Every next-token distribution moves toward the teacher's, in the states that the policy visits. The effect of a
    token on the states that follow is left out; `opd_sequence` includes it.

    Differs: a sum over tokens by a constant, where a mean over the tokens of the step would weigh states by the lengths
        of the answers. The source takes log π and the ratio from the sampler, here both are of the policy as the step
        begins.
    """
    return Objective(
        advantage=likelihood.unit_advantage,
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


@row
def opd_sequence() -> Objective:
    """Lowers the divergence of whole answers: the coefficient of a token also includes the log-ratios of teacher to
    policy on the rest of the answer. Its gradient is noisier than that of `opd`, and more so for longer answers.
    """
    return replace(
        opd(),
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
