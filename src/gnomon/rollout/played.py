"""An episode that has ended, and the rollout of each of its players."""

from __future__ import annotations

from dataclasses import dataclass

from gnomon.envs.base import Step
from gnomon.envs.workers import verdicts_of
from gnomon.rollout.speakers import Speaker
from gnomon.types import Calls, Finish, Rollout, Status, Stop, Task, Turn

__all__ = ["Played"]

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
    """As of `Rollout.end`."""
    calls: tuple[Calls, ...]
    """As of `Rollout.calls`, of every player."""

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
