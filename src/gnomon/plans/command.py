"""What `gnomon plan` does."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from gnomon.config import RunConfig
from gnomon.plans.calibrate import calibrated
from gnomon.plans.devices import GIB, device, resident
from gnomon.plans.fit import require_fitting
from gnomon.plans.lengths import recorded_lengths, supposed_lengths
from gnomon.plans.plan import Plan, planned
from gnomon.plans.text import outcome, plan_text
from gnomon.run.makers.engine import engine_dtype
from gnomon.store import RunReader

__all__ = ["compared", "plan_of", "report"]


def plan_of(config: RunConfig, name: str, prompt: int | None, reply: int | None, run: Path | None) -> Plan:
    """The plan of a run on a device.

    Args: prompt, reply: lengths in tokens; None: counted, and `rollout.max_tokens`; run: a folder whose recorded
        lengths are taken.
    Raises: ResourceError E507 where the run cannot fit; those of `device` and `supposed_lengths`.
    """
    torch.set_num_threads(config.threads)
    if run:
        with RunReader(run) as reader:
            lengths = recorded_lengths(config, reader)
    else:
        lengths = supposed_lengths(config, prompt, reply)
    dtypes = (config.policy.dtype, engine_dtype(config))
    hardware = device(name, resident(), dtypes)
    if hardware.measured:  # Now the program holds a tokenizer and what first passes leave, as it does in a run.
        hardware = replace(calibrated(hardware), program=resident())
    plan = planned(config, hardware, lengths)
    require_fitting(config, plan)
    return plan


def compared(plan: Plan, run: Path) -> dict[str, Any]:
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
