"""Gemma 1 to 3: turns of user and model, in strict alternation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gnomon.models.tokenizer import Tokenizer
from gnomon.rendering.base import Origin, Reply, Segments, Tool
from gnomon.rendering.chatml import template
from gnomon.rendering.encoding import Piece, encoding_of
from gnomon.rendering.refusals import no_place, no_tools
from gnomon.rendering.turns import read_turn
from gnomon.types import Message

__all__ = ["Gemma"]


class Gemma:
    """`<start_of_turn>user … <end_of_turn>`, without tools and without separate reasoning.

    Args:
        system: whether a system message may begin the first user turn, as in Gemma 3.
    Source: the chat templates of Gemma 2 and Gemma 3.
    """

    def __init__(self, tokenizer: Tokenizer, *, system: bool = True) -> None:
        self.encoding = encoding_of(tokenizer)
        _, self._end, _ = self.encoding.required_ids("<start_of_turn>", "<end_of_turn>", "<bos>")
        self.system = system

    @property
    def stop(self) -> frozenset[int]:
        return self.encoding.tokenizer.eos | {self._end}

    def start(self, messages: Sequence[Message], tools: Sequence[Tool] = ()) -> Segments:
        if tools:
            raise no_tools("Gemma")
        instructions: list[Piece] = []
        if messages and messages[0].role == "system":
            if not self.system:
                raise no_place("Gemma", "a system message", "say it in the first user message")
            instructions, messages = [Piece(Origin.TASK, messages[0].content), template("\n\n")], messages[1:]
        return self.encoding.encode([template("<bos>"), *self._turns(messages, Origin.TASK, instructions)])

    def extend(self, sampled_ids: Sequence[int], messages: Sequence[Message]) -> Segments:
        closed = bool(sampled_ids) and sampled_ids[-1] == self._end
        end = template("\n" if closed else "<end_of_turn>\n")
        return self.encoding.encode([end, *self._turns(messages, Origin.ENVIRONMENT, [])])

    def fork(self, segments: Segments, messages: Sequence[Message]) -> Segments | None:
        return None

    def parse(self, token_ids: Sequence[int], prompt_ids: Sequence[int] = ()) -> Reply:
        return read_turn(self.encoding, token_ids, self.stop, None)

    def _turns(self, messages: Sequence[Message], origin: Origin, instructions: list[Piece]) -> Iterator[Piece]:
        """Alternating turns of user and model, and the beginning of the policy's turn; `instructions` come first."""
        if [message.role for message in messages] != ["user", "assistant"] * (len(messages) // 2) + ["user"]:
            roles = ", ".join(message.role for message in messages) or "no message"
            fix = "user, assistant, user … after an optional system message; one user message after each reply"
            raise no_place("Gemma", roles, fix)
        for index, message in enumerate(messages):
            yield template(f"<start_of_turn>{'user' if message.role == 'user' else 'model'}\n")
            yield from instructions if index == 0 else []
            yield from [Piece(origin, message.text.strip()), template("<end_of_turn>\n")]
        yield template("<start_of_turn>model\n")
