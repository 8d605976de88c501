"""One player's conversation as it grows: messages in, prompts out, and the turns that come of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from gnomon.envs import offers
from gnomon.envs.base import Env
from gnomon.rendering import Plain, Renderer, Transcript
from gnomon.types import Completion, Message, Origin, Turn

__all__ = ["Begin", "Conversation", "beginning"]

Begin = Callable[[Sequence[Message]], Transcript]
"""Begins a transcript with the first messages of a conversation."""


def beginning(env: Env, renderer: Renderer) -> Begin:
    """How conversations with an environment begin."""
    # Plain text has no place for tools: there the environment's own messages tell of them.
    tools = () if isinstance(renderer, Plain) else offers.tools(env)
    return partial(Transcript.begun, renderer, tools=tools)


class Conversation:
    """What one player has seen and replied so far.

    Args: preface: messages in front of those that the environment begins with.
    """

    def __init__(self, begin: Begin, preface: tuple[Message, ...] = ()) -> None:
        self.turns: list[Turn] = []
        self._begin, self._preface = begin, preface
        self._transcript: Transcript | None = None
        self._observed: tuple[Message, ...] = ()

    def observe(self, messages: tuple[Message, ...]) -> tuple[int, ...]:
        """Take in what the environment says. Returns: the prompt of the next reply."""
        self._observed = messages if self._transcript else (*self._preface, *messages)
        self._transcript = (
            self._transcript.observed(messages) if self._transcript is not None else self._begin(self._observed)
        )
        return self._transcript.token_ids

    def reply(self, completion: Completion) -> None:
        """Take in the reply to what was observed last."""
        assert self._transcript is not None
        segments, forks = self._transcript.segments, self._transcript.forks
        last = max((i + 1 for i, segment in enumerate(segments) if segment.origin is Origin.POLICY), default=0)
        whole = bool(self.turns) and self.turns[-1].fork != forks
        self.turns.append(
            Turn(
                prompt_ids=self._transcript.token_ids,
                completion=completion,
                messages=self._observed,
                segments=segments if whole else segments[last:],
                fork=forks,
            )
        )
        self._transcript = self._transcript.sampled(completion.token_ids)
