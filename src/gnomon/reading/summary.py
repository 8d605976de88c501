"""The summary of a run: its results, its alarms, and what was resumed, replaced or read back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gnomon.reading.address import Address
from gnomon.reading.breakdown import breakdown, breakdown_text
from gnomon.reading.lines import figure
from gnomon.store import Attempt, RunReader
from gnomon.store.layout import EXTENSION, is_rollout
from gnomon.terminal import one_line, printable

__all__ = ["alarm_text", "numerics_text", "summary", "summary_text", "unjudged_text"]

CURVES = ("reward", "correct", "length", "logp_mismatch")
"""Metrics that a summary lists for every step."""


def summary(reader: RunReader) -> dict[str, Any]:
    """The results of a run as JSON values."""
    metrics = reader.metrics()
    curve = {name: [m["metrics"].get(name) for m in metrics] for name in CURVES}
    return {
        "run": str(reader.folder),
        "status": str(reader.status),
        "reason": reader.reason,
        "fingerprint": reader.fingerprint,
        "steps": reader.steps,
        "baseline": reader.baseline,
        "held_out": reader.held_out,
        "evaluations": measurements(reader),
        "sets": {name: measurements(reader, name) for name in reader.sets},
        "seconds": sum(float(row["seconds"]) for row in reader.timings()),
        "peak_bytes": max((row["peak_bytes"] for row in reader.timings() if "peak_bytes" in row), default=None),
        "max_logp_mismatch": max((g for g in curve["logp_mismatch"] if g is not None), default=None),
        "tier": reader.manifest.get("tier"),
        "start_logp_mismatch": reader.manifest.get("logp_mismatch"),
        "curve": curve,
        "breakdown": breakdown([m["metrics"] for m in metrics]),
        "alarms": [
            {name: event.get(name, "") for name in ("name", "step", "sentence", "read", "advice")}
            for event in reader.alarms()
        ],
        "varies": reader.varies,
        "read_back": sorted({event["step"] for event in reader.events("read") if event["of"] == "rollout"}),
        "extensions": [{"step": record.step, **record.body} for record in reader.records(EXTENSION)],
        "attempts": [describe_attempt(reader, attempt) for attempt in reader.attempts],
    }


def measurements(reader: RunReader, name: str = "") -> list[dict[str, Any]]:
    """The baseline and the evaluations after it, without their rollouts. Args: name: of an evaluation set."""
    keys = ("pass_at", "length", "truncated", "statuses")
    return [
        {"step": record.step, **{key: record.body[key] for key in keys if key in record.body}}
        for record in reader.evaluations(name)
    ]


def describe_attempt(reader: RunReader, attempt: Attempt) -> dict[str, Any]:
    """An attempt as JSON values, with the address of its first rollouts."""
    facts = {name: getattr(attempt, name) for name in ("number", "failed", "step", "records", "why")}
    for record in reader.records(attempt=attempt.number):
        if is_rollout(record.kind) and record.step is not None:
            return {**facts, "read": str(Address(record.kind, record.step, attempt=attempt.number))}
    return {**facts, "read": ""}


def summary_text(facts: Mapping[str, Any], bars: Any) -> str:
    """The summary for a reader; `bars` draws a curve as text."""
    reason = f" ({printable(facts['reason'])})" if facts["reason"] else ""
    text = [
        f"run          {facts['run']}   {facts['status']}{reason}",
        f"fingerprint  {facts['fingerprint']}",
        f"steps        {facts['steps']} in {facts['seconds']:.0f} s{memory_text(facts)}",
    ]
    for name, body in (("baseline", facts["baseline"]), ("held-out", facts["held_out"])):
        if body:
            text.append(f"{name:<12} {measurement_text(body)}")
    for name, bodies in facts["sets"].items():
        text.append(f"set {name}, baseline   {measurement_text(bodies[0])}")
        text += [f"set {name}, step {body['step']}   {measurement_text(body)}" for body in bodies[-1:] if body["step"]]
    for name in ("reward", "length"):
        values = [value for value in facts["curve"][name] if value is not None]
        if values:
            text.append(f"{name:<12} {bars(values, 48)}  {values[0]:.2f} to {values[-1]:.2f}")
    text += breakdown_text(facts["breakdown"])
    text += numerics_text(facts)
    if facts["varies"]:
        text.append(f"not exact    {one_line(facts['varies'])}")
    if facts["read_back"]:
        text.append(
            f"read back    recorded rollouts of steps {', '.join(map(str, facts['read_back']))}, by a resumed run"
        )
    text += [extension_text(each) for each in facts["extensions"]]
    text += [attempt_text(facts["run"], attempt) for attempt in facts["attempts"]]
    text += [alarm_text(facts["run"], alarm) for alarm in facts["alarms"]]
    return "\n".join(text)


def measurement_text(body: Mapping[str, Any]) -> str:
    """A measurement on held-out tasks: pass rates with intervals, and sizes."""
    rates = "   ".join(
        f"pass@{k} {i['value']:.3f} [{i['low']:.3f}, {i['high']:.3f}]" for k, i in body["pass_at"].items()
    )
    sizes = f"length {figure(body['length'], '.1f')}   truncated {figure(body['truncated'], '.0%')}"
    return f"{rates}   {sizes}{unjudged_text(body)}"


def unjudged_text(body: Mapping[str, Any]) -> str:
    """How many rollouts of an evaluation were not judged; empty for none. Their tasks are not in its numbers."""
    failed = body.get("statuses", {}).get("failed", 0)
    return f"   verifier failed on {failed} of {sum(body['statuses'].values())} rollouts" if failed else ""


def memory_text(facts: Mapping[str, Any]) -> str:
    """The largest memory of the process that trained, where it was recorded."""
    return f", peak memory {facts['peak_bytes'] / 2**30:.2f} GiB" if facts.get("peak_bytes") else ""


def numerics_text(facts: Mapping[str, Any]) -> list[str]:
    """The numerics tier of a run and the largest log-prob mismatch of sampler and learner, before and in training."""
    gaps = [
        f"{facts[name]:.2g} {when}"
        for name, when in (("start_logp_mismatch", "at the start"), ("max_logp_mismatch", "in training"))
        if facts[name] is not None
    ]
    if facts["tier"] is None and not gaps:
        return []
    return [f"numerics     {facts['tier']}   largest |sampler - learner| log-probability: {', '.join(gaps)}"]


def extension_text(extension: Mapping[str, Any]) -> str:
    """The settings that changed when the run was resumed."""
    before = extension["before"]
    changes = [f"{key} was {before.get(key, 'unset')} and is {value}" for key, value in extension["settings"].items()]
    return f"extended     from step {extension['step']}: {one_line(', '.join(changes))}"


def attempt_text(folder: str, attempt: Mapping[str, Any]) -> str:
    """An attempt: records that a resumed run replaced, and how to read them."""
    how = "of a step that failed" if attempt["failed"] else "that the resumed run replaced"
    command = f"\n             read: gnomon show {folder} {attempt['read']}" if attempt["read"] else ""
    return (
        f"attempt {attempt['number']:<4} {attempt['records']} records {how}, from step {attempt['step']}: "
        f"{one_line(attempt['why'])}{command}"
    )


def alarm_text(folder: str, alarm: Mapping[str, Any]) -> str:
    """An alarm, its rollouts and what to do."""
    lines = [f"ALARM        {one_line(alarm['name'])} at step {alarm['step']}: {one_line(alarm['sentence'])}"]
    addresses = [one_line(rollout) for rollout in alarm["read"]]
    if addresses:
        more = f"   and {', '.join(addresses[1:])}" if addresses[1:] else ""
        lines.append(f"             read: gnomon show {folder} {addresses[0]}{more}")
    if alarm["advice"]:
        lines.append(f"             do: {one_line(alarm['advice'])}")
    return "\n".join(lines)
