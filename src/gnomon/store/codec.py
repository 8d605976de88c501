"""Rollouts as records, and back: one form for replay, readers, alarms and training from recorded rollouts.

A group is a `task` record and a record for each of its rollouts. A rollout of one turn whose prompt is the task's own
is stored flat; any other has `turns`. Log-probabilities are little-endian floats in base64, of 4 bytes where that is
exact and of 8 where it is not. `decode` also reads what earlier versions wrote: they named `player` `seat` and
`segments` `given`, wrote "" and [] for what is absent, and kept neither who wrote a task's prompt nor the version of
the weights turn by turn.
"""

from __future__ import annotations

import sys
from array import array
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from math import isfinite
from typing import Any

from gnomon.errors import RunError
from gnomon.store.layout import Record
from gnomon.types import (
    Completion,
    Finish,
    Group,
    Message,
    Origin,
    Part,
    Rollout,
    Segment,
    Status,
    Stop,
    Task,
    Turn,
    Verdict,
)

__all__ = ["decode", "encode", "floats_of", "logprobs_of", "packed", "rollout_of", "task_of", "verdict_of"]

Body = Mapping[str, Any]


def encode(group: Group, *, kind: str, step: int) -> Iterator[Record]:
    """The records of a group. Args: kind: `rollout` for a group of training, `held_out` for one of an evaluation."""
    first = next((rollout.turns[0] for rollout in group.rollouts if rollout.turns), None)
    yield Record(kind="task", step=step, task=group.index, body=task_body(group, first, kind))
    for rollout in group.rollouts:
        body = rollout_body(rollout, first)
        yield Record(kind=kind, step=step, task=group.index, sample=rollout.sample, body=body)


def decode(records: Iterable[Record], tasks: Callable[[str, int], Task] | None = None) -> Iterator[Group]:
    """The groups among records, in order; records of other kinds are passed over.

    Args:
        tasks: the task at an index of a split, `train` or `test`. Without it, a task has what was recorded: no `info`,
            and of an `answer` that JSON cannot hold the name of its type.
    Raises: RunError E405 for a record that is damaged; E142 where `tasks` gives another task than was recorded.
    """
    asked: Record | None = None
    found: list[Record] = []
    for record in records:
        if record.kind == "task":
            if asked is not None:
                yield group_of(asked, found, tasks)
            asked, found = record, []
        elif asked is not None and record.kind == asked.body.get("of"):
            found.append(record)
    if asked is not None:
        yield group_of(asked, found, tasks)


def group_of(asked: Record, records: Sequence[Record], tasks: Callable[[str, int], Task] | None) -> Group:
    assert asked.task is not None
    task = task_of(asked) if tasks is None else known_task(asked, tasks)
    rollouts = tuple(rollout_of(asked, record, task) for record in records)
    return Group(task=task, index=asked.task, rollouts=rollouts, spare=bool(asked.body.get("spare")))


def known_task(asked: Record, tasks: Callable[[str, int], Task]) -> Task:
    """The task that the environment has where a record was made. Raises: RunError E142 for another one."""
    assert asked.task is not None
    split = "train" if asked.body["of"] == "rollout" else "test"
    task = tasks(split, asked.task)
    if task.id != asked.body["id"]:
        why = f"the run recorded {asked.body['id']}, and now its id is {task.id}"
        raise RunError("E142", f"{split} task {asked.task} is not what it was", where=asked.place, why=why)
    return task


def task_body(group: Group, first: Turn | None, kind: str) -> dict[str, Any]:
    """A task, and the prompt that its rollouts begin with. Args: first: the turn that is taken from."""
    marks = {"canary": bool(group.task.info.get("canary")), "spare": group.spare}
    return {
        **{name: True for name, holds in marks.items() if holds},
        "of": kind,
        "id": group.task.id,
        "messages": plain_messages(group.task.messages),
        "answer": plain(group.task.answer),
        "prompt_ids": [] if first is None else list(first.prompt_ids),
        "origins": [[segment.origin.value, len(segment.token_ids)] for segment in (first.given if first else ())],
    }


def rollout_body(rollout: Rollout, first: Turn | None) -> dict[str, Any]:
    """A rollout in plain values; tokens and log-probabilities are of all its turns, laid end to end."""
    verdict, turns = rollout.verdict, rollout.turns
    completions = [turn.completion for turn in turns]
    body = {
        "reply": rollout.text,
        "token_ids": [token for completion in completions for token in completion.token_ids],
        "logprobs": packed([logp for completion in completions for logp in completion.logprobs]),
        "tokens": rollout.tokens,
        "finish": completions[-1].finish.value if turns else "",
        "stop": rollout.stop.value,
        "version": completions[-1].version if turns else -1,
        "reward": verdict.reward,
        "status": verdict.status.value,
        "parts": [{"name": p.name, "value": p.value, "weight": p.weight, "gate": p.gate} for p in verdict.parts],
        "extracted": verdict.extracted,
        "span": None if verdict.span is None else list(verdict.span),
        "detail": verdict.detail,
    }
    if not is_flat(rollout, first):
        body |= {"player": rollout.player, "turns": list(turn_bodies(turns))}
    return body


def is_flat(rollout: Rollout, first: Turn | None) -> bool:
    """Whether a rollout is one turn of the first player, and its prompt is what the record of the task holds."""
    if len(rollout.turns) != 1 or rollout.player or first is None:
        return False
    (turn,) = rollout.turns
    same = (turn.prompt_ids, turn.given, turn.fork) == (first.prompt_ids, first.given, 0)
    return same and turn.messages == rollout.task.messages and joined(turn.given) in ((), turn.prompt_ids)


def turn_bodies(turns: Sequence[Turn]) -> Iterator[dict[str, Any]]:
    """What each turn adds to the tokens of the turn before, or of a new sequence, its `fork`."""
    before: Turn | None = None
    for turn in turns:
        expected = continued(before, turn.fork) + joined(turn.given)
        yield {
            "messages": plain_messages(turn.messages),
            "segments": [[segment.origin.value, list(segment.token_ids)] for segment in turn.given],
            "tokens": len(turn.completion.token_ids),
            "reply": turn.completion.text,
            "finish": turn.completion.finish.value,
            "version": turn.completion.version,
            "fork": turn.fork,
            **({} if turn.prompt_ids == expected else {"prompt_ids": list(turn.prompt_ids)}),
        }
        before = turn


def task_of(asked: Record) -> Task:
    """The task as it was recorded."""
    with damage(asked):
        return Task(
            id=asked.body["id"],
            messages=messages_of(asked.body["messages"]),
            answer=asked.body["answer"],
            info={"canary": True} if asked.body.get("canary") else {},
        )


def rollout_of(asked: Record, record: Record, task: Task | None = None) -> Rollout:
    """A rollout. Args: asked: the `task` record before it; task: the task, if not as recorded."""
    with damage(record):
        body = record.body
        task = task or task_of(asked)
        flat = {**body, "messages": None, "fork": 0}
        turns = body.get("turns", [flat])
        assert record.sample is not None
        return Rollout(
            task=task,
            sample=record.sample,
            turns=tuple(turns_of(asked.body, body, turns)),
            verdict=verdict_of(record),
            stop=Stop(body["stop"]),
            player=body.get("player", body.get("seat", 0)),
        )


def turns_of(asked: Body, body: Body, turns: Sequence[Body]) -> Iterator[Turn]:
    tokens, logprobs = iter(body["token_ids"]), iter(logprobs_of(body))
    before: Turn | None = None
    for turn in turns:
        count, fork = turn["tokens"], turn["fork"]
        completion = Completion(
            token_ids=tuple(islice(tokens, count)),
            logprobs=tuple(islice(logprobs, count)),
            text=turn["reply"],
            finish=Finish(turn["finish"]),
            version=turn.get("version", body["version"]),
        )
        if turn["messages"] is None:
            told, given, prompt = messages_of(asked["messages"]), opening_of(asked), tuple(asked["prompt_ids"])
        else:
            told, given = messages_of(turn["messages"]), segments_of(turn)
            prompt = tuple(turn["prompt_ids"]) if "prompt_ids" in turn else continued(before, fork) + joined(given)
        before = Turn(prompt_ids=prompt, completion=completion, messages=told, given=given, fork=fork)
        yield before


def verdict_of(record: Record) -> Verdict:
    """The verdict of a rollout. Raises: RunError E405."""
    with damage(record):
        body = record.body
        span, extracted = body.get("span"), body.get("extracted")
        names = {part["name"] for part in body["parts"]}
        gated = [{**part, "gate": part["gate"] if part["gate"] in names else None} for part in body["parts"]]
        absent = extracted == "" and span is not None and not span
        return Verdict(
            status=Status(body["status"]),
            parts=tuple(Part(**part) for part in gated),
            extracted=None if absent else extracted,
            span=tuple(span) if span else None,
            detail=body.get("detail", ""),
        )


def packed(logprobs: Sequence[float]) -> str:
    """Numbers as text, in 4 bytes each where all of them are exact in that."""
    wide, narrow = array("d", logprobs), array("f", logprobs)
    exact = all(a == b or a != a for a, b in zip(narrow, wide, strict=True))
    return b64encode(little_endian(narrow if exact else wide).tobytes()).decode()


def logprobs_of(body: Body) -> list[float]:
    """The log-probabilities of a stored rollout, of all its turns."""
    return floats_of(body, "logprobs")


def floats_of(body: Body, name: str) -> list[float]:
    """Numbers of a stored rollout, one for each of its tokens, of all its turns. Args: name: the key in the record."""
    data, count = b64decode(body[name]), len(body["token_ids"])
    values = array("d" if count and len(data) == 8 * count else "f")
    values.frombytes(data)
    return list(little_endian(values))


def little_endian(values: array[float]) -> array[float]:
    if sys.byteorder == "big":
        values.byteswap()
    return values


def plain(value: Any) -> Any:
    """A value that JSON can hold, with tuples as lists; of any other the name of its type.

    The text of an arbitrary object may differ from run to run.
    """
    return value if is_plain(value) else type(value).__name__


def is_plain(value: Any) -> bool:
    if isinstance(value, float):
        return isfinite(value)
    if isinstance(value, list | tuple):
        return all(map(is_plain, value))
    if isinstance(value, dict):
        return all(isinstance(key, str) and is_plain(each) for key, each in value.items())
    return value is None or isinstance(value, str | int)


def plain_messages(messages: Sequence[Message]) -> list[dict[str, str]]:
    return [{"role": message.role, "content": message.content} for message in messages]


def messages_of(messages: Sequence[Body]) -> tuple[Message, ...]:
    return tuple(Message(role=message["role"], content=message["content"]) for message in messages)


def joined(segments: Sequence[Segment]) -> tuple[int, ...]:
    return tuple(token for segment in segments for token in segment.token_ids)


def continued(before: Turn | None, fork: int) -> tuple[int, ...]:
    """The tokens that a turn's own segments follow: all of the turn before, unless another sequence begins."""
    if before is None or before.fork != fork:
        return ()
    return before.prompt_ids + before.completion.token_ids


def opening_of(asked: Body) -> tuple[Segment, ...]:
    """The prompt of a task by who wrote it; nothing where that was not recorded."""
    tokens = iter(asked["prompt_ids"])
    return tuple(
        Segment(origin=Origin(origin), token_ids=tuple(islice(tokens, count)))
        for origin, count in asked.get("origins", ())
    )


def segments_of(turn: Body) -> tuple[Segment, ...]:
    written = turn["segments"] if "segments" in turn else turn["given"]
    return tuple(Segment(origin=Origin(origin), token_ids=tuple(ids)) for origin, ids in written)


@contextmanager
def damage(record: Record) -> Iterator[None]:
    """Raises: RunError E405 for a record that does not hold what it should."""
    try:
        yield
    except (KeyError, IndexError, TypeError, ValueError) as error:
        what = f"record {record.seq} ({record.place}) is damaged"
        raise RunError("E405", what, why=f"it cannot be read: {type(error).__name__}: {error}") from error
