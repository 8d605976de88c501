"""Tasks, steps and verdicts as JSON, for environments in another process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from gnomon.envs.base import Step
from gnomon.envs.messages import call_of
from gnomon.keys import Key
from gnomon.types import Message, Part, Status, Task, Verdict

__all__ = ["key_json", "read_key", "read_messages", "read_step", "step_json", "task_json"]


def task_json(task: Task) -> dict[str, Any]:
    """The parts of a task that a player may see, without its answer and its `info`."""
    return {"id": task.id, "messages": [message.body for message in task.messages]}


def step_json(step: Step) -> dict[str, Any]:
    verdicts = step.verdicts or ((step.verdict,) if step.verdict is not None else ())
    return {
        "messages": [message.body for message in step.messages],
        "done": step.done,
        "player": step.player,
        "illegal": step.illegal,
        "tokens": step.tokens,
        "verdicts": [{**asdict(verdict), "reward": verdict.reward} for verdict in verdicts],
    }


def key_json(key: Key) -> dict[str, Any]:
    return {"seed": key.seed, "path": list(key.path)}


def read_key(data: Mapping[str, Any]) -> Key:
    """Parse a key. Raises: ValueError or KeyError for invalid data."""
    seed, path = data["seed"], data["path"]
    if type(seed) is not int or not isinstance(path, list) or not all(isinstance(part, str) for part in path):
        raise ValueError("a key is a whole number and a list of texts")
    return Key(seed, tuple(path))


def read_messages(data: Any) -> tuple[Message, ...]:
    return tuple(
        Message(
            role=str(one["role"]),
            content=str(one["content"]),
            calls=tuple(map(call_of, one.get("tool_calls") or ())),
            call_id=str(one.get("tool_call_id") or ""),
            reasoning=one.get("reasoning_content"),
        )
        for one in data
    )


def read_step(data: Mapping[str, Any]) -> Step:
    """Parse a step. Raises: KeyError, TypeError or ValueError for invalid data."""
    verdicts = tuple(read_verdict(one) for one in data["verdicts"])
    return Step(
        messages=read_messages(data["messages"]),
        done=bool(data["done"]),
        player=int(data["player"]),
        illegal=bool(data.get("illegal")),
        tokens=None if data.get("tokens") is None else int(data["tokens"]),
        verdict=verdicts[0] if len(verdicts) == 1 else None,
        verdicts=verdicts if len(verdicts) > 1 else (),
    )


def read_verdict(data: Mapping[str, Any]) -> Verdict:
    span = data["span"]
    return Verdict(
        status=Status(data["status"]),
        parts=tuple(Part(**part) for part in data["parts"]),
        extracted=data["extracted"],
        span=(int(span[0]), int(span[1])) if span is not None else None,
        detail=str(data["detail"]),
        feedback=str(data.get("feedback", "")),
    )
