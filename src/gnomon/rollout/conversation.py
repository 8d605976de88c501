"""One player's conversation: takes observations, returns prompts, and collects the turns."""

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
    """A function that begins transcripts of conversations with an environment."""
    # Plain text does not list tools, so there the environment's messages describe them.
    tools = () if isinstance(renderer, Plain) else offers.tools(env)
    return partial(Transcript.begin, renderer, tools=tools)


class Conversation:
    """The observations and replies of one player so far.

    Args: preface: messages before the environment's first messages; prefix: tokens with which the first reply begins.
    """

    def __init__(self, begin: Begin, preface: tuple[Message, ...] = (), prefix: tuple[int, ...] = ()) -> None:
        self.turns: list[Turn] = []
        self._begin, self._preface, self._prefix = begin, preface, prefix
        self._transcript: Transcript | None = None
        self._observed: tuple[Message, ...] = ()

    def observe(self, messages: tuple[Message, ...]) -> tuple[int, ...]:
        """Add an observation. Returns: the prompt of the next reply."""
        if self._transcript is not None:
            self._observed, self._transcript = messages, self._transcript.observe(messages)
            return self._transcript.token_ids
        self._observed = (*self._preface, *messages)
        begun = self._begin(self._observed)
        self._transcript = begun.with_completion(self._prefix) if self._prefix else begun
        return self._transcript.token_ids

    def reply(self, completion: Completion) -> None:
        """Add the reply to the last observation."""
        assert self._transcript is not None
        segments, forks = self._transcript.segments, self._transcript.forks
        last = max((i + 1 for i, segment in enumerate(segments) if segment.origin is Origin.POLICY), default=0)
        whole = not self.turns or self.turns[-1].fork != forks
        self.turns.append(
            Turn(
                prompt_ids=self._transcript.token_ids,
                completion=completion,
                messages=self._observed,
                segments=segments if whole else segments[last:],
                fork=forks,
            )
        )
        self._transcript = self._transcript.with_completion(completion.token_ids)
