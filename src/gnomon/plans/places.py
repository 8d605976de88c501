"""Where the memory of a run lies: in the process of the run, beside it, and in the samplers of a cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from gnomon.config import RunConfig
from gnomon.config.placement import EngineKind, LearnerPlace
from gnomon.plans.devices import Device
from gnomon.plans.passes import Cost

__all__ = ["Places", "assign", "engines", "episodes_at_once", "held_versions", "own_machine", "vllm_gpus"]


ASLEEP = 2.0**30
"""Memory of a GPU that vLLM keeps while it sleeps: that of CUDA, and its graphs. Assumed."""
FREED = "freed but kept"
"""The part of the memory that the C library keeps for later tensors."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Bytes by part, at the moment of a step that needs most."""

    phase: str
    """That moment, in the process of the run."""
    run: Mapping[str, float]
    """Of the device of the run."""
    beside: Mapping[str, float] = field(default_factory=dict)
    """Of every device that only trains: a server's, that of a learner in a cluster, or of each further process."""
    sampler: Mapping[str, float] = field(default_factory=dict)
    """Of every sampler in a cluster."""


def vllm_gpus(config: RunConfig) -> int:
    """GPUs that vLLM has for itself and divides its weights among."""
    gpus = len(config.engine.gpus)
    return int(config.engine.arguments.get("tensor_parallel_size", gpus)) if gpus else 0


def own_machine(config: RunConfig, device: Device) -> bool:
    """Whether all processes of a run with a cluster share the memory of one machine."""
    return config.placement.samplers > 0 and not config.launch.address and device.name == "cpu"


def engines(config: RunConfig) -> int:
    """Engines of a process that samples: with a lag, one per step in progress and the one that evaluates."""
    return config.ahead + 2 if config.ahead and not config.rollout.in_flight else 1


def held_versions(config: RunConfig, device: Device) -> int:
    """Copies of what is trained that the device of the run holds for engines: one per step in progress.

    Samplers in a cluster read theirs from the memory of the run's machine, and so does every engine of a learner in
    several processes.
    """
    if config.placement.samplers:
        copies = config.ahead + 1 if config.rollout.in_flight else engines(config)
        return copies if device.name == "cpu" else 0
    return engines(config) - 1 if device.name == "cpu" or not config.ranks else 0


def episodes_at_once(config: RunConfig, prompts: Sequence[int], group: int) -> tuple[Sequence[int], float]:
    """The prompts that one process samples at the same time, and how often it samples so many in a step."""
    if not config.placement.samplers:
        return prompts, 1.0
    own = len(prompts) / config.placement.samplers
    some = prompts[: max(1, min(-(-len(prompts) // config.placement.samplers), config.launch.episodes // group))]
    return some, max(1.0, own / len(some))


def assign(
    config: RunConfig,
    device: Device,
    state: Mapping[str, float],
    engine: Mapping[str, float],
    own: Mapping[str, float],
    sampling: Cost,
    train: Cost,
) -> Places:
    """Args: state: bytes of one process of the learner, by part; engine: bytes of what a process that samples holds
    beside its passes, by part; own: bytes of what the run's process holds in every phase, by part.
    """
    decode = {
        "keys and values": sampling.cache,
        "scores": sampling.head,
        "decoding": max(0.0, sampling.peak - sampling.cache - sampling.head),
    }
    ranks, cpu = config.ranks, device.name == "cpu"
    processes = ranks if ranks and cpu else 1
    state = {name: processes * size for name, size in state.items()}
    train = replace(train, peak=processes * train.peak, small=processes * train.small, large=processes * train.large)
    program = {"program": device.program}
    alone = {**program, **state, "activations": train.peak, FREED: freed_bytes(device, train.peak, train)}
    own_parts, gpus = dict(own), vllm_gpus(config)
    sampling_parts = {**program, **engine, **decode, FREED: freed_bytes(device, sampling.peak, sampling)}
    for name in ("engine weights", *(() if config.engine.cache_gib else ("keys and values",))):
        sampling_parts[name] /= max(1, gpus)  # A given size of keys and values is that of every GPU.
    if config.placement.samplers or gpus:
        if config.placement.learner_has_own_device:
            return Places(phase="sampling", run={**program, **own_parts}, beside=alone, sampler=sampling_parts)
        alone = alone | {"program": device.program * (2 if ranks else 1)}
        others = {**program, **state, "activations": train.peak} if ranks > 1 and not cpu else {}
        return Places(phase="training", run={**alone, **own_parts}, beside=others, sampler=sampling_parts)
    if config.placement.learner is LearnerPlace.SERVER:
        return Places(phase="sampling", run={**sampling_parts, **own_parts}, beside=alone)
    if config.engine.sleep and not cpu:
        awake = {**engine, **decode}
        if train.peak + ASLEEP >= sum(awake.values()):
            return Places(phase="training", run={**alone, "vLLM, asleep": ASLEEP, **own_parts})
        return Places(phase="sampling", run={**program, **state, **awake, **own_parts})
    together = config.placement.engine is EngineKind.VLLM or config.ahead > 0 or bool(ranks and not cpu)
    phase, more = busiest(decode, train, together=together)
    if together:
        more[FREED] = freed_bytes(device, sampling.peak, sampling) + freed_bytes(device, train.peak, train)
    else:
        more[FREED] = freed_bytes(device, sum(more.values()), sampling, train)
    run = {"program": device.program * (2 if ranks else 1), **state, **engine, **own_parts, **more}
    return Places(phase=phase, run=run, beside=alone if ranks > 1 and not cpu else {})


def freed_bytes(device: Device, peak: float, *phases: Cost) -> float:
    """Freed bytes that the C library keeps after these phases, in addition to `peak`.

    It keeps as many bytes as small tensors have used at once in any phase, and returns those of large tensors.
    """
    if device.name != "cpu":
        return 0.0
    return max(0.0, max(cost.small for cost in phases) + max(cost.large for cost in phases) - peak)


def busiest(decode: Mapping[str, float], train: Cost, *, together: bool) -> tuple[str, dict[str, float]]:
    """The phase that needs most beside the weights, and its parts. Args: together: both phases run at once."""
    if together:
        return "sampling and training", {**decode, "activations": train.peak}
    if train.peak >= sum(decode.values()):
        return "training", {"activations": train.peak}
    return "sampling", dict(decode)
