"""Traces of verifiers 0.4 and prime-rl: `traces.jsonl`, an episode per line, each with a trace per agent.

An episode has `task`, `run`, `ok`, `errors` and `traces`; a trace has `nodes`, `calls`, `rewards` and `errors`; a node
has `message`, `sampled`, `parent`, `token_ids`, `mask` and `logprobs`. The tokens of a sampled message begin with those
of the template, which `mask` leaves out. The reward is the sum of every score times its weight.
prime-rl writes them below `rollouts/step_N/{train,eval}/{all,effective}`; those of `all` are read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from gnomon.integrations.imports.files import Options, Row, files, json_rows, require
from gnomon.integrations.imports.rollout import Foreign, message, number, parts_of, single_turn, task_of
from gnomon.types import Message, Turn

__all__ = ["read"]


def read(source: Path, options: Options) -> Iterator[Foreign]:
    """The rollouts of a trace file, or of all trace files below a folder."""
    for path in files(source, "traces.jsonl"):
        if path.parent.name == "effective":
            continue
        for address, row in json_rows(path, options):
            traces = require(row, "traces", options, address)
            for number_, trace in enumerate(traces):
                of = address if len(traces) == 1 else f"{address}:{number_}"
                yield rollout(row, trace, of, where(path, row, options))


def where(path: Path, row: Row, options: Options) -> tuple[int, bool]:
    """Step of an episode, and whether it belongs to an evaluation: as it says itself, else as its folder says."""
    work = (row.get("run") or {}).get("work") or {}
    folder = re.search(r"step_(\d+)", str(path))
    step = work.get("step")
    evaluated = work.get("type") == "eval" or path.parent.parent.name == "eval" or not (folder or "step" in work)
    return int(step if step is not None else folder[1] if folder else 0), evaluated or options.held_out


def rollout(row: Row, trace: Row, address: str, at: tuple[int, bool]) -> Foreign:
    options = Options()
    nodes = path_to_end(require(trace, "nodes", options, address))
    prompt, turns = conversation(nodes, finish_of_last(trace))
    rewards = {name: each or {} for name, each in require(trace, "rewards", options, address).items()}
    scores = {name: number(each.get("score")) for name, each in rewards.items()}
    parts = parts_of(scores.items(), {name: number(each.get("weight", 1.0)) or 0.0 for name, each in rewards.items()})
    task = row.get("task") or {}
    data = task.get("data") or {}
    errors = [*(row.get("errors") or ()), *(trace.get("errors") or ())]
    return Foreign(
        task=task_of(prompt, data.get("answer"), str(task.get("hash") or "")),
        turns=turns,
        source=address,
        step=at[0],
        held_out=at[1],
        reward=sum(part.weight * part.value for part in parts) if parts else None,
        parts=parts,
        values=scores | {name: number(value) for name, value in (trace.get("metrics") or {}).items()},
        advantage=advantage(nodes),
        failed="" if row.get("ok") or not errors else message_of(errors[-1]),
    )


def finish_of_last(trace: Row) -> str | None:
    """Why the last reply ended: the last call of the model that did not fail says it."""
    return next(
        (each.get("finish_reason") for each in reversed(trace.get("calls") or ()) if not each.get("error")), None
    )


def message_of(error: Any) -> str:
    """The first line of an error."""
    text = error.get("message", "") if isinstance(error, Mapping) else error
    return str(text).partition("\n")[0] or "it failed without a message"


def path_to_end(nodes: list[Row]) -> list[Row]:
    """The nodes from the first message to the last one; other branches are left out."""
    path, index = [], len(nodes) - 1
    while 0 <= index < len(nodes):
        path.append(nodes[index])
        parent = nodes[index].get("parent")
        index = -1 if parent is None else int(parent)
    return path[::-1]


def conversation(nodes: list[Row], finish: str | None) -> tuple[tuple[Message, ...], tuple[Turn, ...]]:
    """What was asked, and the turns: each is a sampled message, after the messages and the tokens before it."""
    turns: list[Turn] = []
    before: list[Message] = []
    tokens: list[int] = []
    last = max((i for i, node in enumerate(nodes) if node.get("sampled")), default=-1)
    for i, node in enumerate(nodes):
        own, reply = list(node.get("token_ids") or ()), message(node.get("message") or {})
        if node.get("sampled"):
            first = next((at for at, is_sampled in enumerate(node.get("mask") or ()) if is_sampled), 0)
            turns += single_turn(
                before,
                reply.text,
                finish=finish if i == last else None,
                prompt_ids=[*tokens, *own[:first]],
                token_ids=own[first:],
                logprobs=node.get("logprobs") or (),
                entropies=node.get("entropies") or (),
            )
            before = []
        else:
            before.append(reply)
        tokens = [*tokens, *own]
    return (turns[0].messages if turns else tuple(before)), tuple(turns)


def advantage(nodes: list[Row]) -> float | None:
    """The advantage of the sampled tokens, if all have the same one."""
    values = {value for node in nodes if node.get("sampled") for value in node.get("advantages") or ()}
    return number(values.pop()) if len(values) == 1 else None
