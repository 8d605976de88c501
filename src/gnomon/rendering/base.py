"""What a renderer is: messages to the tokens a policy sees, and its tokens back to what it said.

Tokens in, tokens out. What the policy sees next is what it saw, what it sampled and what is put behind it, id
for id; nothing that was sampled is ever decoded and encoded again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from gnomon.types import Message, Origin, Segment, Tool

__all__ = ["Origin", "Parsing", "Renderer", "Reply", "Segment", "Segments", "Tool", "ToolCall", "joined"]


Segments = tuple[Segment, ...]


def joined(segments: Iterable[Segment]) -> tuple[int, ...]:
    """The token ids of all segments, in order."""
    return tuple(token for segment in segments for token in segment.token_ids)


class Parsing(StrEnum):
    """How far the tokens of a turn, or of one call in it, could be read."""

    OK = "ok"
    MALFORMED = "malformed"
    """Complete, and not what the format asks for."""
    TRUNCATED = "truncated"
    """The tokens end before the turn or the call does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """One call, as it was sampled."""

    name: str
    """Empty where no name could be read."""
    arguments: str
    """The raw text of the arguments; `arguments_of` reads it. Of a call that cannot be read, its whole text."""
    parsing: Parsing = Parsing.OK
    problem: str = ""
    """One sentence for the policy: why the call could not be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What the policy said in one turn."""

    text: str
    """The answer, without reasoning and calls."""
    reasoning: str | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    parsing: Parsing
    problem: str = ""
    """One sentence for the policy: why the turn could not be read."""

    @property
    def observations(self) -> tuple[Message, ...]:
        """What to tell the policy of everything that was malformed, one message each."""
        calls = [call.problem for call in self.tool_calls if call.parsing is Parsing.MALFORMED]
        problems = calls or ([self.problem] if self.parsing is Parsing.MALFORMED else [])
        return tuple(Message(role="tool", content=f"error: {problem}") for problem in problems)


class Renderer(Protocol):
    """The format that one family of models was trained in. Frozen, and shared by all episodes."""

    @property
    def stop(self) -> frozenset[int]:
        """Token ids that end the policy's turn."""
        ...

    def start(self, messages: Sequence[Message], tools: Sequence[Tool] = ()) -> Segments:
        """All that the policy sees up to its first turn."""
        ...

    def extend(self, sampled: Sequence[int], messages: Sequence[Message]) -> Segments:
        """What is put behind a sampled turn: the end it left open, the messages, and the begin of the next turn.

        Raises: ModelError E315 when the family has no place for a message.
        """
        ...

    def fork(self, segments: Segments, messages: Sequence[Message]) -> Segments | None:
        """None where `extend` goes on with the sequence. Else a new sequence, up to the policy's next turn.

        A family that rewrites what was said before, when these messages come, says so here and nowhere else: the
        tokens that follow belong to another sequence, with a prefix of its own.

        Args:
            segments: the whole sequence so far; the last is of the policy.
        """
        ...

    def parse(self, token_ids: Sequence[int]) -> Reply:
        """What the policy said, of any sequence of integers; never raises."""
        ...
