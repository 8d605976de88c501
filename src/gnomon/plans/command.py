"""What `gnomon plan` does: the plan, the smallest change that makes a run fit, and what this machine spends beside
products and memory traffic."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import torch

from gnomon.config import RunConfig, Source, overrides, resolve
from gnomon.engines.decoder import Decoder
from gnomon.errors import ConfigErrors, GnomonError, ResourceError
from gnomon.models.folder import TINY
from gnomon.models.policy import Policy
from gnomon.models.precision import Precision
from gnomon.models.scoring import text_pass
from gnomon.plans.devices import GIB, GPUS, Device, device, fastest, resident
from gnomon.plans.lengths import Lengths, recorded_lengths, supposed_lengths
from gnomon.plans.passes import decoding, meta_policy, texts, training
from gnomon.plans.plan import Plan, make_plan
from gnomon.plans.text import outcome, plan_text
from gnomon.store import RunReader
from gnomon.types import Request, Sampling

__all__ = ["calibrate", "compare_with_run", "plan_of", "report", "require_fitting"]


def plan_of(config: RunConfig, name: str, prompt: int | None, reply: int | None, run: Path | None) -> Plan:
    """The plan of a run on a device.

    Args: prompt, reply: lengths in tokens, by default counted, and `rollout.max_tokens`; run: a folder whose recorded
        lengths are taken.
    Raises: ResourceError E507 where the run cannot fit; those of `device` and `supposed_lengths`.
    """
    torch.set_num_threads(1)
    if run:
        with RunReader(run) as reader:
            lengths = recorded_lengths(config, reader)
    else:
        lengths = supposed_lengths(config, prompt, reply)
    hardware = device(name, resident(), config.dtypes)
    if hardware.measured:  # Now the program holds a tokenizer and what first passes leave, as it does in a run.
        hardware = replace(calibrate(hardware), program=resident())
    plan = make_plan(config, hardware, lengths)
    require_fitting(config, plan)
    return plan


def compare_with_run(plan: Plan, run: Path) -> dict[str, Any]:
    """What came true of a plan, and by how much the plan is off.

    A run records the peak of its own process, so the peak of a learner in several processes is not known.
    """
    with RunReader(run) as reader:
        (peak, seconds), rows = outcome(reader), reader.timings()
    hours = sum(float(row["seconds"]) for row in rows) / 3600
    cpu = [float(row["cpu_seconds"]) for row in rows if "cpu_seconds" in row]
    peak = None if plan.ranks and not plan.served else peak
    return {
        "peak": peak,
        "step_seconds": seconds,
        "hours": hours,
        "cpu_seconds": sum(cpu) if len(cpu) == len(rows) else None,
        "peak_error": None if peak is None else plan.peak / peak - 1,
        "step_error": plan.step / seconds - 1,
    }


def report(plan: Plan, price: float | None, past: dict[str, Any] | None) -> str:
    """The plan for a reader, and beside it what came true."""
    text = [plan_text(plan, price)]
    if past:
        if past["peak"] is not None:
            text.append(f"measured     peak {past['peak'] / GIB:.2f} GiB; the plan is off by {past['peak_error']:+.0%}")
        text.append(f"measured     {past['step_seconds']:.2f} s per step; the plan is off by {past['step_error']:+.0%}")
        money = "" if price is None else f", {past['hours'] * plan.devices * price:,.2f} at {price:g} an hour"
        used = "" if past["cpu_seconds"] is None else f", {past['cpu_seconds']:.0f} s of processor time in steps"
        text.append(f"measured     {past['hours']:.2f} hours with evaluations{used}{money}")
    return "\n".join(text)


PROMPTS, GROUP, LENGTH, REPLY = 4, 8, 32, 24
"""Size of the measured passes."""


def calibrate(device: Device) -> Device:
    """A measured device with its time per operation and per sampled token. Takes about a second."""
    abstract = meta_policy(TINY, Precision())
    policy = Policy.load(TINY)
    work = texts([LENGTH] * PROMPTS, GROUP, REPLY)

    def train() -> None:
        output = policy(text_pass(policy, work))
        (output.logp * 0.0).sum().backward()

    spare = fastest(train) - training(abstract, work, device).seconds
    one = replace(device, per_operation=1.0)
    operations = training(abstract, work, one).seconds - training(abstract, work, device).seconds
    device = replace(device, per_operation=max(0.0, spare / operations))

    def decode() -> None:
        decoder = Decoder(policy)
        sampling = Sampling(max_tokens=REPLY)
        for row in range(PROMPTS * GROUP):
            ids = (*range(2, 1 + LENGTH), 40 + row // GROUP)
            decoder.admit(Request(prompt_ids=ids, key=bytes([row]) * 16, sampling=sampling))
        while decoder.rows:
            decoder.step()

    spare = fastest(decode) - decoding(abstract, [LENGTH] * PROMPTS, GROUP, REPLY, device).seconds
    return replace(device, per_token=max(0.0, spare / (PROMPTS * GROUP * REPLY)))


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
            if make_plan(candidate, device, lengths).fits:
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
