"""Rollouts as text: those of a step or a task by group, or one with every turn. Control characters are escaped."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from operator import itemgetter
from typing import Any

from gnomon.reading.address import Address, address_in, parse_address, rollout_records, task_at
from gnomon.reading.lines import figure
from gnomon.reading.program import beside, origin, program_facts, program_text
from gnomon.reading.reasons import verdict_reason
from gnomon.store import Record, RunReader
from gnomon.store.codec import rollout_of, text_of
from gnomon.terminal import one_line, printable
from gnomon.types import Calls

__all__ = ["groups_text", "question", "rollout", "rollout_text", "rollouts", "rows_text"]

LONG = 12
"""Lines shown of a reply in a list of rollouts."""


def rollouts(reader: RunReader, address: Address) -> list[dict[str, Any]]:
    """Every rollout of a step or task, in order. Raises: RunError E409 if there are none."""
    address = address_in(reader, address)
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


def rows_text(facts: Sequence[Mapping[str, Any]]) -> str:
    """One line per rollout."""
    return "\n".join(map(row_text, facts))


def row_text(row: Mapping[str, Any]) -> str:
    reward, tokens = figure(row["reward"], ".3g"), figure(row["tokens"])
    return f"{row['address']:<24} {reward:>6}  {one_line(row['status']):<12} {tokens:>4} tokens"


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
            lines.append(indent(prompt, "    "))
            last_prompt = prompt
        for row in group:
            lines += [f"--- {row_text(row)}", indent(shorten(row), "    ")]
    return "\n".join(lines)


def question(task_body: Mapping[str, Any]) -> str:
    """The messages of a task and its reference answer, if it has one."""
    answer = [] if task_body["answer"] is None else [f"(answer: {task_body['answer']})"]
    return "\n".join([*map(message_text, task_body["messages"]), *answer])


def message_text(message: Mapping[str, Any]) -> str:
    """The text of a message, after a line for every image, with the beginning of its file's name in `images/`."""
    return "\n".join([*(f"[image {name[:16]}]" for name in message.get("images", ())), text_of(message)])


def shorten(row: Mapping[str, Any]) -> str:
    """A reply without the middle of a long text."""
    lines = row["reply"].split("\n")
    if len(lines) <= LONG:
        return str(row["reply"])
    half = LONG // 2
    left_out = f"… {len(lines) - 2 * half} more lines: gnomon show RUN {row['address']}"
    return "\n".join([*lines[:half], left_out, *lines[-half:]])


def indent(text: str, by: str) -> str:
    return "\n".join(by + line for line in printable(text).split("\n"))


def rollout(reader: RunReader, address: Address) -> dict[str, Any]:
    """A rollout with its task. Raises: RunError E409 if there is none."""
    step, task, sample = address.step, address.task, address.sample
    assert step is not None and task is not None and sample is not None
    address = address_in(reader, address)
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
