"""Episodes that finished before their step was recorded: stored at once, and read back by a resumed run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from gnomon.envs.base import Step
from gnomon.rollout.played import Played
from gnomon.rollout.speakers import Speaker
from gnomon.store import Record
from gnomon.store.codec import decode, encode
from gnomon.types import Group, Stop, Task

__all__ = ["Finished", "Kept", "NotKept"]

LIMITS = (Stop.TURNS, Stop.CONTEXT, Stop.TIME)
"""Reasons that are of the episode; the others follow from its turns and its verdict."""


class Files(Protocol):
    """Episodes of steps that are not recorded yet, as `store.Unfinished` keeps them."""

    def get(self, step: int, name: str) -> list[Record]: ...

    def add(self, step: int, name: str, records: Sequence[Record]) -> None: ...


class Finished(Protocol):
    """Keeps episodes until their step is recorded."""

    def get(self, step: int, name: str, task: Task, speakers: Sequence[Speaker]) -> Played | None:
        """An episode of a step that was finished before; None where it has to be played."""
        ...

    def add(self, step: int, name: str, index: int, played: Played) -> None:
        """Keep an episode. Args: name: stands for all that decides it; index: of its task."""
        ...


class NotKept:
    """Every episode is played."""

    def get(self, step: int, name: str, task: Task, speakers: Sequence[Speaker]) -> None:
        """There is none."""

    def add(self, step: int, name: str, index: int, played: Played) -> None:
        """Nothing is kept."""


class Kept:
    """Keeps the episodes as records."""

    def __init__(self, files: Files) -> None:
        self._files = files

    def get(self, step: int, name: str, task: Task, speakers: Sequence[Speaker]) -> Played | None:
        groups = list(decode(self._files.get(step, name), lambda split, place: task))
        if not groups:
            return None
        rollouts = groups[0].rollouts
        verdicts = tuple(rollout.verdict for rollout in rollouts)
        stop = rollouts[0].stop if rollouts[0].stop in LIMITS else None
        last = Step(done=True, verdict=verdicts[0], verdicts=verdicts)
        turns = tuple(rollout.turns for rollout in rollouts)
        return Played(
            task=task,
            speakers=tuple(speakers),
            turns=turns,
            step=last,
            stop=stop,
            end=rollouts[0].end,
            calls=tuple(rollout.calls for rollout in rollouts),
        )

    def add(self, step: int, name: str, index: int, played: Played) -> None:
        """One that the environment failed in is not kept: it may succeed when it is played again."""
        if played.failed:
            return
        rollouts = tuple(played.rollout(player, player) for player in range(len(played.turns)))
        group = Group(task=played.task, index=index, rollouts=rollouts)
        self._files.add(step, name, list(encode(group, kind="rollout", step=step)))
