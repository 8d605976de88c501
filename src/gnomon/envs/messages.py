"""The messages of a prompt, from the formats that data sets use."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any

from gnomon.types import Message
from gnomon.verifiers.slot import require_shallow

__all__ = ["messages_of", "prompt_of", "text_of"]

TEXTS = ("text", "input_text", "output_text")
"""Types of a part that is text."""
ROLES = {"human": "user", "gpt": "assistant", "chatgpt": "assistant", "bot": "assistant", "model": "assistant"}
"""Roles by the names that conversations with the keys `from` and `value` have for them."""
SPELLED = re.compile(r"""\s*\[?\s*\{\s*(['"])(role|content|from|value)\1\s*:\s*['"\[]""")
"""How a list of messages begins that was written as text, for example into a CSV file."""


def prompt_of(value: Any) -> tuple[Message, ...]:
    """The messages of a prompt that a policy answers: the last one has text and is the user's.

    Raises: ValueError, as `messages_of`, and for any other last message.
    """
    messages = messages_of(value)
    if isinstance(value, str) and SPELLED.match(value):
        raise ValueError("it is the text of a list of messages; write the list itself, as in JSON lines or Parquet")
    if messages[-1].role != "user":
        raise ValueError(f"its last message has the role {messages[-1].role} and must have the role user")
    if not messages[-1].content.strip():
        raise ValueError("it is empty")
    return messages


def messages_of(value: Any) -> tuple[Message, ...]:
    """Messages from a text, one message or a list of them.

    A message has `role` and `content`, or `from` and `value`. Its content is text, or a list of parts that are text.

    Raises: ValueError for anything else: an image, a call of a tool, a missing content, an unknown key, no message.
    """
    if callable(getattr(value, "tolist", None)):  # An array or a scalar of numpy.
        value = value.tolist()
    require_shallow(value, "it")
    if isinstance(value, Mapping | Message):
        value = columns(value) if isinstance(value, Mapping) and isinstance(value.get("role"), list) else [value]
    if not isinstance(value, list | tuple):
        return (Message(role="user", content=text_of(value)),)
    if not value:
        raise ValueError("it is empty")
    return tuple(message_of(each, place) for place, each in enumerate(value))


def columns(value: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Messages from a mapping of their columns, which some tables have for a list of mappings."""
    return [dict(zip(value, row, strict=True)) for row in zip(*value.values(), strict=True)]


def message_of(value: Any, place: int) -> Message:
    """One message. Args: place: its index, for the error. Raises: ValueError."""
    if isinstance(value, Message):
        return value
    if not isinstance(value, Mapping):
        raise ValueError(f"message {place} must be a mapping with role and content, not {type(value).__name__}")
    who, what = ("from", "value") if "from" in value and "value" in value else ("role", "content")
    if missing := [key for key in (who, what) if key not in value]:
        raise ValueError(f"message {place} has no {missing[0]!r}; its keys are {', '.join(map(str, value))}")
    role = value[who]
    if not isinstance(role, str) or not role.strip():
        raise ValueError(f"the {who} of message {place} is {role!r:.60} and must be the name of a role")
    if value.get("tool_calls"):
        raise ValueError(f"message {place} has tool_calls, and a prompt is text")
    try:
        return Message(role=ROLES.get(role, role), content=text_of(value[what]))
    except ValueError as error:
        raise ValueError(f"message {place}: {error}") from error


def refused(value: Any) -> str:
    """Raises: ValueError, always."""
    kind = value.get("type") if isinstance(value, Mapping) else None
    raise ValueError(f"its content has a part of the type {kind!r}" if kind else f"its content is {value!r:.60}")


def text_of(content: Any, other: Callable[[Any], str] = refused) -> str:
    """The text of a content: a text, a number, or a list of parts.

    Args: other: returns the text of a part that is not text.
    Raises: ValueError, by default for such a part, and for half of a surrogate pair, which no tokenizer reads.
    """
    if isinstance(content, list | tuple):
        return "".join(text_of(part, other) for part in content)
    if isinstance(content, Mapping) and content.get("type", "text") in TEXTS and isinstance(content.get("text"), str):
        content = content["text"]
    if isinstance(content, int | float) and not isinstance(content, bool) and math.isfinite(content):
        content = str(content)
    if not isinstance(content, str):
        return other(content)
    if not content.isascii() and any("\ud800" <= letter <= "\udfff" for letter in content):
        raise ValueError("its text has half of a surrogate pair")
    return content
