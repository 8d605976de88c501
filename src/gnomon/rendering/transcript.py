"""A conversation as the tokens it consists of: what is asked next is what was, and more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gnomon.rendering.base import Origin, Renderer, Segment, Segments, Tool, joined
from gnomon.types import Message

__all__ = ["Transcript"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Transcript:
    """One training sequence while it grows."""

    renderer: Renderer
    segments: Segments
    forks: int = 0
    """How many sequences of the episode came before; a new one begins where a template rewrites history."""

    @classmethod
    def begun(cls, renderer: Renderer, messages: Sequence[Message], tools: Sequence[Tool] = ()) -> Transcript:
        return cls(renderer=renderer, segments=renderer.start(messages, tools))

    @property
    def token_ids(self) -> tuple[int, ...]:
        """All of the sequence; where the policy speaks next, its prompt."""
        return joined(self.segments)

    def sampled(self, token_ids: Sequence[int]) -> Transcript:
        """With a turn of the policy, id for id."""
        return self._followed(Segment(origin=Origin.POLICY, token_ids=tuple(token_ids)))

    def observed(self, messages: Sequence[Message]) -> Transcript:
        """With what the environment says to the turn that was just sampled.

        The same sequence and more, or a new one (`forks` is one higher) where the family rewrites history.
        """
        last = self.segments[-1]
        if last.origin is not Origin.POLICY:
            raise ValueError("messages follow a sampled turn; none was sampled since the last")
        forked = self.renderer.fork(self.segments, messages)
        if forked is not None:
            return Transcript(renderer=self.renderer, segments=forked, forks=self.forks + 1)
        return self._followed(*self.renderer.extend(last.token_ids, messages))

    def _followed(self, *more: Segment) -> Transcript:
        return Transcript(renderer=self.renderer, segments=(*self.segments, *more), forks=self.forks)
