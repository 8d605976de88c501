"""Qwen3: ChatML with reasoning. Its template removes earlier reasoning when a user message follows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from enum import StrEnum

from gnomon.models.tokenizer import Tokenizer
from gnomon.rendering.base import Origin, Segments, joined
from gnomon.rendering.chatml import ChatML, calls_text, template, turn
from gnomon.rendering.encoding import Piece
from gnomon.rendering.turns import last_turn, without_thought
from gnomon.types import Message

__all__ = ["History", "Qwen3"]

THOUGHTLESS = "<think>\n\n</think>\n\n"
"""The empty reasoning that the template writes for a policy that must not reason."""


class History(StrEnum):
    """What happens to earlier reasoning when a user message follows."""

    KEEP = "keep"
    """Keep it: one sequence, which differs from the published template."""
    FORK = "fork"
    """Remove it, as the published template does. Later turns are a new sequence."""


class Qwen3(ChatML):
    """ChatML with `<think>` and tools.

    Args:
        thinking: whether the policy reasons; if not, the template writes empty reasoning.
        opened: whether the template has opened the reasoning in every prompt, as that of Qwen3-Thinking-2507.
        history: what happens to earlier reasoning when a user message follows.
    Source: the chat template of Qwen3.
    """

    def __init__(
        self, tokenizer: Tokenizer, *, thinking: bool = True, opened: bool = False, history: History = History.FORK
    ) -> None:
        super().__init__(tokenizer, opening="<think>\n" if opened else "" if thinking else THOUGHTLESS)
        (self._close,) = self.encoding.required_ids("<think>", "</think>")[1:]
        self.thinking, self.history = thinking, History(history)
        self._written = joined(self.encoding.encode([template(self.opening)]))

    def fork(self, segments: Segments, messages: Sequence[Message]) -> Segments | None:
        if self.history is History.KEEP or not any(_asks(message) for message in messages):
            return None
        past = tuple(
            without_thought(self.encoding, segment, follows, self._close, self._written)
            for segment, follows in zip(segments, [*segments[1:], None], strict=True)
        )
        return None if past == segments else (*past, *self.extend(last_turn(segments), messages))

    def _turn(self, messages: Sequence[Message], index: int, origin: Origin) -> Iterator[Piece]:
        message = messages[index]
        if message.role != "assistant":
            yield from turn(message.role, Piece(origin, message.content))
            return
        thought, text = _apart(message.content) if message.reasoning is None else (message.reasoning, message.content)
        calls = list(calls_text(replace(message, content=text.lstrip("\n")), origin))
        if any(_asks(later) for later in messages[index:]) or not (thought or index + 1 == len(messages)):
            yield from turn("assistant", Piece(origin, text), *calls)
            return
        pieces = [Piece(origin, thought.strip("\n")), template("\n</think>\n\n"), Piece(origin, text.lstrip("\n"))]
        yield from turn("assistant", template("<think>\n"), *pieces, *calls)


def _asks(message: Message) -> bool:
    """Whether a message is a user's, and not a tool result in a user turn."""
    wrapped = message.content.startswith("<tool_response>") and message.content.endswith("</tool_response>")
    return message.role == "user" and not wrapped


def _apart(content: str) -> tuple[str, str]:
    """Split an assistant message into reasoning and text."""
    if "</think>" not in content:
        return "", content
    thought = content.split("</think>")[0].rstrip("\n").split("<think>")[-1].lstrip("\n")
    return thought, content.split("</think>")[-1].lstrip("\n")
