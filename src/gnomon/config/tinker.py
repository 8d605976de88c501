"""What a run whose learner is on the Tinker service cannot have."""

from __future__ import annotations

from collections.abc import Iterator

from gnomon.config.placement import EngineKind, LearnerPlace
from gnomon.config.sections import Lora, RunConfig
from gnomon.errors import ConfigError
from gnomon.objectives.declaration import Need
from gnomon.objectives.options import OBJECT

__all__ = ["tinker"]

UNKNOWN = frozenset({Need.VALUES, Need.BEYOND, Need.ENTROPY, Need.COLLISION})
"""What the service cannot compute for an objective."""
SAMPLED = "the service returns log-probabilities of single tokens, not the whole distribution"
HERE = "weights on the service cannot be loaded on this machine"


def tinker(config: RunConfig) -> Iterator[ConfigError]:
    """Every setting whose value the service does not support, with the reason."""
    placement = config.placement
    there = placement.learner is LearnerPlace.SERVICE
    samples = placement.engine is EngineKind.SERVICE
    if there != samples:
        name = "engine.type" if there else "learner"
        yield ConfigError(
            "E048",
            "a learner on the Tinker service needs engine=tinker"
            if there
            else "engine=tinker needs a learner on the Tinker service",
            where=name,
            why=HERE if there else "the service samples only from weights that it stores",
            fix="engine=tinker" if there else "learner=tinker:MODEL, such as learner=tinker:Qwen/Qwen3-8B",
        )
    for name, why, fix in refusals(config) if there else ():
        yield ConfigError(
            "E048",
            f"{name} has a value that the Tinker service does not support",
            where=name,
            why=why,
            fix=fix,
        )


def refusals(config: RunConfig) -> Iterator[tuple[str, str, str]]:
    """Name of a setting, why the service does not support its value, and a setting to use instead."""
    lora, usual, rollout = config.policy.lora, Lora(), config.rollout
    if not config.policy.trains_adapter:
        yield "policy.lora.rank", "the service trains adapters only", "policy.lora.rank=32"
    for name in ("alpha", "targets"):
        if getattr(lora, name) != getattr(usual, name):
            yield f"policy.lora.{name}", "the service chooses it", f"leave out policy.lora.{name}"
    if config.optim.type != "adamw":
        yield "optim.type", "the service trains with AdamW only", "optim.type=adamw"
    if config.optim.states != "float32":
        yield "optim.states", "the service chooses it", "optim.states=float32"
    if config.policy.reference:
        yield (
            "policy.reference",
            "the only reference that the service scores with is the base model",
            'policy.reference=""',
        )
    if rollout.temperature != 1:
        yield "rollout.temperature", "the service scores at temperature 1", "rollout.temperature=1"
    if rollout.entropy:
        yield "rollout.entropy", SAMPLED, "rollout.entropy=false"
    if rollout.lag:
        yield "rollout.lag", "sampling ahead on the service is not implemented", "rollout.lag=0"
    if rollout.offline:
        yield "rollout.offline", "sampling from initial weights on the service is not implemented", "rollout.offline=0"
    if config.regularize.entropy:
        yield "regularize.entropy", SAMPLED, "regularize.entropy=0"
    if config.regularize.kl and config.regularize.estimator == "full":
        yield "regularize.estimator", SAMPLED, "regularize.estimator=k3"
    if config.players.opponent:
        yield "players.opponent", HERE, 'players.opponent=""'
    if config.ranks:
        yield "ranks", "the service decides on how many devices it trains", "ranks=0"
    if config.placement.samplers:
        yield "launch.type", "the service samples, so a cluster of samplers has no use", "launch=local"
    row = config.objective
    if not row.type.startswith(OBJECT) and UNKNOWN & row.declaration.needs:
        yield "objective.type", f"{row.type} needs a critic or the whole distribution", "objective=grpo"
