"""ChatML, with tools in the format of Hermes and Qwen2.5."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import partial

from gnomon.models.tokenizer import Tokenizer
from gnomon.rendering.base import Origin, Reply, Segments, Tool, joined
from gnomon.rendering.calls import named_call
from gnomon.rendering.encoding import Piece, encoding_of
from gnomon.rendering.refusals import no_place, no_tools
from gnomon.rendering.turns import read_turn
from gnomon.types import Message

__all__ = ["ChatML", "calls_text", "tools_text", "turn"]

ROLES = ("system", "user", "assistant", "tool")

template = partial(Piece, Origin.TEMPLATE)


class ChatML:
    """`<|im_start|>role … <|im_end|>`. Earlier messages are never rewritten.

    Args:
        system: default system message if the messages begin with none; empty for no system turn.
        opening: how the template begins the policy's turn, such as `<think>` and a line break.
    Source: the chat template of Qwen2.5-Instruct.
    """

    def __init__(self, tokenizer: Tokenizer, *, system: str = "", opening: str = "") -> None:
        self.encoding = encoding_of(tokenizer)
        (self._end,) = self.encoding.required_ids("<|im_end|>")
        self.encoding.required_ids("<|im_start|>")
        self.system, self.opening = system, opening
        self._begun = joined(self.encoding.encode(self._opening()))

    @property
    def stop(self) -> frozenset[int]:
        return self.encoding.tokenizer.eos | {self._end}

    def start(self, messages: Sequence[Message], tools: Sequence[Tool] = ()) -> Segments:
        own = messages[0].content if messages and messages[0].role == "system" else None
        pieces = list(self._system(own, tools))
        pieces += self._turns(messages if own is None else messages[1:], Origin.TASK)
        return self.encoding.encode([*pieces, *self._opening()])

    def extend(self, sampled_ids: Sequence[int], messages: Sequence[Message]) -> Segments:
        closed = bool(sampled_ids) and sampled_ids[-1] == self._end
        end = template("\n" if closed else "<|im_end|>\n")
        return self.encoding.encode([end, *self._turns(messages, Origin.ENVIRONMENT), *self._opening()])

    def fork(self, segments: Segments, messages: Sequence[Message]) -> Segments | None:
        return None

    def parse(self, token_ids: Sequence[int], prompt_ids: Sequence[int] = ()) -> Reply:
        ids = (*self.encoding.open_marker(prompt_ids or self._begun), *token_ids)
        return read_turn(self.encoding, ids, self.stop, partial(named_call, slot="arguments"))

    def _opening(self) -> list[Piece]:
        return [template(f"<|im_start|>assistant\n{self.opening}")]

    def _system(self, own: str | None, tools: Sequence[Tool]) -> Iterator[Piece]:
        pieces = [Piece(Origin.TASK, own)] if own is not None else [template(self.system)] if self.system else []
        if tools:
            self._require_calls()
            yield from [template("<|im_start|>system\n"), *pieces, template("\n\n" if pieces else "")]
            yield from tools_text(tools)
        elif pieces:
            yield from turn("system", *pieces)

    def _turns(self, messages: Sequence[Message], origin: Origin) -> Iterator[Piece]:
        for index, message in enumerate(messages):
            if message.role not in ROLES:
                raise no_place("ChatML", f"the role {message.role!r}", f"one of {', '.join(ROLES)}")
            if message.role == "tool":
                first = index == 0 or messages[index - 1].role != "tool"
                last = index + 1 == len(messages) or messages[index + 1].role != "tool"
                yield template(("<|im_start|>user" if first else "") + "\n<tool_response>\n")
                yield Piece(Origin.TOOL, message.content)
                yield template("\n</tool_response>" + ("<|im_end|>\n" if last else ""))
            else:
                yield from self._turn(messages, index, origin)

    def _turn(self, messages: Sequence[Message], index: int, origin: Origin) -> Iterator[Piece]:
        """One turn of any role except tool."""
        message = messages[index]
        yield from turn(message.role, Piece(origin, message.content), *calls_text(message, origin))

    def _require_calls(self) -> None:
        if not {"<tool_call>", "</tool_call>"} <= self.encoding.control.keys():
            raise no_tools("ChatML")


def turn(role: str, *content: Piece) -> list[Piece]:
    return [template(f"<|im_start|>{role}\n"), *content, template("<|im_end|>\n")]


def calls_text(message: Message, origin: Origin) -> Iterator[Piece]:
    """The calls of a message, after its content."""
    for index, call in enumerate(message.calls):
        yield template(("\n" if index or message.content else "") + '<tool_call>\n{"name": "')
        yield from [Piece(origin, json.dumps(call.name, ensure_ascii=False)[1:-1]), template('", "arguments": ')]
        yield from [Piece(origin, call.arguments), template("}\n</tool_call>")]


def tools_text(tools: Sequence[Tool]) -> Iterator[Piece]:
    """The description of the tools, up to the end of the system turn."""
    yield template(
        "# Tools\n\nYou may call one or more functions to assist with the user query.\n\n"
        "You are provided with function signatures within <tools></tools> XML tags:\n<tools>"
    )
    for tool in tools:
        yield from [template("\n"), Piece(Origin.TOOL, json.dumps(tool.schema, ensure_ascii=False))]
    yield template(
        "\n</tools>\n\nFor each function call, return a json object with function name and arguments within "
        '<tool_call></tool_call> XML tags:\n<tool_call>\n{"name": <function-name>, "arguments": <args-json-object>}\n'
        "</tool_call><|im_end|>\n"
    )
