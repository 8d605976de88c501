"""The engine that samples, and the measurement of how far it agrees with the learner."""

from __future__ import annotations

import torch

from gnomon.config import RunConfig
from gnomon.engines.base import Tier
from gnomon.engines.embedded import Embedded
from gnomon.envs.base import Env
from gnomon.errors import ModelError, NumericsError
from gnomon.launch.makers.policy import make_policy, make_precision
from gnomon.rendering import Renderer, joined
from gnomon.training.loop import first

__all__ = ["make_engine", "measured"]

PROBES = 6
"""Prompts on which sampler and learner are compared before a run."""
ROUNDING = {torch.float32: 0.05}
"""Largest difference in log-probability that rounding can explain, by dtype."""
COARSE = 0.5
"""The same for every other dtype."""


def make_engine(config: RunConfig) -> Embedded:
    """An engine with a policy of its own, whose adapter adds noise until it loads weights. Raises: ModelError E306."""
    policy = make_policy(config, make_precision(config).alone, blank=False)
    if not policy.tokenizer.encode("0"):
        raise ModelError("E306", "the tokenizer turns a digit into nothing", where=str(policy.tokenizer.folder))
    return Embedded(policy)


def measured(engine: Embedded, renderer: Renderer, env: Env, config: RunConfig) -> float:
    """The largest difference between a sampled and a scored log-probability, in nats; it decides the engine's tier.

    It is not repeated when the difference is not zero: a second measurement that finds nothing does not undo the first.
    Raises: NumericsError E204, when the difference is more than rounding.
    """
    probes = [task for _, task in first(env.tasks("train"), PROBES)]
    mismatch = engine.measure([joined(renderer.start(task.messages)) for task in probes])
    bound = ROUNDING.get(getattr(torch, config.policy.dtype), COARSE)
    if not mismatch <= bound:
        raise NumericsError(
            "E204",
            f"log-probabilities of decoding and scoring differ by {mismatch:.2g}",
            where=f"{type(engine.policy.model).__name__} in {config.policy.dtype}",
            why=f"more than {bound} is not a rounding error: a layer mixes tokens in a way the engine does not support",
            fix="use a model whose layers are attention and feed-forward only",
        )
    engine.tier = Tier.EXACT if mismatch == 0.0 else Tier.MEASURED
    return mismatch
