"""A plan for a reader."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import median

from gnomon.plans.devices import GIB
from gnomon.plans.plan import Plan
from gnomon.plans.programs import ANSWERING
from gnomon.store import RunReader

__all__ = ["outcome", "plan_text"]


def plan_text(plan: Plan, price: float | None = None) -> str:
    """Memory by part, seconds by part, and the whole run. Args: price: of an hour."""
    return "\n".join(lines(plan, price))


def lines(plan: Plan, price: float | None) -> Iterator[str]:
    device = plan.device
    source = "measured on this machine" if device.measured else "data sheet; its speed is assumed, not measured"
    yield f"device       {device.name}, {device.memory / GIB:.1f} GiB ({source})"
    yield (
        f"parameters   {plan.parameters:,}, of which {plan.trainable:,} are trained"
        if (plan.trainable <= plan.parameters)
        else f"parameters   {plan.parameters:,}"
    )
    yield f"peak memory  {plan.peak / GIB:.2f} GiB, in {plan.phase}"
    for name, size in plan.memory.items():
        yield f"  {name:<22} {size / GIB:7.2f} GiB"
    if plan.learner:
        yield from beside_lines(plan.learner, learner_place(plan))
    if plan.sampler:
        yield from beside_lines(plan.sampler, plan.sampler_place)
        if plan.together:
            yield f"together     {plan.total / GIB:.2f} GiB, on this machine"
    tokens = f"{plan.tokens:,} tokens in replies of {plan.lengths.reply}, {plan.tokens / plan.step:,.0f} per second"
    yield f"a step       {plan.step:.2f} s: {tokens}"
    for name, seconds in plan.seconds.items():
        yield f"  {name:<22} {seconds:7.2f} s"
    yield from programs(plan)
    on = "" if plan.devices == 1 else f" on {plan.devices} devices"
    cost = "" if price is None else f", {plan.hours * plan.devices * price:,.2f} at {price:g} an hour"
    yield f"whole run    {plan.hours:.2f} hours{on}: {plan.steps} steps, {plan.evaluations} evaluations{cost}"
    for name, each in plan.sets.items():
        yield f"  set {name:<18} {each.evaluations} evaluations of {each.seconds:.2f} s"
    yield f"not counted  {', '.join(left_out(plan))}"
    if plan.ranks > plan.micro_batches:
        idle = plan.ranks - plan.micro_batches
        yield f"idle         {idle} of {plan.ranks} processes: a smaller optim.micro_batch makes more micro-batches"


def beside_lines(memory: Mapping[str, float], where: str) -> Iterator[str]:
    yield f"beside it    {sum(memory.values()) / GIB:.2f} GiB, on {where}"
    for name, size in memory.items():
        yield f"  {name:<22} {size / GIB:7.2f} GiB"


def programs(plan: Plan) -> Iterator[str]:
    """What the programs need that play the episodes, if any do."""
    lengths, program = plan.lengths, plan.lengths.program
    if program is None:
        return
    rollouts = round(plan.tokens / max(1e-9, lengths.calls * lengths.reply))
    some, source = min(rollouts, program.at_once), "measured here" if program.measured else "assumed"
    size = f"{program.memory / 2**20:.0f} MiB each, {some * program.memory / GIB:.2f} GiB"
    yield f"programs     {some} of {rollouts} at once beside the run: {size} ({source})"
    tokens = program.last_prompt(max(lengths.prompts), lengths.reply)
    yield f"  calls                  {program.calls:.1f} of each; the prompt of the last one has {tokens} tokens"
    own = f"{program.seconds:.2f} s of a program ({source}), {1000 * ANSWERING:g} ms of the run for a call"
    yield f"  processor time         {own}"
    limits = [f"{name} ({share:.0%} of the programs)" for name, share in program.binding.items()]
    if (longest := plan.seconds["sampling"] + plan.seconds["programs"]) > program.wall_seconds:
        limits.append(f"time (up to {longest:.0f} s, and {program.wall_seconds:.0f} s are allowed)")
    yield f"  limits reached         {', '.join(limits) or 'none'}"
    if program.ending:
        yield f"  the one that was run   {program.ending}"


def learner_place(plan: Plan) -> str:
    if plan.served:
        return "the server of the learner"
    return "the node of the learner" if plan.apart else f"each of the other {plan.ranks - 1} devices"


def left_out(plan: Plan) -> Iterator[str]:
    """What the plan does not count."""
    yield "judging of replies in worker processes"
    if plan.ranks > 1:
        yield "transfers between the processes of the learner"
    if plan.served or plan.apart:
        yield "transfers between run and learner"
    if plan.sleeps:
        yield "moving vLLM's weights to the memory of the host and back"
    if plan.samplers and not plan.own_gpus:
        yield "Ray's own processes and its object store"
        yield "transfers between run and samplers"


def outcome(reader: RunReader) -> tuple[float | None, float]:
    """What a run needed: its peak in bytes, None where it was not recorded, and the median seconds of its steps.

    The first step is left out where there are more.
    """
    rows = reader.timings()
    peaks = [row["peak_bytes"] for row in rows if "peak_bytes" in row]
    return max(peaks) if peaks else None, median(seconds([row["training"] for row in rows]))


def seconds(values: Sequence[float]) -> Sequence[float]:
    return values[1:] or values
