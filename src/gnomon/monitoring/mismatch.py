"""The difference between sampler and learner in every step, and which correction it asks for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from gnomon.models.backends import overflows
from gnomon.store import EvaluationRecord, RunStatus, StepRecord

__all__ = ["DIVERGENCE", "OUTSIDE", "WHOLE", "Mismatch", "advise_correction", "in_float16"]

DIVERGENCE = 1e-3
"""KL per token, in nats, from which ratios are worth a weight."""
OUTSIDE = 1e-3
"""Fraction of tokens outside the band of ratios from which those tokens are worth dropping."""
WHOLE = 1e-2
"""The same from which whole rollouts are."""


def advise_correction(metrics: Mapping[str, float]) -> tuple[str, str]:
    """The objective whose correction a mismatch asks for, and why; empty below all bounds."""
    outside, divergence = metrics.get("mismatch/outside", 0.0), metrics.get("mismatch/kl", 0.0)
    if outside >= WHOLE:
        why = f"{outside:.1%} of the tokens have a ratio outside 0.5 to 2, so whole rollouts are dropped"
        return "sequence_mis", why
    if outside >= OUTSIDE:
        return "icepop", f"{outside:.2%} of the tokens have a ratio outside 0.5 to 2, so these tokens are dropped"
    if divergence >= DIVERGENCE:
        return "tis", f"the KL divergence is {divergence:.2g} nats per token, so every token is weighted by its ratio"
    return "", ""


def in_float16(learner: str, engine: str, family: str) -> str:
    """What float16 would do to a mismatch; empty where it would do nothing, or where the model overflows in it.

    Args: learner, engine: dtypes; family: `model_type` of the model's configuration.
    Source: Qi et al. 2025, arXiv 2510.26788. It follows from the bits: 10 of a fraction in float16, 7 in bfloat16.
    """
    coarse = {"policy.dtype": learner, "engine.dtype": engine}
    settings = [f"{setting}=float16" for setting, dtype in coarse.items() if dtype == "bfloat16"]
    if not settings or overflows(family):
        return ""
    if learner == engine:
        settings = settings[:1]
    return f"float16 rounds 8 times finer than bfloat16: {' '.join(settings)} should make the difference smaller."


class Mismatch:
    """Notes the worst token of every step with its text, and tells once which correction to take.

    Args:
        spell: the text of a token.
        corrected: whether the objective of the run has a correction of its own.
        finer: what float16 would do, as `in_float16`.
        tell: takes a sentence for a person.
        note: keeps an event of the run; takes its kind and body.
    """

    def __init__(
        self,
        spell: Callable[[int], str],
        corrected: bool,
        finer: str,
        tell: Callable[[str], None],
        note: Callable[[str, Mapping[str, Any]], None],
    ) -> None:
        self.spell, self.corrected, self.finer, self.tell, self.note = spell, corrected, finer, tell, note
        self.advice = ""
        """The objective that was advised last."""

    def start(self, manifest: Mapping[str, Any]) -> None: ...

    def step(self, record: StepRecord) -> None:
        if "mismatch/token" not in record.metrics:
            return
        token = int(record.metrics["mismatch/token"])
        worst = {"token": token, "text": self.spell(token), "difference": record.metrics["logp_mismatch"]}
        self.note("mismatch", {"step": record.step, **worst})
        name, why = advise_correction(record.metrics)
        if name and name != self.advice and not self.corrected:
            sentence = (
                f"Sampler and learner differ at step {record.step}: {why} by objective={name}. "
                f"The worst token is {worst['text']!r}, by {worst['difference']:.2g} nats."
            )
            self.tell(f"{sentence} In a new run, {self.finer}" if self.finer else sentence)
        self.advice = name or self.advice

    def evaluation(self, record: EvaluationRecord) -> None: ...

    def finish(self, status: RunStatus) -> None: ...
