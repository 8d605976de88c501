"""Learning rates where none is given: they follow the size of the model and what of it is trained. Needs no torch."""

from __future__ import annotations

from typing import NamedTuple

from gnomon.models.facts import Facts, facts
from gnomon.models.folder import SHIPPED

__all__ = ["Rates", "rates"]

ADAPTER = 10
"""How many times higher the rate of an adapter of a small model is than that of all weights."""
LORA, FULL, WIDTH = 6e-4, 3e-5, 576
"""Rates of an adapter and of all weights at this hidden size, measured (docs/results/learning.md)."""
POWER = 0.78
"""Of the hidden size."""
UNKNOWN = 4096


class Rates(NamedTuple):
    """Learning rates of the policy and of a critic, and why."""

    policy: float
    critic: float
    why: str


def rates(path: str, *, adapter: bool = False) -> Rates:
    """The default learning rates for a model as `policy.path` names it.

    The policy that ships, and a model of its size, learn at 1e-3 (docs/results/learning.md). A pretrained model of
    hidden size h learns at `FULL` · (`WIDTH` / h)^`POWER`, and its adapter at the same with `LORA`. A model of unknown
    size counts as one of hidden size `UNKNOWN`.

    Args: adapter: whether an adapter is trained in the place of all weights.
    Source: the power of the hidden size, and ten or more times the rate for an adapter: Schulman et al. 2025, "LoRA
        Without Regret", thinkingmachines.ai/blog/lora, and the rule of Tinker's cookbook for Llama; the critic: ten
        times the policy, as in verl's defaults.
    """
    times = ADAPTER if adapter else 1
    model = Facts() if path in SHIPPED else facts(path)
    if path in SHIPPED or not model.pretrained:
        kind = "the policy that ships" if path in SHIPPED else f"a model of {model.parameters / 1e6:.1f} M parameters"
        prefix = f"{ADAPTER} times the default for {kind}, since an adapter is trained"
        return Rates(times * 1e-3, times * 1e-3, prefix if adapter else f"the default for {kind}")
    rate = float(f"{(LORA if adapter else FULL) * (WIDTH / (model.hidden or UNKNOWN)) ** POWER:.1e}")
    size = f"hidden size {model.hidden}" if model.hidden else "a model of unknown size"
    return Rates(rate, 10 * rate if not adapter else rate, f"{'LoRA' if adapter else 'all weights'}, {size}")
