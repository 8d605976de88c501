"""Plain text, one message per line, for a base model that was not trained on turns."""

from __future__ import annotations

from collections.abc import Sequence

from gnomon.models.tokenizer import Tokenizer
from gnomon.rendering.base import Origin, Parsing, Reply, Segment, Segments, Tool
from gnomon.rendering.encoding import Encoding, Piece
from gnomon.rendering.refusals import no_tools
from gnomon.types import Message

__all__ = ["TEMPLATE", "Plain"]

TEMPLATE = "{{ bos_token or '' }}{% for message in messages %}{{ message['content'] + '\\n' }}{% endfor %}"
"""A chat template that writes what `Plain` writes."""


class Plain:
    """Each message and a newline. The policy continues the text.

    Args:
        words: added tokens that occur in text, such as the answer slot in a small model's vocabulary.
    """

    def __init__(self, tokenizer: Tokenizer, words: Sequence[str] = ()) -> None:
        self.encoding = Encoding(tokenizer, words)

    @property
    def stop(self) -> frozenset[int]:
        return self.encoding.tokenizer.eos

    def start(self, messages: Sequence[Message], tools: Sequence[Tool] = ()) -> Segments:
        if tools:
            raise no_tools("plain")
        bos = self.encoding.tokenizer.bos
        begin = () if bos is None else (Segment(origin=Origin.TEMPLATE, token_ids=(bos,)),)
        return begin + self.encoding.encode(_lines(messages, Origin.TASK))

    def extend(self, sampled_ids: Sequence[int], messages: Sequence[Message]) -> Segments:
        return self.encoding.encode([Piece(Origin.TEMPLATE, "\n"), *_lines(messages, Origin.ENVIRONMENT)])

    def fork(self, segments: Segments, messages: Sequence[Message]) -> None:
        """None: earlier messages are never rewritten."""

    def parse(self, token_ids: Sequence[int], prompt_ids: Sequence[int] = ()) -> Reply:
        """Parse plain text. It ends with the tokenizer's end token; without one, the finish reason shows truncation."""
        ids = (*self.encoding.open_marker(prompt_ids), *token_ids)
        return Reply(text=self.encoding.decode([i for i in ids if i not in self.stop]), parsing=Parsing.OK)


def _lines(messages: Sequence[Message], origin: Origin) -> list[Piece]:
    return [
        piece
        for message in messages
        for piece in (
            Piece(Origin.TOOL if message.role == "tool" else origin, message.text),
            Piece(Origin.TEMPLATE, "\n"),
        )
    ]
