"""Play episodes from what was said: the side of an environment that runs in a process of its own."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from gnomon.envs.base import Env, Episode, Step
from gnomon.keys import Key
from gnomon.types import Task
from gnomon.verifiers.carry import Carried

__all__ = ["Replay"]

LIVE = 64
"""Unfinished episodes that a process keeps at hand."""


@dataclass(slots=True)
class Live:
    """An episode, and what was said in it so far."""

    episode: Episode
    replies: tuple[str, ...]


class Replay:
    """The step that an environment answers to the last of some replies.

    Unfinished episodes are kept, so that a process that is asked turn after turn steps once each time. One that is
    not at hand is played again from its beginning: an episode is a function of its task, its key and what was said.
    """

    def __init__(self, env: Env) -> None:
        self.env = env
        self._live: OrderedDict[tuple[str, bytes], Live] = OrderedDict()

    def __call__(self, task: Task, key: Key, replies: tuple[str, ...]) -> Step:
        """Args: replies: all that was said, by whichever seat. Without any, the step is the opening of the episode."""
        name = task.id, key.bytes
        live = self._live.pop(name, None)
        if live is not None and not (len(live.replies) < len(replies) and replies[: len(live.replies)] == live.replies):
            live.episode.close()
            live = None
        if live is None:
            live = Live(self.env.start(task, key), ())
        step = Step(messages=live.episode.messages, done=False)
        try:
            for reply in replies[len(live.replies) :]:
                step = live.episode.step(reply)
        except BaseException:
            live.episode.close()
            raise
        if step.done:
            live.episode.close()
            return step
        self._live[name] = Live(live.episode, replies)
        while len(self._live) > LIVE:
            self._live.popitem(last=False)[1].episode.close()
        return step

    def __getstate__(self) -> Carried:
        return Carried.of(self.env)

    def __setstate__(self, state: Carried) -> None:
        self.__init__(state.opened())  # type: ignore[misc]
