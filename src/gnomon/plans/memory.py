"""The memory of a run by part: what a learner holds, what an engine holds, and what their passes make."""

from __future__ import annotations

from dataclasses import replace

from gnomon.config import RunConfig
from gnomon.config.placement import EngineKind, LearnerPlace
from gnomon.models.policy import Policy
from gnomon.objectives import Need
from gnomon.plans.count import bytes_of
from gnomon.plans.lengths import description_folder
from gnomon.plans.passes import Cost, meta_policy
from gnomon.plans.places import engines, held_versions
from gnomon.plans.states import (
    adam_bytes,
    lanes,
    micro_batch_counts,
    rank_memory,
    state_bytes,
    step_bytes,
    sum_memory,
)
from gnomon.plans.subject import Subject
from gnomon.run.makers.engine import numbers_differ
from gnomon.run.makers.policy import make_precision

__all__ = ["engine_memory", "learner_memory", "training_memory"]


def learner_memory(subject: Subject) -> dict[str, float]:
    """Bytes of one process of the learner by part, without activations."""
    config, learner = subject.config, subject.learner.whole
    state = rank_memory(config, learner, subject.sequences) if config.ranks else whole_memory(config, learner)
    if subject.needs_reference:
        reference = bytes_of(subject.reference.whole.model.parameters()) / max(1, config.ranks)
        state["reference"] = 0.0 if learner.adapter and not config.policy.reference else reference
    if Need.VALUES in subject.objective.asks:
        moments = adam_bytes(config, subject.weights) / max(1, config.ranks)
        state["critic"] = state["weights"] + state["gradients"] + moments
    return state


def training_memory(subject: Subject, train: Cost) -> Cost:
    """A pass over the sequences of a step, with the bytes that all threads and the optimiser make at once."""
    config, learner = subject.config, subject.learner.whole
    least = step_bytes(config, subject.device, subject.weights)
    if config.ranks:
        return replace(train, peak=max(train.peak, least, sum_memory(learner)))
    # Every thread that has a micro-batch holds its activations and a gradient.
    at_once = min(lanes(config, subject.device), micro_batch_counts(config, subject.sequences)[0])
    train = train.times(at_once, bytes_of(subject.weights) if at_once > 1 else 0.0)
    return replace(train, peak=max(train.peak, least))


def engine_memory(subject: Subject) -> tuple[dict[str, float], dict[str, float]]:
    """Bytes by part: of what a process that samples holds beside its passes, and of what the run's process holds in
    every phase."""
    config, sampler = subject.config, subject.sampler.whole
    engine: dict[str, float] = {
        "engine weights": engines(config) * engine_bytes(config, subject.learner.whole, sampler)
    }
    run: dict[str, float] = {"weights of open steps": held_versions(config, subject.device) * bytes_of(subject.weights)}
    others = opponents(config, sampler)
    if config.placement.engine is EngineKind.VLLM and not config.placement.samplers:
        return engine, run | others  # The opponent's engine is in the run's process.
    return engine | others, run


def whole_memory(config: RunConfig, policy: Policy) -> dict[str, float]:
    """Bytes of a learner in one process by part, without activations."""
    optimizer = state_bytes(config, policy.masters.parameters.values())
    masters, own = bytes_of(policy.masters.parameters.values()), bytes_of(policy.model.parameters())
    copies = masters if policy.precision.rounds and not policy.adapter else 0.0
    return {"weights": own + copies, "gradients": masters, "optimiser": optimizer}


def engine_bytes(config: RunConfig, learner: Policy, sampler: Policy) -> float:
    """Of the weights that an engine holds alone."""
    beside = config.ranks or config.placement.learner is LearnerPlace.SERVER
    shared = (
        learner.adapter and config.placement.engine is EngineKind.EMBEDDED and not numbers_differ(config) and not beside
    )
    return bytes_of((sampler.state() if shared else dict(sampler.model.named_parameters())).values())


def opponents(config: RunConfig, sampler: Policy) -> dict[str, float]:
    """Bytes of the opponent's engines, and of the earlier versions that they load; empty where there is no opponent."""
    if not config.players.opponent:
        return {}
    if config.players.opponent != "past":
        folder, precision = description_folder(config.players.opponent), make_precision(config).alone
        return {"opponents": engines(config) * bytes_of(meta_policy(folder, precision).model.parameters())}
    own = bytes_of(sampler.model.parameters())
    past = config.players.keep * bytes_of(sampler.masters.parameters.values())
    return {"opponents": engines(config) * own + past}
