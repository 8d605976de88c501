"""Logs of TRL 1.16: `{output_dir}/completions/completions_00010.parquet`, written with `log_completions=True`.

A row has `step`, `prompt`, `completion`, `advantage` and a column for each reward function. The log lacks token ids,
log-probabilities and the weights of the reward functions. It is written every `logging_steps` steps with the batch of
that step alone, and rollouts of evaluations stand in the same files.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from gnomon.integrations.imports.files import Options, Row, files, optional, others, require, rows
from gnomon.integrations.imports.rollout import Foreign, messages_of, number, parts_of, single_turn, task_of, turns_of

__all__ = ["read"]

KNOWN = ("step", "prompt", "completion", "advantage")


def read(source: Path, options: Options) -> Iterator[Foreign]:
    """The rollouts of a completions folder, or of one of its files. A row that is logged twice counts once."""
    for path in files(source, "completions_*.parquet"):
        at = options.position(path)
        at.number = 0  # TRL may write a file again, with the rows at other places.
        for where, row in rows(path, options):
            text = json.dumps(row, sort_keys=True, default=str)
            if text not in at.rows:
                at.rows.add(text)
                yield rollout(row, where, options)


def rollout(row: Row, where: str, options: Options) -> Foreign:
    prompt = messages_of(require(row, "prompt", options, where), "user")
    reply = require(row, "reply", options, where, "completion")
    answer = optional(row, "answer", options, where=where)
    values = {name: number(value) for name, value in others(row, KNOWN).items() if is_score(value)}
    parts = parts_of(values.items(), options.weights)
    if not values:
        require(row, "reward", options, where)
    return Foreign(
        task=task_of(prompt, answer),
        turns=single_turn(prompt, reply) if isinstance(reply, str) else turns_of((*prompt, *messages_of(reply, "")))[1],
        source=where,
        step=int(require(row, "step", options, where)),
        held_out=options.held_out,
        reward=sum(part.weight * part.value for part in parts) if parts else None,
        parts=parts,
        values=values,
        advantage=number(row.get("advantage")),
    )


def is_score(value: object) -> bool:
    """Whether a value may be that of a reward function; one that returned None is logged as NaN or null."""
    return value is None or isinstance(value, int | float)
