"""One request of a program and its reply, free of the dialect in which they travel."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count

from gnomon.images import Image
from gnomon.rendering import Reply
from gnomon.types import Completion, Finish, Message, Tool

__all__ = ["ChatReply", "ChatRequest", "Refused", "in_call_order", "meaning", "reply_message", "with_stop"]


OWN = re.compile(r"call_[0-9a-f]{24}_[0-9]+")
"""The ids of calls that the policy sampled, which every run has alike."""


class Refused(Exception):
    """The endpoint does not serve a request, and would not serve it again.

    Args: status: HTTP status, one that clients do not retry; code: machine-readable name of the reason.
    """

    def __init__(self, message: str, *, status: int = 400, code: str = "unsupported") -> None:
        super().__init__(message)
        self.message, self.status, self.code = message, status, code


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatRequest:
    """One request for a reply."""

    messages: tuple[Message, ...]
    tools: tuple[Tool, ...] = ()
    model: str = ""
    max_tokens: int | None = None
    stop: tuple[str, ...] = ()
    temperature: float | None = None
    """Used when a checkpoint is served; in training, the run's temperature counts."""
    top_p: float | None = None
    """As `temperature`."""
    top_k: int | None = None
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

    @property
    def images(self) -> set[Image]:
        return {image for message in self.messages for image in message.images}


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatReply:
    """The reply to a request, as every dialect writes it."""

    name: str
    """Hexadecimal name of the draw; ids of responses and calls derive from it."""
    message: Message
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


def meaning(message: Message) -> str:
    """What two messages have in common that stand for the same tokens, reasoning aside.

    Clients trim the text of replies and write arguments anew, so neither is compared character by character.
    """
    if message.role != "assistant":
        return json.dumps([message.role, message.content, *(image.sha256 for image in message.images)])
    calls = [json.dumps([call.name, call.value], sort_keys=True) for call in message.calls]
    return json.dumps([message.role, message.content.strip(), calls])


def in_call_order(messages: Iterable[Message]) -> tuple[Message, ...]:
    """The messages, with consecutive tool results in the order of the calls that they answer.

    Programs that run parallel calls report their results in the order in which these ended. Ids that a program made
    are numbered, because they can differ in every run.
    """
    ordered: list[Message] = []
    places: dict[str, int] = {}
    names: dict[str, str] = {}
    numbers = count()
    results: list[Message] = []
    for message in messages:
        if message.role == "tool":
            results.append(replace(message, call_id=names.get(message.call_id, "")))
            continue
        ordered += _by_place(results, places)
        results = []
        if message.role == "assistant":
            for call in message.calls:
                names[call.id] = call.id if OWN.fullmatch(call.id) else f"call_{next(numbers)}"
            message = replace(message, calls=tuple(replace(call, id=names[call.id]) for call in message.calls))
            places = {call.id: index for index, call in enumerate(message.calls)}
        ordered.append(message)
    return (*ordered, *_by_place(results, places))


def _by_place(results: Sequence[Message], places: Mapping[str, int]) -> list[Message]:
    return sorted(results, key=lambda result: places.get(result.call_id, len(places)))


def reply_message(
    parsed: Reply, completion: Completion, name: str, request: ChatRequest, plain: bool
) -> tuple[Message, str, str | None]:
    """The assistant message of a completion, why it ended, and the stop string that ended it.

    Calls that are not complete, with an object of arguments, remain text. So do all calls of a request without tools.

    Args: plain: whether the model has no markup for calls and reasoning.
    """
    text, reasoning = parsed.text, None if plain else parsed.reasoning
    calls = tuple(replace(call, id=f"call_{name}_{index}") for index, call in enumerate(parsed.tool_calls))
    if parsed.unreadable or not (request.tools and request.calls):
        text, calls = Message(role="assistant", content=text, calls=calls).text, ()
    stop = next((each for each in request.stop if each in text), None) if completion.finish is Finish.STOP else None
    if stop is not None:
        text = text[: text.index(stop)]
    message = Message(role="assistant", content=text, reasoning=reasoning, calls=calls)
    finish = "length" if completion.finish is Finish.LENGTH else "tool_calls" if calls else "stop"
    return message, finish, stop


def with_stop(message: Message, stop: str | None) -> Message | None:
    """The message with the stop string that ended it, as some programs write it back; None without one."""
    return None if stop is None else replace(message, content=message.content + stop)
