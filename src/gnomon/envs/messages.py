"""The messages of a prompt, from the formats that data sets use."""

from __future__ import annotations

import binascii
import json
import math
import re
from base64 import b64decode
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from gnomon.images import Image
from gnomon.types import Message, ToolCall
from gnomon.verifiers.slot import require_shallow

__all__ = ["call_of", "images_of", "messages_of", "prompt_of", "require_prompt", "text_of"]

TEXTS = ("text", "input_text", "output_text")
"""Types of a part that is text."""
PICTURES = ("image", "image_url", "input_image")
"""Types of a part that is an image."""
INLINE = ("data:image/png;base64,", "data:image/jpeg;base64,")
ROLES = {"human": "user", "gpt": "assistant", "chatgpt": "assistant", "bot": "assistant", "model": "assistant"}
"""Roles by the names that conversations with the keys `from` and `value` have for them."""
SPELLED = re.compile(r"""\s*\[?\s*\{\s*(['"])(role|content|from|value)\1\s*:\s*['"\[]""")
"""How a list of messages begins that was written as text, for example into a CSV file."""


def prompt_of(value: Any) -> tuple[Message, ...]:
    """The messages of a prompt that a policy answers: the last one has text and is the user's or a tool's.

    Raises: ValueError, as `messages_of`, and for any other last message.
    """
    return require_prompt(messages_of(value), value)


def require_prompt(messages: tuple[Message, ...], value: Any) -> tuple[Message, ...]:
    """The messages, if a policy can answer them. Args: value: that they were made of. Raises: ValueError."""
    if isinstance(value, str) and SPELLED.match(value):
        raise ValueError("it is the text of a list of messages; write the list itself, as in JSON lines or Parquet")
    if messages[-1].role not in ("user", "tool"):
        raise ValueError(f"its last message has the role {messages[-1].role} and must have the role user or tool")
    if not messages[-1].content.strip():
        raise ValueError("it is empty")
    return messages


def messages_of(value: Any, folder: Path | None = None, row: str = "") -> tuple[Message, ...]:
    """Messages from a text, one message or a list of them.

    A message has `role` and `content`, or `from` and `value`. Its content is text, or a list of parts that are text or
    images. The assistant's may have `tool_calls` and `reasoning_content`, and a tool's `tool_call_id`.

    Args: folder: that names of image files are relative to; without one, parts are text; row: where the value stands,
        for the error of an image.
    Raises: ValueError for anything else: a missing content, an unknown key, no message; ConfigError
        E188 for an image that cannot be used.
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
    return tuple(message_of(each, i, folder, row) for i, each in enumerate(value))


def columns(value: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Messages from a mapping of their columns, which some tables have for a list of mappings."""
    return [dict(zip(value, row, strict=True)) for row in zip(*value.values(), strict=True)]


def message_of(value: Any, index: int, folder: Path | None = None, row: str = "") -> Message:
    """One message. Args: index: for the error; folder, row: as in `messages_of`. Raises: as `messages_of`."""
    if isinstance(value, Message):
        return value
    if not isinstance(value, Mapping):
        raise ValueError(f"message {index} must be a mapping with role and content, not {type(value).__name__}")
    who, what = ("from", "value") if "from" in value and "value" in value else ("role", "content")
    if missing := [key for key in (who, what) if key not in value]:
        raise ValueError(f"message {index} has no {missing[0]!r}; its keys are {', '.join(map(str, value))}")
    role = value[who]
    if not isinstance(role, str) or not role.strip():
        raise ValueError(f"the {who} of message {index} is {role!r:.60} and must be the name of a role")
    images: list[Image] = []

    def image(part: Any) -> str:
        if folder is None or not (isinstance(part, Mapping) and part.get("type") in PICTURES):
            return refuse_content(part)
        images.extend(images_of(part.get("image", part.get("image_url")), folder, row))
        return ""

    try:
        text = "" if value[what] is None and value.get("tool_calls") else text_of(value[what], image)
        return Message(
            role=ROLES.get(role, role),
            content=text,
            images=tuple(images),
            calls=tuple(map(call_of, value.get("tool_calls") or ())),
            call_id=str(value.get("tool_call_id") or ""),
            reasoning=value.get("reasoning_content") or None,
        )
    except ValueError as error:
        raise ValueError(f"message {index}: {error}") from error


def call_of(value: Any) -> ToolCall:
    """A call of a tool, as chats have it: `function` has a name and its arguments, as text or as a mapping.

    Raises: ValueError for anything else.
    """
    function = value.get("function", value) if isinstance(value, Mapping) else None
    name = function.get("name") if isinstance(function, Mapping) else None
    if not isinstance(name, str) or not name:
        raise ValueError(f"its tool call is {value!r:.60} and must have a function with a name and arguments")
    assert isinstance(function, Mapping)
    arguments = function.get("arguments") or {}
    text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    return ToolCall(name=name, arguments=text, id=str(value.get("id") or ""))


def images_of(value: Any, folder: Path, row: str = "") -> tuple[Image, ...]:
    """Images from the name of a file, its bytes, a mapping with `bytes`, `path` or `url`, or a list of these.

    Args: folder: that names are relative to; row: as in `messages_of`.
    Raises: ValueError for anything else; ConfigError E188, as `Image.of`.
    """
    if isinstance(value, list | tuple):
        return tuple(image for each in value for image in images_of(each, folder, row))
    if isinstance(value, Mapping):
        value = next((content for key in ("bytes", "path", "url") if (content := value.get(key))), None)
    if isinstance(value, bytes):
        return (Image.of(value, row),)
    if not isinstance(value, str) or not value:
        raise ValueError(f"its image is {value!r:.60} and must be the name of a PNG or JPEG file")
    if value.startswith(INLINE):
        try:
            return (Image.of(b64decode(value.partition(",")[2], validate=True), row),)
        except binascii.Error as error:
            raise ValueError(f"its image is not base64: {error}") from error
    if "://" in value:
        raise ValueError(f"its image is the address {value:.60}, and images are never fetched; save it as a file")
    return (Image.read(folder / value, row),)


def refuse_content(value: Any) -> str:
    """Raises: ValueError, always."""
    kind = value.get("type") if isinstance(value, Mapping) else None
    raise ValueError(f"its content has a part of the type {kind!r}" if kind else f"its content is {value!r:.60}")


def text_of(content: Any, other: Callable[[Any], str] = refuse_content) -> str:
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
