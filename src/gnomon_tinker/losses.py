"""The losses of the Tinker API as coefficients of ∇log π. A loss is a sum over tokens; nothing is divided.

Equation: the gradient of a loss is −Σ κ_t ∇log π(y_t), with r_t = exp(log π(y_t) − logprobs_t):

cross_entropy        κ = weights
importance_sampling  κ = r · advantages
ppo                  κ = r · advantages, or 0 where the clipped term is smaller

Source: the documentation of the SDK, tinker 0.38.0.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

__all__ = ["LOSSES", "loss"]

Values = NDArray[np.float64]
LOSSES: Mapping[str, tuple[str, ...]] = {
    "cross_entropy": ("weights",),
    "importance_sampling": ("logprobs", "advantages"),
    "ppo": ("logprobs", "advantages"),
}
"""The arrays that each loss needs in addition to the targets."""
OPTIONS = {"ppo": {"clip_low_threshold": 0.8, "clip_high_threshold": 1.2}}


def loss(name: str, options: Mapping[str, float], logp: Values, inputs: Mapping[str, Values]) -> tuple[Values, float]:
    """Args: logp: [T] under the present policy; inputs: [T] by name. Returns: κ [T], and the loss, a sum over tokens.

    Raises: ValueError for an unknown loss or option, or a missing input.
    """
    if name not in LOSSES:
        raise ValueError(f"the loss {name!r} is not known; known are {', '.join(LOSSES)}")
    if missing := [each for each in LOSSES[name] if each not in inputs]:
        raise ValueError(f"{name} needs {', '.join(missing)}")
    if unknown := sorted(options.keys() - OPTIONS.get(name, {}).keys()):
        raise ValueError(f"{name} has no option {unknown[0]!r}")
    if name == "cross_entropy":
        kappa = inputs["weights"]
        return kappa, -float((kappa * logp).sum())
    ratio, advantage = np.exp(logp - inputs["logprobs"]), inputs["advantages"]
    gain = ratio * advantage
    if name == "importance_sampling":
        return gain, -float(gain.sum())
    limits = OPTIONS["ppo"] | dict(options)
    clipped = ratio.clip(limits["clip_low_threshold"], limits["clip_high_threshold"]) * advantage
    return np.where(gain <= clipped, gain, 0.0), -float(np.minimum(gain, clipped).sum())
