"""A conversation as tokens, where each prompt extends the previous prompt and completion, and a reply as text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gnomon.rendering.base import Origin, Renderer, Segment, Segments, Tool, joined
from gnomon.rendering.plain import Plain
from gnomon.rendering.sight import require_sight
from gnomon.types import Message

__all__ = ["Transcript", "reply_text"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Transcript:
    """One training sequence while it grows."""

    renderer: Renderer
    segments: Segments
    forks: int = 0
    """Number of earlier sequences of the episode. A new one begins where a template rewrites history."""

    @classmethod
    def begin(cls, renderer: Renderer, messages: Sequence[Message], tools: Sequence[Tool] = ()) -> Transcript:
        if has_image(messages):
            require_sight(renderer)
        return cls(renderer=renderer, segments=renderer.start(messages, tools))

    @property
    def token_ids(self) -> tuple[int, ...]:
        """The whole sequence. Before a turn of the policy, it is the prompt."""
        return joined(self.segments)

    def with_completion(self, token_ids: Sequence[int]) -> Transcript:
        """The transcript extended by a completion, id for id."""
        return self._follow(Segment(origin=Origin.POLICY, token_ids=tuple(token_ids)))

    def observe(self, messages: Sequence[Message]) -> Transcript:
        """The transcript extended by the environment's observation after a sampled turn.

        It is the same sequence extended, or a new one (`forks` is one higher) if the template rewrites history.
        """
        last = self.segments[-1]
        if last.origin is not Origin.POLICY:
            raise ValueError("an observation must follow a sampled turn")
        if has_image(messages):
            require_sight(self.renderer)
        forked = self.renderer.fork(self.segments, messages)
        if forked is not None:
            return Transcript(renderer=self.renderer, segments=forked, forks=self.forks + 1)
        return self._follow(*self.renderer.extend(last.token_ids, messages))

    def _follow(self, *more: Segment) -> Transcript:
        return Transcript(renderer=self.renderer, segments=(*self.segments, *more), forks=self.forks)


def has_image(messages: Sequence[Message]) -> bool:
    return any(message.images for message in messages)


def reply_text(renderer: Renderer, prompt_ids: Sequence[int], text: str, token_ids: Sequence[int]) -> str:
    """The text of a reply for an environment. Reasoning that the prompt has opened is a part of the reply.

    Args: prompt_ids: the prompt before the reply; text: the decoded tokens, which plain text uses unchanged.
    """
    if isinstance(renderer, Plain):
        return renderer.encoding.decode(renderer.encoding.open_marker(prompt_ids)) + text
    reply = renderer.parse(token_ids, prompt_ids)
    return "\n".join(filter(None, [reply.text, *(call.text for call in reply.tool_calls)]))
