"""The worker's side of an environment: episodes that stay alive between their turns."""

from __future__ import annotations

from dataclasses import dataclass

from gnomon.envs.base import Env, Episode, Step
from gnomon.keys import Key
from gnomon.types import Task
from gnomon.workers import Carried

__all__ = ["KEPT", "End", "Episodes", "Missing", "Reply", "Start"]

KEPT = 256
"""Largest number of unfinished episodes that a worker keeps."""


@dataclass(frozen=True, slots=True)
class Start:
    """Begin an episode. Its number is unique in the pool."""

    number: int
    task: Task
    key: Key


@dataclass(frozen=True, slots=True)
class Reply:
    """A reply in an episode; its `turn`-th, from 0."""

    number: int
    turn: int
    text: str


@dataclass(frozen=True, slots=True)
class End:
    """Close an episode that is not over."""

    number: int


@dataclass(frozen=True, slots=True)
class Missing:
    """The worker does not have the episode at this turn."""


@dataclass(slots=True)
class Live:
    """An unfinished episode."""

    episode: Episode
    turns: int = 0


class Episodes:
    """Plays the episodes of an environment, each with one call per turn.

    Beyond the limit, the most recently used other episode is closed. Episodes take their turns in rotation, so its
    next turn is the farthest away.

    Args: most: largest number of unfinished episodes.
    """

    def __init__(self, env: Env, most: int = KEPT) -> None:
        self.env, self.kept = env, most
        self._live: dict[int, Live] = {}
        """Episodes by number, the most recently used last."""

    def __call__(self, call: Start | Reply | End) -> Step | Missing:
        live = self._live.pop(call.number, None)
        if isinstance(call, Start):
            if live is not None:
                live.episode.close()
            episode = self.env.start(call.task, call.key)
            self._keep(call.number, Live(episode))
            tokens, launch = getattr(episode, "tokens", None), getattr(episode, "launch", None)
            return Step(messages=episode.messages, done=False, tokens=tokens, launch=launch)
        if live is None:
            return Missing()
        if isinstance(call, End) or live.turns != call.turn:
            live.episode.close()
            return Missing()
        return self._step(call, live)

    def _step(self, call: Reply, live: Live) -> Step:
        try:
            step = live.episode.step(call.text)
        except BaseException:
            live.episode.close()
            raise
        live.turns += 1
        if not isinstance(step, Step) or step.done:
            live.episode.close()
        else:
            self._keep(call.number, live)
        return step

    def _keep(self, number: int, live: Live) -> None:
        if len(self._live) >= self.kept:
            self._live.popitem()[1].episode.close()
        self._live[number] = live

    def __getstate__(self) -> tuple[Carried, int]:
        return Carried.of(self.env), self.kept

    def __setstate__(self, state: tuple[Carried, int]) -> None:
        self.__init__(state[0].load(), state[1])  # type: ignore[misc]
