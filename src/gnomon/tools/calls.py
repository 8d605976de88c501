"""Parse tool calls in a reply, in two forms: JSON in `<tool_call>`, and the plain `<name>argument</name>`.

Every text is accepted, in linear time. A call that cannot be parsed is returned with its problem.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gnomon.tools.base import EnvTool
from gnomon.verifiers import Malformed
from gnomon.verifiers.extract import after_reasoning
from gnomon.verifiers.strict_json import strict_json

__all__ = ["CALL", "Call", "calls", "without"]

CALL = "tool_call"
"""The tag of the JSON form. An actor also converts calls of other model families to this form."""
MOST = 8
"""Largest number of calls in one reply."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call, and its span."""

    name: str = ""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    problem: str = ""
    """One sentence for the policy: why the call cannot be executed; empty if it can."""
    span: tuple[int, int]
    """Span in the reply, including the tags."""


def calls(reply: str, tools: Sequence[EnvTool]) -> tuple[Call, ...]:
    """The calls of a reply in order: at most 8, and a malformed ninth if there are more. Reasoning is skipped."""
    begin = after_reasoning(reply)
    if begin is None:
        return ()
    plain = {tool.name: tool for tool in tools if tool.argument is not None}
    opening = re.compile("<(" + "|".join(map(re.escape, [CALL, *plain])) + ")>")
    result: list[Call] = []
    position = begin
    while (mark := opening.search(reply, position)) is not None:
        tag, start = mark[1], mark.end()
        if len(result) == MOST:
            return *result, Call(problem=f"more than {MOST} calls in one reply", span=(mark.start(), len(reply)))
        end = reply.find(f"</{tag}>", start)
        if end < 0:
            return *result, Call(problem=f"the call does not end: </{tag}> is missing", span=(mark.start(), len(reply)))
        position = end + len(f"</{tag}>")
        span, inside = (mark.start(), position), reply[start:end]
        result.append(json_call(inside, tools, span) if tag == CALL else bare(plain[tag], inside, span))
    return tuple(result)


def bare(tool: EnvTool, text: str, span: tuple[int, int]) -> Call:
    """The plain form: the text is the argument, without a line break next to a tag."""
    assert tool.argument is not None
    return Call(name=tool.name, arguments={tool.argument: text.removeprefix("\n").removesuffix("\n")}, span=span)


def json_call(text: str, tools: Sequence[EnvTool], span: tuple[int, int]) -> Call:
    """The JSON form: an object with a name and an object of arguments."""
    try:
        parsed = strict_json(text.strip())
    except Malformed as problem:
        return Call(problem=f"the call cannot be read: {problem}", span=span)
    if not isinstance(parsed, dict) or not isinstance(name := parsed.get("name"), str):
        return Call(problem='the call is not a JSON object with a "name"', span=span)
    if "arguments" not in parsed and (others := parsed.keys() - {"name", "id", "type"}):
        return Call(problem=f'the call has no "arguments" but "{min(others)[:40]}"', span=span)
    arguments = parsed.get("arguments", {})
    if not isinstance(arguments, dict):
        return Call(problem='"arguments" of the call is not a JSON object', span=span)
    if name not in (names := [tool.name for tool in tools]):
        return Call(problem=f"there is no tool {name[:40]!r}; there is {', '.join(names)}", span=span)
    return Call(name=name, arguments=arguments, span=span)


def without(reply: str, requests: Sequence[Call]) -> str:
    """The reply with every call replaced by blanks, so that other characters keep their positions."""
    for call in requests:
        start, end = call.span
        reply = reply[:start] + " " * (end - start) + reply[end:]
    return reply
