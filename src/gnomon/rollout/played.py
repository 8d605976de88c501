"""An episode that has ended, the rollout of each of its players, and how it is kept until its step is recorded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from gnomon.envs.base import Step
from gnomon.envs.workers import verdicts_of
from gnomon.rollout.speakers import Speaker
from gnomon.store import Record
from gnomon.store.codec import decode, encode
from gnomon.types import Calls, Finish, Group, Rollout, Status, Stop, Task, Turn

__all__ = ["Finished", "Kept", "Played"]

LIMITS = (Stop.TURNS, Stop.CONTEXT, Stop.TIME)
"""Reasons that are of the episode; the others follow from its turns and its verdict."""
STOPS = {Status.EXCEEDED: Stop.EXCEEDED, Status.FAILED: Stop.FAILED}


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """One finished episode."""

    task: Task
    speakers: tuple[Speaker, ...]
    """One speaker per player."""
    turns: tuple[tuple[Turn, ...], ...]
    """The turns of every player."""
    step: Step
    """The last step, with the verdicts."""
    stop: Stop | None
    """The limit that ended it; None if the environment ended it."""
    end: str = ""
    """As in `Rollout.end`."""
    calls: tuple[Calls, ...]
    """As in `Rollout.calls`, of every player."""

    def rollout(self, player: int = 0, sample: int = 0) -> Rollout:
        """The rollout of one player. Args: sample: its number among the rollouts of the task."""
        turns, verdict = self.turns[player], verdicts_of(self.step)[player]
        assert verdict is not None
        stop = self.stop or STOPS.get(verdict.status)
        if stop is None and self.end:
            stop = Stop.DONE
        elif stop is None:
            truncated = turns and turns[-1].completion.finish is Finish.LENGTH
            stop = Stop.TRUNCATED if truncated else Stop.DONE
        return Rollout(
            task=self.task,
            sample=sample,
            turns=turns,
            verdict=verdict,
            stop=stop,
            player=player,
            end=self.end,
            calls=self.calls[player],
        )

    @property
    def failed(self) -> bool:
        """Whether the environment failed."""
        first = verdicts_of(self.step)[0]
        return first is not None and first.status is Status.FAILED


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


class Kept:
    """Keeps the episodes as records."""

    def __init__(self, files: Files) -> None:
        self._files = files

    def get(self, step: int, name: str, task: Task, speakers: Sequence[Speaker]) -> Played | None:
        groups = list(decode(self._files.get(step, name), lambda split, index: task))
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
