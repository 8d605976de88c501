"""A version of a policy on its way from learner to engine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor

__all__ = ["Weights"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """Parameters, with what a holder of them must be able to reproduce."""

    version: int
    """Optimiser steps behind it."""
    step: int
    """Steps of the run behind it; each is one optimiser step or more."""
    state: Mapping[str, Tensor]
    """Every parameter by name. The learner's own: a holder copies them before its next step, and never writes."""
    probe: tuple[int, ...]
    """A short token sequence."""
    probe_logp: tuple[float, ...]
    """The learner's natural log-probability of every probe token but the first."""
