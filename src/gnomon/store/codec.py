"""Encode rollouts as records and decode them, for replay, readers, alarms and training from recorded rollouts.

A group is a `task` record, one record per rollout, and one of kind `greedy` for its greedy rollout. A rollout with one
turn and the task's prompt is stored flat; any other has `turns`. Log-probabilities are little-endian floats in base64:
4 bytes each if that is exact, else 8; entropies have 2.
"""

from __future__ import annotations

import sys
from array import array
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from itertools import islice
from math import isfinite, isnan, nan
from struct import pack, unpack
from typing import Any

from gnomon.errors import RunError
from gnomon.images import Image
from gnomon.store.layout import Record
from gnomon.types import (
    Calls,
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
    ToolCall,
    Turn,
    Verdict,
)

__all__ = [
    "GREEDY",
    "decode",
    "encode",
    "floats_of",
    "halves",
    "logprobs_of",
    "pack_floats",
    "rollout_of",
    "task_of",
    "text_of",
    "verdict_of",
]

Body = Mapping[str, Any]
GREEDY = "greedy"
"""Kind of the record of a group's greedy rollout."""


def encode(group: Group, *, kind: str, step: int) -> Iterator[Record]:
    """The records of a group. Args: kind: `rollout` for a group of training, `held_out` for one of an evaluation."""
    first = next((rollout.turns[0] for rollout in group.rollouts if rollout.turns), None)
    yield Record(kind="task", step=step, task=group.index, body=task_body(group, first, kind))
    for rollout in group.rollouts:
        body = {**rollout_body(rollout, first), **replay_mark(group)}
        yield Record(kind=kind, step=step, task=group.index, sample=rollout.sample, body=body)
    if group.greedy is not None:
        body = rollout_body(group.greedy, first)
        yield Record(kind=GREEDY, step=step, task=group.index, sample=group.greedy.sample, body=body)


def decode(records: Iterable[Record], tasks: Callable[[str, int], Task] | None = None) -> Iterator[Group]:
    """Decode the groups in some records, in order. Records of other kinds are skipped.

    Args:
        tasks: returns the task at an index of a split, `train` or `test`. Without it, a task is built from its record:
            it has no `info`, and an `answer` that is not JSON is replaced by the name of its type.
    Raises: RunError E405 for a damaged record; E142 if `tasks` returns another task than the recorded one.
    """
    task_record: Record | None = None
    records_of_group: list[Record] = []
    for record in records:
        if record.kind == "task":
            if task_record is not None:
                yield group_of(task_record, records_of_group, tasks)
            task_record, records_of_group = record, []
        elif task_record is not None and record.kind in (task_record.body.get("of"), GREEDY):
            records_of_group.append(record)
    if task_record is not None:
        yield group_of(task_record, records_of_group, tasks)


def group_of(task_record: Record, records: Sequence[Record], tasks: Callable[[str, int], Task] | None) -> Group:
    assert task_record.task is not None
    task = task_of(task_record) if tasks is None else known_task(task_record, tasks)
    rollouts = tuple(rollout_of(task_record, record, task) for record in records if record.kind != GREEDY)
    greedy = next((rollout_of(task_record, record, task) for record in records if record.kind == GREEDY), None)
    spare = bool(task_record.body.get("spare"))
    seed, step = task_record.body.get("replayed", (None, None))
    replayed = None if step is None else (seed, step)
    return Group(task=task, index=task_record.task, rollouts=rollouts, spare=spare, greedy=greedy, replayed=replayed)


def replay_mark(group: Group) -> dict[str, Any]:
    """What the records of a group say about where it was sampled, unless this step sampled it."""
    return {} if group.replayed is None else {"replayed": list(group.replayed)}


def known_task(task_record: Record, tasks: Callable[[str, int], Task]) -> Task:
    """The environment's task for a record. Raises: RunError E142 if it differs from the recorded one."""
    assert task_record.task is not None
    split = "train" if task_record.body["of"] == "rollout" else "test"
    task = tasks(split, task_record.task)
    if task.id != task_record.body["id"]:
        why = f"the run recorded {task_record.body['id']}, and now its id is {task.id}"
        raise RunError(
            "E142", f"{split} task {task_record.task} differs from the recorded one", where=task_record.place, why=why
        )
    return task


def task_body(group: Group, first: Turn | None, kind: str) -> dict[str, Any]:
    """The body of a task, with the first prompt of its rollouts. Args: first: the turn with that prompt."""
    marks = {"canary": bool(group.task.info.get("canary")), "spare": group.spare}
    return {
        **{name: True for name, holds in marks.items() if holds},
        **replay_mark(group),
        "of": kind,
        "id": group.task.id,
        "messages": plain_messages(group.task.messages),
        "answer": plain(group.task.answer),
        "prompt_ids": [] if first is None else list(first.prompt_ids),
        "origins": [[segment.origin.value, len(segment.token_ids)] for segment in (first.segments if first else ())],
    }


def rollout_body(rollout: Rollout, first: Turn | None) -> dict[str, Any]:
    """The body of a rollout. Tokens and log-probabilities of all turns are concatenated."""
    verdict, turns = rollout.verdict, rollout.turns
    completions = [turn.completion for turn in turns]
    body = {
        "reply": rollout.text,
        "token_ids": [token for completion in completions for token in completion.token_ids],
        "logprobs": pack_floats([logp for completion in completions for logp in completion.logprobs]),
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
    if verdict.feedback:
        body["feedback"] = verdict.feedback
    if any(completion.entropies for completion in completions):
        per_turn = (completion.entropies or (nan,) * len(completion.token_ids) for completion in completions)
        body["entropy"] = halves([entropy for entropies in per_turn for entropy in entropies])
    if rollout.end:
        body["end"] = rollout.end
    if counts := {name: count for name, count in asdict(rollout.calls).items() if count}:
        body["calls"] = counts
    if not is_flat(rollout, first):
        body |= {"player": rollout.player, "turns": list(turn_bodies(turns))}
    elif completions[0].changes:
        body["changes"] = list_versions(completions[0])
    return body


def is_flat(rollout: Rollout, first: Turn | None) -> bool:
    """Whether a rollout is one turn of player 0 whose prompt is in the task's record."""
    if len(rollout.turns) != 1 or rollout.player or first is None:
        return False
    (turn,) = rollout.turns
    same = (turn.prompt_ids, turn.segments, turn.fork) == (first.prompt_ids, first.segments, 0)
    return same and turn.messages == rollout.task.messages and join(turn.segments) in ((), turn.prompt_ids)


def turn_bodies(turns: Sequence[Turn]) -> Iterator[dict[str, Any]]:
    """The bodies of turns: the tokens that each adds to the turn before, or to a new sequence (`fork`)."""
    before: Turn | None = None
    for turn in turns:
        expected = earlier_tokens(before, turn.fork) + join(turn.segments)
        yield {
            "messages": plain_messages(turn.messages),
            "segments": [[segment.origin.value, list(segment.token_ids)] for segment in turn.segments],
            "tokens": len(turn.completion.token_ids),
            "reply": turn.completion.text,
            "finish": turn.completion.finish.value,
            "version": turn.completion.version,
            "fork": turn.fork,
            **({} if turn.prompt_ids == expected else {"prompt_ids": list(turn.prompt_ids)}),
            **({"changes": list_versions(turn.completion)} if turn.completion.changes else {}),
        }
        before = turn


def list_versions(completion: Completion) -> list[list[int]]:
    """Where the weights changed, as JSON."""
    return [list(change) for change in completion.changes]


def task_of(record: Record) -> Task:
    """The task as it was recorded."""
    with damage(record):
        return Task(
            id=record.body["id"],
            messages=messages_of(record.body["messages"]),
            answer=record.body["answer"],
            info={"canary": True} if record.body.get("canary") else {},
        )


def rollout_of(task_record: Record, record: Record, task: Task | None = None) -> Rollout:
    """Decode a rollout. Args: task_record: its `task` record; task: the task to use instead of the recorded one."""
    with damage(record):
        body = record.body
        task = task or task_of(task_record)
        flat = {**body, "messages": None, "fork": 0}
        turns = body.get("turns", [flat])
        assert record.sample is not None
        return Rollout(
            task=task,
            sample=record.sample,
            turns=tuple(turns_of(task_record.body, body, turns)),
            verdict=verdict_of(record),
            stop=Stop(body["stop"]),
            player=body.get("player", 0),
            end=body.get("end", ""),
            calls=Calls(**body.get("calls", {})),
        )


def turns_of(task: Body, body: Body, turns: Sequence[Body]) -> Iterator[Turn]:
    tokens, logprobs = iter(body["token_ids"]), iter(logprobs_of(body))
    entropies = iter(floats_of(body, "entropy") if "entropy" in body else ())
    before: Turn | None = None
    for turn in turns:
        count, fork = turn["tokens"], turn["fork"]
        completion = Completion(
            token_ids=tuple(islice(tokens, count)),
            logprobs=tuple(islice(logprobs, count)),
            text=turn["reply"],
            finish=Finish(turn["finish"]),
            version=turn.get("version", body["version"]),
            changes=tuple((index, version) for index, version in turn.get("changes", ())),
            entropies=known_of(islice(entropies, count)),
        )
        if turn["messages"] is None:
            messages, segments, prompt = messages_of(task["messages"]), opening_of(task), tuple(task["prompt_ids"])
        else:
            messages, segments = messages_of(turn["messages"]), segments_of(turn)
            prompt = (
                tuple(turn["prompt_ids"]) if "prompt_ids" in turn else earlier_tokens(before, fork) + join(segments)
            )
        before = Turn(prompt_ids=prompt, completion=completion, messages=messages, segments=segments, fork=fork)
        yield before


def known_of(values: Iterable[float]) -> tuple[float, ...]:
    """The values, or nothing where none is known."""
    numbers = tuple(values)
    return () if all(map(isnan, numbers)) else numbers


def verdict_of(record: Record) -> Verdict:
    """The verdict of a rollout. Raises: RunError E405."""
    with damage(record):
        body = record.body
        span = body.get("span")
        names = {part["name"] for part in body["parts"]}
        gated = [{**part, "gate": part["gate"] if part["gate"] in names else None} for part in body["parts"]]
        return Verdict(
            status=Status(body["status"]),
            parts=tuple(Part(**part) for part in gated),
            extracted=body.get("extracted"),
            span=tuple(span) if span else None,
            detail=body.get("detail", ""),
            feedback=body.get("feedback", ""),
        )


def pack_floats(logprobs: Sequence[float]) -> str:
    """Numbers in base64, with 4 bytes each if that is exact for all."""
    wide, narrow = array("d", logprobs), array("f", logprobs)
    exact = all(a == b or a != a for a, b in zip(narrow, wide, strict=True))
    return b64encode(little_endian(narrow if exact else wide).tobytes()).decode()


def halves(values: Sequence[float]) -> str:
    """Numbers of at most 65,504 in base64, rounded to float16: 2 bytes each, within 1 in 2,048."""
    return b64encode(pack(f"<{len(values)}e", *values)).decode()


def logprobs_of(body: Body) -> list[float]:
    """The log-probabilities of all turns of a stored rollout."""
    return floats_of(body, "logprobs")


def floats_of(body: Body, name: str) -> list[float]:
    """Numbers of a stored rollout, one per token of all its turns. Args: name: the key in the record."""
    data, count = b64decode(body[name]), len(body["token_ids"])
    if len(data) == 2 * count:
        return list(unpack(f"<{count}e", data))
    values = array("d" if count and len(data) == 8 * count else "f")
    values.frombytes(data)
    return list(little_endian(values))


def little_endian(values: array[float]) -> array[float]:
    if sys.byteorder == "big":
        values.byteswap()
    return values


def plain(value: Any) -> Any:
    """A JSON value, with tuples as lists; any other value becomes the name of its type.

    The text of an arbitrary object could differ between runs.
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


def plain_messages(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Messages as JSON, with images by their hash."""
    return [message_body(message) for message in messages]


def message_body(message: Message) -> dict[str, Any]:
    more = {
        "images": [image.sha256 for image in message.images],
        "calls": [{"name": call.name, "arguments": call.arguments, "id": call.id} for call in message.calls],
        "call_id": message.call_id,
        "reasoning": message.reasoning,
    }
    return {"role": message.role, "content": message.content} | {name: value for name, value in more.items() if value}


def messages_of(messages: Sequence[Body]) -> tuple[Message, ...]:
    return tuple(map(message_of, messages))


def message_of(body: Body) -> Message:
    """The message as it was recorded."""
    return Message(
        role=body["role"],
        content=body["content"],
        images=tuple(map(Image, body.get("images", ()))),
        calls=tuple(ToolCall(**call) for call in body.get("calls", ())),
        call_id=body.get("call_id", ""),
        reasoning=body.get("reasoning"),
    )


def text_of(body: Body) -> str:
    """The content of a recorded message, with its calls as text."""
    return message_of(body).text


def join(segments: Sequence[Segment]) -> tuple[int, ...]:
    return tuple(token for segment in segments for token in segment.token_ids)


def earlier_tokens(before: Turn | None, fork: int) -> tuple[int, ...]:
    """The tokens before a turn's segments: all of the turn before, or nothing at the start of a sequence."""
    if before is None or before.fork != fork:
        return ()
    return before.prompt_ids + before.completion.token_ids


def opening_of(task: Body) -> tuple[Segment, ...]:
    """The prompt of a task as segments by origin; empty if the origins were not recorded."""
    tokens = iter(task["prompt_ids"])
    return tuple(
        Segment(origin=Origin(origin), token_ids=tuple(islice(tokens, count)))
        for origin, count in task.get("origins", ())
    )


def segments_of(turn: Body) -> tuple[Segment, ...]:
    return tuple(Segment(origin=Origin(origin), token_ids=tuple(ids)) for origin, ids in turn["segments"])


@contextmanager
def damage(record: Record) -> Iterator[None]:
    """Turn decoding errors into RunError E405."""
    try:
        yield
    except (KeyError, IndexError, TypeError, ValueError) as error:
        what = f"record {record.seq} ({record.place}) is damaged"
        raise RunError("E405", what, why=f"it cannot be read: {type(error).__name__}: {error}") from error
