"""A rollout that other software sampled, with as much of it as was logged."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from gnomon.envs.messages import call_of, text_of
from gnomon.types import Completion, Finish, Message, Part, Task, Turn

__all__ = ["Foreign", "message", "messages_of", "number", "single_turn", "task_of", "turns_of"]

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Foreign:
    """One rollout. What was not logged is None or empty, and never 0."""

    task: Task
    turns: tuple[Turn, ...]
    source: str
    """File and line that it comes from."""
    step: int = 0
    held_out: bool = False
    """Whether it was sampled for an evaluation."""
    reward: float | None = None
    parts: tuple[Part, ...] = ()
    """They add up to the reward, as far as both are known."""
    values: Mapping[str, float | None] = field(default_factory=dict)
    """Numbers that a rule for right and wrong may name, beside `reward`; None where this rollout has none."""
    advantage: float | None = None
    policy_logp: tuple[float, ...] = ()
    """Log-probability of each sampled token under the policy that was trained, as the step began."""
    coefficients: tuple[float, ...] = ()
    """Of each sampled token: κ of its ∇log π in the gradient that is ascended."""
    failed: str = ""
    """Why it has no verdict, if its verifier or environment failed."""


def task_of(messages: Sequence[Message], answer: Any = None, own: str = "") -> Task:
    """A task. Its id is the hash of what is asked and the reference answer, unless the log has an id of its `own`."""
    content = json.dumps([[[m.role, m.text] for m in messages], answer], sort_keys=True, default=str)
    return Task(id=own or sha256(content.encode()).hexdigest()[:16], messages=tuple(messages), answer=answer)


def single_turn(
    messages: Sequence[Message],
    reply: str,
    *,
    finish: str | None = None,
    prompt_ids: Sequence[int] = (),
    token_ids: Sequence[int] = (),
    logprobs: Sequence[float | None] = (),
    entropies: Sequence[float | None] = (),
    version: int = -1,
) -> tuple[Turn, ...]:
    """The one turn of a rollout. Args: logprobs, entropies: None or nothing where they are unknown."""
    completion = Completion(
        token_ids=tuple(token_ids),
        logprobs=per_token(logprobs, len(token_ids)) or (math.nan,) * len(token_ids),
        text=reply,
        finish=finish_of(finish),
        version=version,
        entropies=per_token(entropies, len(token_ids)),
    )
    return (Turn(prompt_ids=tuple(prompt_ids), completion=completion, messages=tuple(messages)),)


def per_token(values: Sequence[float | None], count: int) -> tuple[float, ...]:
    """A number for each token, NaN where it is unknown; nothing unless there are as many numbers as tokens."""
    numbers = tuple(math.nan if value is None else float(value) for value in values)
    return numbers if len(numbers) == count else ()


def turns_of(messages: Sequence[Message], finish: str | None = None) -> tuple[tuple[Message, ...], tuple[Turn, ...]]:
    """What a conversation begins with, and its turns: each is a message of the assistant, and what stands before it.

    Args: finish: of the last reply. What follows the last reply is left out.
    """
    turns: list[Turn] = []
    before: list[Message] = []
    replies = sum(each.role == "assistant" for each in messages)
    for each in messages:
        if each.role != "assistant":
            before.append(each)
            continue
        last = finish if len(turns) + 1 == replies else None
        turns += single_turn(before, each.text, finish=last)
        before = []
    return (turns[0].messages if turns else tuple(before)), tuple(turns)


FINISHES = {
    "length": Finish.LENGTH, "max_tokens": Finish.LENGTH, "model_length": Finish.LENGTH,
    "stop": Finish.STOP, "eos": Finish.EOS, "tool_calls": Finish.STOP, "end_turn": Finish.EOS,
}  # fmt: skip


def finish_of(name: str | None) -> Finish:
    """Why a reply ended, by the name that another program has for it."""
    return FINISHES.get(name or "", Finish.UNKNOWN)


def message(row: Row) -> Message:
    """A chat message. Parts of the content that are no text, such as images, are kept as JSON."""
    content = row.get("content")
    text = "" if content is None else text_of(content, log_text)
    calls = row.get("tool_calls") or []
    try:
        parsed_calls = tuple(map(call_of, calls))
    except ValueError:
        text, parsed_calls = "\n".join(filter(None, [text, json.dumps(calls, default=str)])), ()
    return Message(
        role=str(row.get("role", "user")), content=text, calls=parsed_calls, call_id=str(row.get("tool_call_id") or "")
    )


def log_text(part: Any) -> str:
    """A part of another kind: its text, such as that of reasoning, or the whole as JSON."""
    text = part.get("text") if isinstance(part, Mapping) else None
    return text if isinstance(text, str) else json.dumps(part, default=str)


def messages_of(value: Any, role: str) -> tuple[Message, ...]:
    """Messages from a text, a number or a list of chat messages. Args: role: who says a text."""
    if isinstance(value, str | int | float):
        return (Message(role=role, content=str(value)),)
    return tuple(message(each) for each in value)


def number(value: Any) -> float | None:
    """A value as a number; None for what is absent or not finite, and for texts."""
    if not isinstance(value, bool | int | float):
        return None
    try:
        result = float(value)
    except OverflowError:
        return None
    return result if math.isfinite(result) else None


def parts_of(values: Iterable[tuple[str, float | None]], weights: Mapping[str, float]) -> tuple[Part, ...]:
    """The values that are known, as parts of a reward; the weight of a part is 1 unless one is named."""
    return tuple(
        Part(name=name, value=value, weight=weights.get(name, 1.0)) for name, value in values if value is not None
    )
