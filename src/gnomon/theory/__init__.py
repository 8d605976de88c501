"""What an objective does, computed: its expected gradient by enumeration, its card, and how two of them differ."""

from gnomon.theory.cards import Card, card
from gnomon.theory.curves import GRID, Curve, count_weight, curve
from gnomon.theory.edge_cases import edges
from gnomon.theory.exact import ExactReport, report
from gnomon.theory.length import LengthBias, length_bias
from gnomon.theory.sensitivity import Scores, local_sensitivity, odds_sensitivity, slope_square, success_scatter
from gnomon.theory.tuning import (
    Belief,
    GainTerms,
    KnownChance,
    Member,
    Metric,
    Posterior,
    Scored,
    attainable_gain,
    best_member,
    best_scale,
    family_gains,
    family_parameters,
    gain_terms,
    metric,
    metric_gain,
    scored_terms,
)

__all__ = [
    "GRID", "Belief", "Card", "Curve", "ExactReport", "GainTerms", "KnownChance", "LengthBias", "Member", "Metric",
    "Posterior", "Scored", "Scores", "attainable_gain", "best_member", "best_scale", "card", "count_weight", "curve",
    "edges", "family_gains", "family_parameters", "gain_terms", "length_bias",
    "local_sensitivity", "metric", "metric_gain", "odds_sensitivity", "report",
    "scored_terms", "slope_square", "success_scatter",
]  # fmt: skip
