"""The renderer protocol: messages to tokens of a prompt, and sampled tokens to a parsed reply.

The next prompt consists of the previous prompt, the sampled tokens and new tokens, id for id. Sampled tokens are never
decoded and encoded again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from gnomon.types import Message, Origin, Parsing, Segment, Tool, ToolCall

__all__ = ["Origin", "Parsing", "Renderer", "Reply", "Segment", "Segments", "Tool", "ToolCall", "joined"]


Segments = tuple[Segment, ...]


def joined(segments: Iterable[Segment]) -> tuple[int, ...]:
    """The token ids of all segments, in order."""
    return tuple(token for segment in segments for token in segment.token_ids)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """The parsed completion of one turn."""

    text: str
    """The answer, without reasoning and calls."""
    reasoning: str | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    parsing: Parsing
    problem: str = ""
    """One sentence for the policy: why the turn could not be parsed."""

    @property
    def unreadable(self) -> bool:
        """Whether it has a call that is not complete, or whose arguments are not an object."""
        return not all(call.sound for call in self.tool_calls)

    @property
    def observations(self) -> tuple[Message, ...]:
        """One message for the policy per malformed call or turn."""
        calls = [call.problem for call in self.tool_calls if call.parsing is Parsing.MALFORMED]
        problems = calls or ([self.problem] if self.parsing is Parsing.MALFORMED else [])
        return tuple(Message(role="tool", content=f"error: {problem}") for problem in problems)


class Renderer(Protocol):
    """The format of a model family. Frozen, and shared by all episodes."""

    @property
    def stop(self) -> frozenset[int]:
        """Token ids that end the policy's turn."""
        ...

    def start(self, messages: Sequence[Message], tools: Sequence[Tool] = ()) -> Segments:
        """The prompt of the policy's first turn."""
        ...

    def extend(self, sampled_ids: Sequence[int], messages: Sequence[Message]) -> Segments:
        """The segments after a sampled turn: its missing end, the messages, and the beginning of the next turn.

        Raises: ModelError E315 if the family does not support a message.
        """
        ...

    def fork(self, segments: Segments, messages: Sequence[Message]) -> Segments | None:
        """None if `extend` continues the sequence; else a new sequence, up to the policy's next turn.

        A family whose template rewrites earlier messages when these arrive returns the new sequence here. Later tokens
        then belong to another training sequence, with its own prefix.

        Args:
            segments: the whole sequence so far; the last one is the policy's.
        """
        ...

    def parse(self, token_ids: Sequence[int], prompt_ids: Sequence[int] = ()) -> Reply:
        """Parse sampled tokens. Accepts any sequence of integers; never raises.

        Args:
            prompt_ids: the prompt. If it has opened reasoning, the reply begins inside the reasoning. Empty for a
                prompt that ends as the family's prompts do.
        """
        ...
