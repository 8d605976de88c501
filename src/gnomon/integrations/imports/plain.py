"""Lines of JSON, or Parquet, of any shape: the user says which field holds what."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gnomon.integrations.imports.files import Options, Row, files, optional, require, rows
from gnomon.integrations.imports.rollout import Foreign, messages_of, number, parts_of, single_turn, task_of, turns_of

__all__ = ["FIELDS", "read"]

FIELDS = {
    "prompt": "what is asked: a text or chat messages (required)",
    "reply": "what the policy wrote: a text or chat messages (required)",
    "reward": "a number",
    "answer": "reference answer",
    "step": "training step, from 0",
    "id": "identity of the task",
    "advantage": "a number",
    "finish": "why the reply ended: `stop`, `eos` or `length`",
    "prompt_ids": "token ids of the prompt",
    "token_ids": "token ids of the reply",
    "logprobs": "log-probabilities of the tokens of the reply, natural logarithm",
    "policy_logp": "the same under the policy that is trained",
    "coefficients": "of the tokens of the reply: κ of ∇log π in the gradient that is ascended",
}
"""What a field of a log may hold."""


def read(source: Path, options: Options) -> Iterator[Foreign]:
    """The rollouts of a file, or of all files below a folder. Fields that are numbers may be named by a rule."""
    pattern = "*.parquet" if source.suffix == ".parquet" else "*.jsonl"
    for path in files(source, pattern):
        for address, row in rows(path, options):
            yield rollout(row, address, options)


def rollout(row: Row, address: str, options: Options) -> Foreign:
    prompt = messages_of(require(row, "prompt", options, address), "user")
    reply = require(row, "reply", options, address)
    values = {name: optional(row, name, options, where=address) for name in FIELDS}
    reward, own = number(values["reward"]), values["id"]
    turns = turns_of((*prompt, *messages_of(reply, "")))[1]
    if isinstance(reply, str):
        ids: dict[str, Any] = {name: values[name] or () for name in ("prompt_ids", "token_ids", "logprobs")}
        turns = single_turn(prompt, reply, finish=values["finish"], **ids)
    return Foreign(
        task=task_of(prompt, values["answer"], "" if own is None else str(own)),
        turns=turns,
        source=address,
        step=int(values["step"] or 0),
        held_out=options.held_out,
        reward=reward,
        parts=parts_of([("reward", reward)], {}),
        values={name: number(value) for name, value in row.items() if value is None or number(value) is not None},
        advantage=number(values["advantage"]),
        policy_logp=tuple(values["policy_logp"] or ()),
        coefficients=tuple(values["coefficients"] or ()),
    )
