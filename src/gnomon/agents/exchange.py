"""One request of a program and its reply, free of the dialect in which they travel."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gnomon.rendering import Parsing, Reply
from gnomon.types import Completion, Finish, Message, Tool

__all__ = ["CalledTool", "ChatMessage", "ChatReply", "ChatRequest", "Refused", "in_call_order", "reply_message"]


class Refused(Exception):
    """The endpoint does not serve a request, and would not serve it again.

    Args: status: HTTP status, one that clients do not retry; code: machine-readable name of the reason.
    """

    def __init__(self, message: str, *, status: int = 400, code: str = "unsupported") -> None:
        super().__init__(message)
        self.message, self.status, self.code = message, status, code


@dataclass(frozen=True, slots=True, kw_only=True)
class CalledTool:
    """One tool call of an assistant message."""

    id: str
    name: str
    arguments: str
    """The text of the arguments: as sampled, or as the program wrote it."""

    @property
    def meaning(self) -> str:
        """Name and arguments, equal for texts that differ only in JSON's spaces, key order and escapes."""
        return json.dumps([self.name, value_of(self.arguments)], sort_keys=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatMessage:
    """One message of a request or a reply."""

    role: str
    """`system`, `user`, `assistant` or `tool`."""
    content: str = ""
    reasoning: str | None = None
    calls: tuple[CalledTool, ...] = ()
    call_id: str = ""
    """Of a tool's message: the id of the call that it answers."""

    @property
    def meaning(self) -> str:
        """What two messages have in common that stand for the same tokens, reasoning aside.

        Clients trim the text of replies and write arguments anew, so neither is compared character by character.
        """
        if self.role != "assistant":
            return json.dumps([self.role, self.content])
        return json.dumps([self.role, self.content.strip(), [call.meaning for call in self.calls]])

    def plain(self) -> Message:
        """The message for a renderer, with calls as text."""
        calls = [
            f'<tool_call>\n{{"name": {json.dumps(call.name)}, "arguments": {call.arguments}}}\n</tool_call>'
            for call in self.calls
        ]
        return Message(role=self.role, content="\n".join(filter(None, [self.content, *calls])))


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatRequest:
    """One request for a reply."""

    messages: tuple[ChatMessage, ...]
    tools: tuple[Tool, ...] = ()
    model: str = ""
    max_tokens: int | None = None
    stop: tuple[str, ...] = ()
    temperature: float | None = None
    """Used when a checkpoint is served; in training, the run's temperature counts."""
    top_p: float | None = None
    """As `temperature`."""
    seed: int | None = None
    """As `temperature`."""
    calls: bool = True
    """Whether calls are read from the reply, or remain text."""
    required: bool = False
    """Whether the program demands a call. The policy stays free; such requests are counted."""
    stream: bool = False
    usage: bool = True
    """Whether a stream ends with the number of tokens."""
    logprobs: bool = False
    reasoning: bool = True
    """Whether the reply shows its reasoning."""
    retry: bool = False
    """Whether the client repeats a request whose response it did not get."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatReply:
    """The reply to a request, as every dialect writes it."""

    name: str
    """Hexadecimal name of the draw; ids of responses and calls derive from it."""
    message: ChatMessage
    finish: str
    """`stop`, `length` or `tool_calls`."""
    stop: str | None = None
    """The stop string that ended it."""
    prompt_tokens: int
    cached_tokens: int = 0
    """Tokens of the prompt that continue a recorded turn."""
    tokens: int
    """Number of sampled tokens."""
    malformed: bool = False
    """Whether the policy wrote a call of an offered tool that could not be read, and is text in `message`."""
    pieces: tuple[tuple[str, float], ...] = ()
    """Text and log-probability of every sampled token, if the request asks for log-probabilities."""


def value_of(arguments: str) -> Any:
    """The value of a call's arguments; a text that is not JSON stands for itself."""
    try:
        return json.loads(arguments) if arguments.strip() else {}
    except (ValueError, RecursionError):
        return arguments


def is_object(arguments: str) -> bool:
    return isinstance(value_of(arguments), dict)


def in_call_order(messages: Iterable[ChatMessage]) -> tuple[ChatMessage, ...]:
    """The messages, with consecutive tool results in the order of the calls that they answer.

    Programs that run parallel calls report their results in the order in which these ended.
    """
    ordered: list[ChatMessage] = []
    places: Mapping[str, int] = {}
    results: list[ChatMessage] = []
    for message in messages:
        if message.role == "tool":
            results.append(message)
            continue
        ordered += _by_place(results, places)
        results = []
        if message.role == "assistant":
            places = {call.id: place for place, call in enumerate(message.calls)}
        ordered.append(message)
    return (*ordered, *_by_place(results, places))


def _by_place(results: Sequence[ChatMessage], places: Mapping[str, int]) -> list[ChatMessage]:
    return sorted(results, key=lambda result: places.get(result.call_id, len(places)))


def reply_message(
    parsed: Reply, completion: Completion, name: str, request: ChatRequest, plain: bool
) -> tuple[ChatMessage, str, str | None]:
    """The assistant message of a completion, why it ended, and the stop string that ended it.

    Calls that are not complete, with an object of arguments, remain text. So do all calls of a request without tools.

    Args: plain: whether the model has no markup for calls and reasoning.
    """
    text, reasoning = parsed.text, None if plain else parsed.reasoning
    calls: tuple[CalledTool, ...] = ()
    if parsed.tool_calls:
        sound = all(call.parsing is Parsing.OK and is_object(call.arguments) for call in parsed.tool_calls)
        if sound and request.tools and request.calls:
            calls = tuple(
                CalledTool(id=f"call_{name}_{place}", name=call.name, arguments=call.arguments)
                for place, call in enumerate(parsed.tool_calls)
            )
        else:
            text = "\n".join(filter(None, [text, *map(_spelled, parsed.tool_calls)]))
    stop = next((each for each in request.stop if each in text), None) if completion.finish is Finish.STOP else None
    if stop is not None:
        text = text[: text.index(stop)]
    message = ChatMessage(role="assistant", content=text, reasoning=reasoning, calls=calls)
    finish = "length" if completion.finish is Finish.LENGTH else "tool_calls" if calls else "stop"
    return message, finish, stop


def _spelled(call: Any) -> str:
    """A call as text."""
    if call.parsing is not Parsing.OK:
        return f"<tool_call>{call.arguments}</tool_call>"
    return f'<tool_call>{{"name": {json.dumps(call.name)}, "arguments": {call.arguments}}}</tool_call>'


def with_stop(message: ChatMessage, stop: str | None) -> ChatMessage | None:
    """The message with the stop string that ended it, as some programs write it back; None without one."""
    return None if stop is None else replace(message, content=message.content + stop)
