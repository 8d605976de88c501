"""The rollouts of a run as rows of a table, one row each: for data frames and files."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from gnomon.store.codec import floats_of, logprobs_of, text_of
from gnomon.store.layout import Record, is_rollout, set_of
from gnomon.types import Finish, Status

__all__ = ["COLUMNS", "TOKENS", "Column", "columns", "rollout_table"]

Kind = Literal["int", "float", "text", "flag", "messages", "parts", "ints", "floats"]


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the table. A value that the run does not have is None."""

    name: str
    kind: Kind
    meaning: str


COLUMNS = (
    Column("split", "text", "`train` for a rollout of training, `test` for one of a held-out evaluation."),
    Column("set", "text", "Evaluation set of a held-out rollout; empty for the main evaluation and for training."),
    Column("step", "int", "Step of a rollout of training, from 0; finished steps before a held-out evaluation."),
    Column("task", "int", "Index of the task in its split."),
    Column("sample", "int", "Number of the rollout among those of its task in this step, from 0."),
    Column("player", "int", "Player whose rollout it is, from 0."),
    Column("task_id", "text", "Identity of the task: equal in two runs for the same task."),
    Column("prompt", "text", "Contents of the messages that the rollout begins with, one after the other."),
    Column("answer", "text", "Reference answer of the task, as JSON if it is not a text."),
    Column("reply", "text", "What the policy wrote, over all turns."),
    Column("messages", "messages", "The whole conversation: a list of `role` and `content`."),
    Column("turns", "int", "Number of replies."),
    Column("reward", "float", "Weighted sum of the parts."),
    Column("correct", "flag", "Whether the rollout is right; None if it was not judged."),
    Column("status", "text", "Status of the verdict: `correct`, `wrong`, `no_answer` …"),
    Column("parts", "parts", "Parts of the reward: a list of `name`, `value` and `weight`."),
    Column("extracted", "text", "The text that the verifier read as the answer."),
    Column("detail", "text", "Why the verdict has its status."),
    Column("advantage", "float", "Advantage of the rollout; None if it was not trained on."),
    Column("tokens", "int", "Sampled tokens, over all turns."),
    Column("finish", "text", "Why the last reply ended: `eos`, `stop` or `length`."),
    Column("stop", "text", "Why the rollout ended."),
    Column("version", "int", "Optimiser steps behind the weights that sampled the last reply."),
    Column("source", "text", "File and line that an imported rollout comes from."),
)
"""Columns of a rollout."""

TOKENS = (
    Column("prompt_ids", "ints", "Token ids that the first reply follows."),
    Column("token_ids", "ints", "Sampled token ids, over all turns."),
    Column("logprobs", "floats", "Natural logarithm of the probability of each sampled token; None if unknown."),
    Column(
        "entropy", "floats", "Entropy in nats before each sampled token; None unless `rollout.entropy` recorded it."
    ),
)
"""Columns that are added on request, since they need more room than all others."""


def columns(tokens: bool = False) -> tuple[Column, ...]:
    """The columns of a table of rollouts. Args: tokens: with those of `TOKENS`."""
    return COLUMNS + TOKENS if tokens else COLUMNS


def rollout_table(records: Iterable[Record], tokens: bool = False) -> Iterator[dict[str, Any]]:
    """The rollouts among records, in order, each as a row that has a value for every column.

    Args: records: of a chain in order, since a rollout follows its task.
    """
    task_body: Mapping[str, Any] = {}
    for record in records:
        if record.kind == "task":
            task_body = record.body
        elif is_rollout(record.kind):
            row = rollout_row(task_body, record)
            yield row | token_columns(task_body, record.body) if tokens else row


def rollout_row(task_body: Mapping[str, Any], record: Record) -> dict[str, Any]:
    """A rollout in plain values. Args: task_body: body of its `task` record."""
    body = record.body
    turns = body.get("turns") or [{"messages": task_body["messages"], **body}]
    opening = turns[0]["messages"] or task_body["messages"]
    return {
        "split": "train" if record.kind == "rollout" else "test",
        "set": set_of(record.kind),
        "step": record.step,
        "task": record.task,
        "sample": record.sample,
        "player": body.get("player", 0),
        "task_id": clean(task_body["id"]),
        "prompt": clean("\n".join(map(text_of, opening))),
        "answer": answer_text(task_body["answer"]),
        "reply": clean(body["reply"]),
        "messages": conversation(turns, opening),
        "turns": len(turns),
        "reward": body["reward"],
        "correct": is_right(body["status"]),
        "status": body["status"],
        "parts": [{**{name: part[name] for name in ("name", "value", "weight")}} for part in body["parts"]],
        "extracted": clean(body.get("extracted")),
        "detail": clean(body.get("detail", "")),
        "advantage": body.get("advantage"),
        "tokens": body["tokens"],
        "finish": None if body["finish"] in ("", Finish.UNKNOWN) else body["finish"],
        "stop": body["stop"],
        "version": None if body["version"] < 0 else body["version"],
        "source": body.get("source"),
    }


def conversation(turns: Iterable[Mapping[str, Any]], opening: Iterable[Mapping[str, str]]) -> list[dict[str, str]]:
    """All messages of a rollout, with its replies as those of the assistant."""
    messages: list[dict[str, str]] = []
    for number, turn in enumerate(turns):
        before = turn["messages"] if number else opening
        reply = {"role": "assistant", "content": turn["reply"]}
        messages += [{"role": each["role"], "content": clean(text_of(each)) or ""} for each in (*before, reply)]
    return messages


def token_columns(task_body: Mapping[str, Any], body: Mapping[str, Any]) -> dict[str, Any]:
    first = (body.get("turns") or [{}])[0]
    own = [token for _, ids in first.get("segments", ()) for token in ids]
    return {
        "prompt_ids": first.get("prompt_ids") or own or task_body["prompt_ids"],
        "token_ids": body["token_ids"],
        "logprobs": [None if math.isnan(logp) else logp for logp in logprobs_of(body)],
        "entropy": [None if math.isnan(x) else x for x in floats_of(body, "entropy")] if "entropy" in body else None,
    }


def is_right(status: str) -> bool | None:
    return None if status in (Status.UNJUDGED, Status.FAILED) else status == Status.CORRECT


def answer_text(answer: Any) -> str | None:
    return clean(answer) if answer is None or isinstance(answer, str) else json.dumps(answer)


def clean(text: str | None) -> str | None:
    """The text in a form that UTF-8 can hold: a lone surrogate is written as its escape."""
    return None if text is None else text.encode("utf-8", "backslashreplace").decode()
