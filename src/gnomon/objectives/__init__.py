"""Objectives: what is climbed, as a coefficient κ per trainable token.

The gradient of every objective is Σ κ·∇log π with a detached κ. Formulas are pure functions of tensors,
a named algorithm is one row of `TABLE`, and `report` holds a row against the expectation that it declares.
"""

from gnomon.objectives.advantages import leave_one_out, mean_centred, raw, standardised
from gnomon.objectives.aggregate import constant, sequence_mean, sequence_sum, token_mean
from gnomon.objectives.exact import ExactReport, report
from gnomon.objectives.penalties import k2, k3
from gnomon.objectives.ratios import no_correction, no_ratio, ppo_clip, truncated, unclipped
from gnomon.objectives.table import (
    TABLE,
    Advantage,
    Aggregate,
    Baseline,
    Correction,
    Objective,
    OffPolicy,
    Penalty,
    Ratio,
    Singleton,
    dr_grpo,
    grpo,
    objective,
    reinforce,
    rloo,
)
from gnomon.objectives.target import FrozenShape, Law, PolicyGradient, Target
from gnomon.objectives.tokens import Denominators, Tokens

__all__ = [
    "TABLE",
    "Advantage",
    "Aggregate",
    "Baseline",
    "Correction",
    "Denominators",
    "ExactReport",
    "FrozenShape",
    "Law",
    "Objective",
    "OffPolicy",
    "Penalty",
    "PolicyGradient",
    "Ratio",
    "Singleton",
    "Target",
    "Tokens",
    "constant",
    "dr_grpo",
    "grpo",
    "k2",
    "k3",
    "leave_one_out",
    "mean_centred",
    "no_correction",
    "no_ratio",
    "objective",
    "ppo_clip",
    "raw",
    "reinforce",
    "report",
    "rloo",
    "sequence_mean",
    "sequence_sum",
    "standardised",
    "token_mean",
    "truncated",
    "unclipped",
]
