"""Read the fields of a request's body. What cannot be trained is refused by name."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gnomon.agents.exchange import Refused
from gnomon.types import Tool

__all__ = ["Body", "absent", "choice", "entries", "number", "stops", "table", "text_of", "tool_of"]

Body = Mapping[str, Any]


def absent(body: Body, *names: str, why: str) -> None:
    """Raises: Refused if one of these fields is set."""
    for name in names:
        if body.get(name):
            raise Refused(f"{name} is not supported: {why}", code=f"unsupported_{name}")


def entries(value: Any, name: str) -> Sequence[Body]:
    """A list of objects."""
    if not isinstance(value, list) or not all(isinstance(entry, Mapping) for entry in value):
        raise Refused(f"{name} must be a list of objects", code="invalid_request")
    return value


def table(body: Body, name: str) -> Body:
    """A field that is an object; empty if it is not set. Raises: Refused."""
    value = body.get(name) or {}
    if not isinstance(value, Mapping):
        raise Refused(f"{name} must be an object", code="invalid_request")
    return value


def number(body: Body, *names: str, least: int | None = 1) -> int | None:
    """The first of these fields that is set: a whole number, at least `least`. Raises: Refused."""
    for name in names:
        value = body.get(name)
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int) or (least is not None and value < least):
            kind = "a whole number" if least is None else "a positive whole number"
            raise Refused(f"{name} must be {kind}, but it is {value!r:.100}", code="invalid_request")
        return value
    return None


def stops(value: Any) -> tuple[str, ...]:
    texts = [value] if isinstance(value, str) else value or []
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise Refused("stop must be a text or a list of texts", code="invalid_request")
    return tuple(text for text in texts if text)


def text_of(content: Any, kinds: Iterable[str] = ("text", "input_text", "output_text")) -> str:
    """The text of a message's content: a text, null, or parts of these kinds. Raises: Refused for other parts."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    texts = []
    for part in entries(content, "content"):
        kind = part.get("type", "text")
        if kind not in kinds:
            raise Refused(f"content of type {kind!r} is not supported in such a message", code="unsupported_content")
        texts.append(str(part.get("text", "")))
    return "".join(texts)


def tool_of(name: Any, description: Any, parameters: Any) -> Tool:
    if not isinstance(name, str) or not name:
        raise Refused("a tool has no name", code="invalid_request")
    schema = parameters if isinstance(parameters, Mapping) else {"type": "object", "properties": {}}
    return Tool(name=name, description=str(description or ""), parameters=schema)


def choice(value: Any) -> tuple[bool, bool]:
    """Whether calls are read from the reply, and whether the program demands one. Raises: Refused for a named tool."""
    kind = value.get("type") if isinstance(value, Mapping) else value
    if kind in (None, "auto"):
        return True, False
    if kind == "none":
        return False, False
    if kind in ("required", "any"):
        return True, True
    raise Refused(
        f"tool_choice {json.dumps(value)} is not supported: a forced call is not sampled from the policy",
        code="unsupported_tool_choice",
    )
