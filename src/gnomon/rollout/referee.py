"""The environment's side of episodes, played where it can be killed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gnomon.envs.base import Env, Step, seats
from gnomon.envs.replay import Replay
from gnomon.keys import Key
from gnomon.types import Task, Verdict
from gnomon.verifiers import Outcome, Pool, Returned
from gnomon.verifiers.judging import Retry, asettled, exceeded, failed, fault, settle

__all__ = ["Move", "Referee"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """An episode, and all that was said in it: what comes next is the environment's."""

    task: Task
    key: Key
    replies: tuple[str, ...] = ()


class Referee:
    """Plays an environment in processes of their own.

    What the policy does to a process counts: a step that uses up its time, memory or output ends the episode as
    `exceeded`, at the lowest reward. What the environment does is a failure of ours: it is tried again on a fresh
    process, and then ends the episode as `failed`.

    Args:
        workers: processes at most.
        seconds: of processor time for one step; ten times as long by the clock.
        memory: bytes of address space of a process.
        retries: how often a failed step is tried again.
    """

    def __init__(
        self, env: Env, *, workers: int = 2, seconds: float = 2.0, memory: int = 2**31, retries: int = 1
    ) -> None:
        self.reward_range, self.seats, self.retries = env.reward_range, seats(env), retries
        imports = getattr(env, "imports", ())
        self._pool = Pool(Replay(env), workers, seconds=seconds, memory=memory, retries=0, imports=imports)

    async def steps(self, moves: Sequence[Move]) -> list[Step]:
        """What the environment says to each move, in order. Never raises for what a move or the environment does."""
        jobs = [(move.task, move.key, move.replies) for move in moves]
        found: list[Step | Verdict] = await asettled(self._pool, jobs, self._settle, self.retries)
        return [self._end(step) if isinstance(step, Verdict) else step for step in found]

    def over(self, detail: str) -> Step:
        """The end of an episode that used up what an episode may take."""
        return self._end(exceeded(detail, self.reward_range))

    def _settle(self, outcome: Outcome) -> Step | Retry:
        if not isinstance(outcome, Returned):
            verdict = settle(outcome, self.reward_range)
            return verdict if isinstance(verdict, Retry) else self._end(verdict)
        if problem := self._problem(outcome.value):
            return Retry(failed(problem))
        step: Step = outcome.value
        return step

    def _end(self, verdict: Verdict) -> Step:
        """The end of an episode that the environment did not end."""
        return Step(done=True, verdict=verdict, verdicts=(verdict,) * self.seats)

    def _problem(self, step: object) -> str:
        """Why a step is none; empty for one that is."""
        if not isinstance(step, Step):
            return f"the environment gave {step!r:.400} in the place of a step"
        if not step.done:
            known = 0 <= step.seat < self.seats
            return "" if known else f"the environment has {self.seats} seats, and asked seat {step.seat}"
        verdicts = verdicts_of(step)
        if len(verdicts) != self.seats:
            return f"the environment gave {len(verdicts)} verdicts for {self.seats} seats"
        return next(filter(None, (fault(verdict, self.reward_range) for verdict in verdicts)), "")

    def close(self) -> None:
        """End its processes."""
        self._pool.close()


def verdicts_of(step: Step) -> tuple[Verdict | None, ...]:
    """Of every seat, in order."""
    return step.verdicts or (step.verdict,)
