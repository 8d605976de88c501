"""A dialect: how requests and replies are written in one API."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gnomon.agents.exchange import ChatReply, ChatRequest, Refused

__all__ = ["Dialect", "Event", "compact"]

Event = tuple[str, dict[str, Any]]
"""Name and data of a server-sent event; an empty name is not sent."""


def compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """Functions between one API and `ChatRequest` and `ChatReply`. `end` is text after the last event."""

    path: str
    read: Callable[[Mapping[str, Any]], ChatRequest]
    write: Callable[[ChatRequest, ChatReply], dict[str, Any]]
    events: Callable[[ChatRequest, ChatReply], Iterator[Event]]
    error: Callable[[Refused], dict[str, Any]]
    end: str = ""
