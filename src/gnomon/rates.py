"""Learning rates where none is given: they follow the size of the model and what of it is trained. Needs no torch."""

from __future__ import annotations

import json
from math import prod
from pathlib import Path
from typing import NamedTuple

from gnomon.models import smollm2
from gnomon.models.folder import SHIPPED, SMOLLM2

__all__ = ["Rates", "parameters", "rates"]

SMALL = 10_000_000
"""Parameters below which a model is trained like the one that ships."""
ADAPTER = 10
"""How many times higher the rate of an adapter is than that of all weights."""


class Rates(NamedTuple):
    """Learning rates of the policy and of a critic, and why."""

    policy: float
    critic: float
    why: str


def rates(path: str, *, adapter: bool = False) -> Rates:
    """The default learning rates for a model folder, or `tiny`.

    The policy that ships learns at 1e-3 (docs/results.md). A model of more than ten million parameters, all of them
    trained, gets what is usual for pretrained ones: 1e-6 for the policy, 1e-5 for the critic.

    Args: adapter: whether an adapter is trained in the place of all weights; its rates are `ADAPTER` times as high.
    Source: 1e-6: DeepSeekMath (Shao et al., arXiv 2402.03300, §4.2), DAPO (Yu et al., arXiv 2503.14476, §4.1), and the
        default of TRL's `GRPOConfig` and of verl; 1e-5 for the critic: verl's default; ten times for an adapter:
        Schulman et al. 2025, "LoRA Without Regret", thinkingmachines.ai/blog/lora.
    """
    full = full_rates(path)
    if not adapter:
        return full
    return Rates(
        ADAPTER * full.policy, ADAPTER * full.critic, f"{ADAPTER} times {full.why}, since an adapter is trained"
    )


def full_rates(path: str) -> Rates:
    """The rates where all weights are trained."""
    if path in SHIPPED:
        return Rates(1e-3, 1e-3, "the default for the policy that ships")
    count = parameters(smollm2.place() if path == SMOLLM2 else Path(path))
    if count and count <= SMALL:
        return Rates(1e-3, 1e-3, f"the default for a model of {count / 1e6:.1f} M parameters")
    size = f"a model of {count / 1e6:,.0f} M parameters" if count else "a pretrained model"
    return Rates(1e-6, 1e-5, f"the default for {size}")


def parameters(folder: Path) -> int:
    """The number of weights in the safetensors files of a folder, by their headers; 0 where none can be read."""
    total = 0
    for path in sorted(folder.glob("*.safetensors")):
        try:
            with path.open("rb") as file:
                length = int.from_bytes(file.read(8), "little")
                header = json.loads(file.read(length)) if 0 < length < min(path.stat().st_size, 10**8) else {}
            total += sum(prod(entry["shape"]) for name, entry in header.items() if name != "__metadata__")
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            return 0
    return total
