"""Llama 3: headers and turns, with tools from 3.1 on."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence

from gnomon.models.tokenizer import Tokenizer
from gnomon.rendering.base import Origin, Parsing, Reply, Segments, Tool, ToolCall
from gnomon.rendering.calls import named_call
from gnomon.rendering.chatml import template
from gnomon.rendering.encoding import Piece, encoding_of
from gnomon.rendering.refusals import no_place, no_tools
from gnomon.rendering.turns import cut_at_end
from gnomon.types import Message

__all__ = ["Llama3"]

DATE = "26 Jul 2024"
"""The published template's default date. The current date would make two runs of one recipe differ."""

ROLES = {"system": "system", "user": "user", "assistant": "assistant", "tool": "ipython"}

TOOLS = (
    "Given the following functions, please respond with a JSON for a function call with its proper arguments that "
    'best answers the given prompt.\n\nRespond in the format {"name": function name, "parameters": dictionary of '
    "argument name and its value}.Do not use variables.\n\n"
)


class Llama3:
    """`<|start_header_id|>role<|end_header_id|> … <|eot_id|>`. Earlier messages are never rewritten.

    Args:
        dated: whether a system turn with dates comes first, as from Llama 3.1 on. Tools are announced there.
    Source: the chat templates of Llama 3, 3.1 and 3.2.
    """

    def __init__(self, tokenizer: Tokenizer, *, dated: bool = True) -> None:
        self.encoding = encoding_of(tokenizer)
        self._end, *_ = self.encoding.required_ids(
            "<|eot_id|>", "<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>"
        )
        self._ends = frozenset({self._end, self.encoding.control.get("<|eom_id|>", self._end)})
        self._code = self.encoding.control.get("<|python_tag|>")
        self.dated = dated

    @property
    def stop(self) -> frozenset[int]:
        return self.encoding.tokenizer.eos | self._ends

    def start(self, messages: Sequence[Message], tools: Sequence[Tool] = ()) -> Segments:
        pieces = [template("<|begin_of_text|>")]
        if not self.dated:
            if tools:
                raise no_tools("Llama 3.0")
            return self.encoding.encode([*pieces, *_turns(messages, Origin.TASK)])
        system, rest = ("", messages) if not messages or messages[0].role != "system" else (messages[0], messages[1:])
        pieces += [
            _header("system"),
            template("Environment: ipython\n" if tools else ""),
            template(f"Cutting Knowledge Date: December 2023\nToday Date: {DATE}\n\n"),
            Piece(Origin.TASK, system.content.strip() if isinstance(system, Message) else system),
            template("<|eot_id|>"),
        ]
        if tools:
            if not rest:
                raise no_place("Llama 3", "tools without a user message", "a task with a user message")
            pieces += [_header("user"), template(TOOLS)]
            for tool in tools:
                text = json.dumps(tool.schema, ensure_ascii=False, indent=4)
                pieces += [Piece(Origin.TOOL, text), template("\n\n")]
            pieces += [Piece(Origin.TASK, rest[0].content.strip()), template("<|eot_id|>")]
            rest = rest[1:]
        return self.encoding.encode([*pieces, *_turns(rest, Origin.TASK)])

    def extend(self, sampled_ids: Sequence[int], messages: Sequence[Message]) -> Segments:
        closed = bool(sampled_ids) and sampled_ids[-1] in self._ends
        end = template("" if closed else "<|eot_id|>")
        return self.encoding.encode([end, *_turns(messages, Origin.ENVIRONMENT)])

    def fork(self, segments: Segments, messages: Sequence[Message]) -> Segments | None:
        return None

    def parse(self, token_ids: Sequence[int], prompt_ids: Sequence[int] = ()) -> Reply:
        ids, ended = cut_at_end(token_ids, self.stop)
        if self._code is not None and self._code in ids:
            index = ids.index(self._code)
            text = self.encoding.decode(ids[:index])
            calls: tuple[ToolCall, ...] = (_parse_tagged(self.encoding.decode(ids[index + 1 :]), ended),)
        else:
            text, calls = _parse_untagged(self.encoding.decode(ids), ended)
        problem = next((call.problem for call in calls if call.problem), "")
        parsing = Parsing.TRUNCATED if not ended else Parsing.MALFORMED if problem else Parsing.OK
        return Reply(text=text, tool_calls=calls, parsing=parsing, problem=problem)


def _header(role: str) -> Piece:
    return template(f"<|start_header_id|>{role}<|end_header_id|>\n\n")


def _turns(messages: Sequence[Message], origin: Origin) -> Iterator[Piece]:
    """Every message as a turn, and the beginning of the policy's turn."""
    for message in messages:
        if message.role not in ROLES:
            raise no_place("Llama 3", f"the role {message.role!r}", f"one of {', '.join(ROLES)}")
        yield _header(ROLES[message.role])
        if message.role == "tool":
            yield Piece(Origin.TOOL, json.dumps(message.content, ensure_ascii=False))
        elif len(message.calls) == 1 and not message.content:
            (call,) = message.calls
            yield from [template('{"name": "'), Piece(origin, json.dumps(call.name, ensure_ascii=False)[1:-1])]
            yield from [template('", "parameters": '), Piece(origin, call.arguments), template("}")]
        else:
            yield Piece(origin, message.text.strip())
        yield template("<|eot_id|>")
    yield _header("assistant")


def _parse_tagged(text: str, ended: bool) -> ToolCall:
    """Parse the text after `<|python_tag|>`: a JSON call, `name.call(…)` of a built-in tool, or code."""
    if not ended:
        return ToolCall(name="", arguments=text, parsing=Parsing.TRUNCATED, problem="the call is truncated")
    if text.lstrip().startswith("{"):
        return named_call(text.strip(), "parameters")
    builtin = re.fullmatch(r"\s*(\w{1,64})\.call\((.*)\)\s*", text, re.S)
    return ToolCall(name=builtin[1], arguments=builtin[2]) if builtin else ToolCall(name="python", arguments=text)


def _parse_untagged(text: str, ended: bool) -> tuple[str, tuple[ToolCall, ...]]:
    """Parse a turn without a control token. It is a call if it is one JSON object with a name and parameters."""
    if not re.match(r'\s*\{\s*"name"\s*:', text):
        return text, ()
    if not ended:
        return "", (ToolCall(name="", arguments=text, parsing=Parsing.TRUNCATED, problem="the call is truncated"),)
    return "", (named_call(text.strip(), "parameters"),)
