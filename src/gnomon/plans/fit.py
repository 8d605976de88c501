"""The smallest change that makes a run fit a device."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations
from typing import Any

from gnomon.config import RunConfig, Source, overrides, resolve
from gnomon.errors import ConfigErrors, GnomonError, ResourceError
from gnomon.plans.devices import GIB, GPUS, Device
from gnomon.plans.lengths import Lengths
from gnomon.plans.plan import Plan, planned

__all__ = ["require_fitting"]

CHANGES = (
    "engine.sleep=true",
    "policy.activation_checkpointing=true",
    "optim.states=8bit",
    "policy.dtype=bfloat16",
    "policy.lora.rank=32",
)
"""From the one that changes least of what a run computes."""


def require_fitting(config: RunConfig, plan: Plan) -> None:
    """Raises: ResourceError E507 with the smallest change that makes the run fit, or else the devices that hold it."""
    if plan.fits:
        return
    crowded = max((plan.memory, plan.learner, plan.sampler), key=lambda memory: sum(memory.values()))
    part, size = max(crowded.items(), key=lambda item: item[1])
    change = smallest(config, plan.device, plan.lengths)
    larger = [device.name for device in GPUS.values() if device.memory >= plan.most]
    others = f"--device {larger[0]}" if larger else "a model of fewer parameters; no device in the table holds this one"
    raise ResourceError(
        "E507",
        f"the run needs {plan.most / GIB:.1f} GiB, and {plan.device.name} has {plan.device.memory / GIB:.1f} GiB",
        where=f"{phase_of(plan, crowded)}: {part} {size / GIB:.1f} GiB",
        why="the run would end with an out-of-memory error",
        fix=change or others,
    )


def phase_of(plan: Plan, crowded: Mapping[str, float]) -> str:
    if crowded is plan.memory:
        return plan.phase
    return "training" if crowded is plan.learner else f"sampling, on {plan.sampler_place}"


def smallest(config: RunConfig, device: Device, lengths: Lengths) -> str:
    """The fewest changes after which the run fits, as words of a command line; empty where there are none."""
    for words, candidate in changes(config):
        if candidate.engine.sleep and device.name == "cpu":
            continue
        try:
            if planned(candidate, device, lengths).fits:
                return " ".join(words)
        except GnomonError:  # A change that this model does not allow.
            continue
    return ""


def changes(config: RunConfig) -> Iterator[tuple[tuple[str, ...], RunConfig]]:
    """Changed settings, fewer changes first; changes that change nothing are left out."""
    body = config.model_dump()
    for count in range(1, len(CHANGES) + 1):
        for words in combinations(CHANGES, count):
            if not all(differs(body, word) for word in words):
                continue
            try:
                candidate, _ = resolve([Source(body, {}), overrides(words)])
            except ConfigErrors:  # Settings that exclude each other, such as states in 8 bits and ranks.
                continue
            yield words, candidate


def differs(body: Mapping[str, Any], word: str) -> bool:
    """Whether a setting does not have this value already, nor one that needs less memory."""
    key, _, value = word.partition("=")
    table: Any = body
    for name in key.split("."):
        table = table[name]
    if key == "policy.lora.rank":
        return not table
    return str(table).lower() != value
