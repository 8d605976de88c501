"""A run as text: its summary, a step, a rollout. Control characters in model output are escaped."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import groupby
from operator import itemgetter
from typing import Any

from gnomon.errors import ConfigError
from gnomon.reading.program import beside, origin, program_facts, program_text
from gnomon.reading.reasons import verdict_reason
from gnomon.store import Attempt, Record, RunReader
from gnomon.store.codec import rollout_of, text_of
from gnomon.store.layout import EXTENSION, is_rollout
from gnomon.terminal import one_line, printable
from gnomon.types import Calls
from gnomon.verifiers.breakdown import Line, lines

__all__ = [
    "Address",
    "figure",
    "groups_text",
    "parse_address",
    "rollout",
    "rollout_text",
    "rollouts",
    "rows_text",
    "summary",
    "summary_text",
]

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
        "attempts": [discarded(reader, attempt) for attempt in reader.attempts],
    }


def measurements(reader: RunReader, name: str = "") -> list[dict[str, Any]]:
    """The baseline and the evaluations after it, without their rollouts. Args: name: of an evaluation set."""
    keys = ("pass_at", "length", "truncated", "statuses")
    return [
        {"step": record.step, **{key: record.body[key] for key in keys if key in record.body}}
        for record in reader.evaluations(name)
    ]


def discarded(reader: RunReader, attempt: Attempt) -> dict[str, Any]:
    """An attempt as JSON values, with the address of its first rollouts."""
    facts = {name: getattr(attempt, name) for name in ("number", "failed", "step", "records", "why")}
    for record in reader.records(attempt=attempt.number):
        if is_rollout(record.kind) and record.step is not None:
            return {**facts, "read": str(Address(record.kind, record.step, attempt=attempt.number))}
    return {**facts, "read": ""}


def breakdown(steps: Sequence[Mapping[str, float]]) -> dict[str, list[dict[str, Any]]]:
    """The reward breakdown of the first and the last tenth of a run's steps, by reward part."""
    size = max(1, len(steps) // 10)
    return {
        name: [asdict(line) for line in lines(some)]
        for name, some in (("first", steps[:size]), ("last", steps[-size:]))
    }


NOTHING = Line(part="", paid=0.0, return_share=None, variance_share=None)


def breakdown_text(facts: Mapping[str, Any]) -> list[str]:
    """The breakdown as a table: the mean of each part, its share of the return and of the within-group variance."""
    first, last = ({row["part"]: Line(**row) for row in facts[name]} for name in ("first", "last"))
    if not last:
        return []
    names = sorted({*first, *last}, key=lambda name: -(last[name].paid if name in last else 0.0))
    width = max(9, *(len(one_line(name)) for name in names))
    rows = [f"{'reward part':{width + 2}}  {'mean per rollout':^18}  {'of the return':^16}  {'of the variance':^16}"]
    for name in names:
        then, now = first.get(name, NOTHING), last.get(name, NOTHING)
        cells = [
            f"{then.paid:>7.3f} to {now.paid:>7.3f}",
            f"{share(then.return_share):>6} to {share(now.return_share):>6}",
            f"{share(then.variance_share):>6} to {share(now.variance_share):>6}",
        ]
        rows.append(f"  {one_line(name):{width}}  {'  '.join(cells)}")
    return rows


def figure(value: float | None, form: str = "") -> str:
    """A number, or `-` where an imported run has none."""
    return "-" if value is None else format(value, form)


def share(value: float | None) -> str:
    return "-" if value is None else f"{value:.0%}"


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


@dataclass(frozen=True, slots=True)
class Address:
    """The place of rollouts in a run.

    `kind` is `rollout` in training, and `held_out` or `held_out.SET` in evaluations.
    """

    kind: str
    step: int | None
    """None for every step."""
    task: int | None = None
    sample: int | None = None
    attempt: int = 0
    """Number of the attempt; 0 for the run itself."""

    def __str__(self) -> str:
        discarded = [f"attempt-{self.attempt}"] if self.attempt else []
        held_out = [] if self.kind == "rollout" else [self.kind.replace("_", "-", 1)]
        parts = ["task" if self.step is None else self.step, self.task, self.sample]
        return ":".join([*discarded, *held_out, *(str(part) for part in parts if part is not None)])


ADDRESS = re.compile(
    r"(attempt-\d{1,9}:)?(held-out(?:\.[A-Za-z_]\w*)?:)?(?:task:(\d{1,15})|(\d{1,15})(:\d{1,15})?(:\d{1,15})?)",
    re.ASCII,
)


def parse_address(text: str) -> Address:
    """Parse `STEP`, `STEP:TASK`, `STEP:TASK:SAMPLE` or `task:TASK`, after optional `attempt-N:` and `held-out:`.

    `held-out.SET:` selects an evaluation set.

    Raises: ConfigError E004.
    """
    match = ADDRESS.fullmatch(text)
    if match is None:
        fix = "use STEP, STEP:TASK, STEP:TASK:SAMPLE or task:TASK, with held-out: before it for held-out tasks"
        raise ConfigError("E004", f"{text!r} is not a rollout address", fix=fix)
    attempt, held_out, through, *parts = match.groups()
    kind = held_out[:-1].replace("-", "_", 1) if held_out else "rollout"
    number = int(attempt[8:-1]) if attempt else 0
    if through:
        return Address(kind, None, int(through), attempt=number)
    step, task, sample = (None if part is None else int(part.lstrip(":")) for part in parts)
    return Address(kind, step, task, sample, number)


def resolved(reader: RunReader, address: Address) -> Address:
    """The address; if only attempts have rollouts there, with the last such attempt."""
    if address.attempt or reader.rollout_rows(kind=address.kind, step=address.step, task=address.task):
        return address
    for attempt in reversed(reader.attempts):
        if reader.rollout_rows(kind=address.kind, step=address.step, task=address.task, attempt=attempt.number):
            return replace(address, attempt=attempt.number)
    return address


def rollouts(reader: RunReader, address: Address) -> list[dict[str, Any]]:
    """Every rollout of a step or task, in order. Raises: RunError E409 if there are none."""
    address = resolved(reader, address)
    rows = [
        {
            "address": str(replace(address, step=record.step, task=record.task, sample=record.sample)),
            "step": record.step,
            "task": record.task,
            "reward": record.body["reward"],
            "status": record.body["status"],
            "tokens": record.body["tokens"],
            "reply": record.body["reply"],
        }
        for record in rollout_records(reader, address)
    ]
    if not rows:
        raise reader.absent(address.kind, address.step, address.task)
    return rows


def rollout_records(reader: RunReader, address: Address) -> Iterator[Record]:
    """The rollouts at an address; none for an attempt that does not exist."""
    if address.attempt <= len(reader.attempts):
        yield from reader.records(address.kind, address.step, address.task, attempt=address.attempt)


def rows_text(facts: Sequence[Mapping[str, Any]]) -> str:
    """One line per rollout."""
    return "\n".join(map(row_text, facts))


def row_text(row: Mapping[str, Any]) -> str:
    reward, tokens = figure(row["reward"], ".3g"), figure(row["tokens"])
    return f"{row['address']:<24} {reward:>6}  {one_line(row['status']):<12} {tokens:>4} tokens"


LONG = 12
"""Lines shown of a reply in a list of rollouts."""


def groups_text(reader: RunReader, facts: Sequence[Mapping[str, Any]]) -> str:
    """Rollouts by group: the prompt and every reply."""
    lines: list[str] = []
    last_prompt = ""
    for (step, task), rows in groupby(facts, key=itemgetter("step", "task")):
        group = list(rows)
        right = sum(row["status"] == "correct" for row in group)
        lines.append(f"=== step {step}   task {task}   {right} of {len(group)} correct")
        address = parse_address(group[0]["address"])
        if (prompt := question(task_at(reader, address))) != last_prompt:
            lines.append(indented(prompt, "    "))
            last_prompt = prompt
        for row in group:
            lines += [f"--- {row_text(row)}", indented(shortened(row), "    ")]
    return "\n".join(lines)


def question(task_body: Mapping[str, Any]) -> str:
    """The messages of a task and its reference answer, if it has one."""
    answer = [] if task_body["answer"] is None else [f"(answer: {task_body['answer']})"]
    return "\n".join([*map(message_text, task_body["messages"]), *answer])


def message_text(message: Mapping[str, Any]) -> str:
    """The text of a message, after a line for every image, with the beginning of its file's name in `images/`."""
    return "\n".join([*(f"[image {name[:16]}]" for name in message.get("images", ())), text_of(message)])


def shortened(row: Mapping[str, Any]) -> str:
    """A reply without the middle of a long text."""
    lines = row["reply"].split("\n")
    if len(lines) <= LONG:
        return str(row["reply"])
    half = LONG // 2
    left_out = f"… {len(lines) - 2 * half} more lines: gnomon show RUN {row['address']}"
    return "\n".join([*lines[:half], left_out, *lines[-half:]])


def indented(text: str, by: str) -> str:
    return "\n".join(by + line for line in printable(text).split("\n"))


def rollout(reader: RunReader, address: Address) -> dict[str, Any]:
    """A rollout with its task. Raises: RunError E409 if there is none."""
    step, task, sample = address.step, address.task, address.sample
    assert step is not None and task is not None and sample is not None
    address = resolved(reader, address)
    match = next((record for record in rollout_records(reader, address) if record.sample == sample), None)
    if match is None:
        raise reader.absent(address.kind, step, task, sample)
    task_body = dict(task_at(reader, address))
    facts = {"step": step, "task": task, "sample": sample, "asked": task_body, **match.body}
    if match.body.get("end"):
        played = rollout_of(Record(kind="task", step=step, task=task, body=task_body), match)
        facts["program"] = program_facts(played.end, played.turns, played.calls)
    elif match.body.get("calls"):
        facts["beside"] = list(beside(Calls(**match.body["calls"])))
    return facts


def task_at(reader: RunReader, address: Address) -> Mapping[str, Any]:
    """The task of a rollout. The task may be in the run while the rollout is in an attempt."""
    for attempt in dict.fromkeys((address.attempt, *range(len(reader.attempts) + 1))):
        for record in reader.records("task", address.step, address.task, attempt=attempt):
            if record.body["of"] == address.kind:
                return record.body
    raise reader.absent(address.kind, address.step, address.task)


def rollout_text(facts: Mapping[str, Any]) -> str:
    """A rollout as text: prompt, completions, observations, verdict."""
    parts = "  ".join(f"{one_line(p['name'])} {p['value']:g} x {p['weight']:g}" for p in facts["parts"])
    why = verdict_reason(facts, facts["asked"])
    detail = f"   {printable(why)}" if why else ""
    credit = f"   advantage {facts['advantage']:+.4f}" if "advantage" in facts else ""
    return "\n".join(
        [
            *conversation(facts),
            *(program_text(facts["program"]) if "program" in facts else ()),
            *(f"--- {line}" for line in facts.get("beside", ())),
            f"--- verdict: {one_line(facts['status'])}   reward {figure(facts['reward'], 'g')}{credit}",
            f"    {parts}   extracted {facts['extracted']!r}{detail}",
        ]
    )


def conversation(facts: Mapping[str, Any]) -> Iterator[str]:
    """Prompt, observations and completions, turn by turn."""
    player = facts.get("player")
    of = f"player {player}, " if player else ""
    heading = f"prompt ({of}task {one_line(facts['asked']['id'])}, answer {one_line(facts['asked']['answer'])})"
    turns = facts.get("turns", [{"messages": facts["asked"]["messages"], **facts}])
    if not turns:  # Of a program that received no reply.
        yield f"--- {heading}"
        yield printable("\n".join(map(message_text, facts["asked"]["messages"])))
    for number, turn in enumerate(turns):
        begins = origin(facts["program"], number) if "program" in facts else ""
        yield f"--- {'observation' if number else heading}" + (f" ({begins})" if begins else "")
        yield printable("\n".join(map(message_text, turn["messages"])))
        ended = one_line(turn["finish"])
        yield f"--- reply ({figure(turn['tokens'])} tokens, stop: {ended}, weights version {facts['version']})"
        yield printable(turn["reply"])
