"""Episodes that somebody else plays: every step is asked with all that was said, and judged where it can be killed."""

from __future__ import annotations

from collections.abc import Iterable
from types import TracebackType
from typing import Self

from gnomon.envs.base import Env, Step, seats
from gnomon.envs.replay import Replay
from gnomon.keys import Key
from gnomon.types import Task, Verdict
from gnomon.verifiers import Outcome, Pool, Returned
from gnomon.verifiers.judging import Retry, failed, fault, settle, settled

__all__ = ["Plays"]

Job = tuple[Task, Key, tuple[str, ...]]


class Plays:
    """The steps of an environment, from any thread. A judge that breaks gives the verdict `failed`, never a zero.

    Args:
        workers: processes at most.
        seconds: of processor time for one step; ten times as long by the clock.
    """

    def __init__(self, env: Env, *, workers: int = 2, seconds: float = 2.0) -> None:
        self.env = env
        self.seats = seats(env)
        self._pool = Pool(Replay(env), workers, seconds=seconds, memory=2**31, retries=0)

    def steps(self, jobs: Iterable[Job]) -> list[Step]:
        """What the environment says to each of some episodes, in order. Args: jobs: task, key and what was said."""
        found: list[Step | Verdict] = settled(self._pool, jobs, self._settle, 1)
        return [self._end(step) if isinstance(step, Verdict) else step for step in found]

    def verdicts(self, items: Iterable[tuple[Task, str]]) -> list[Verdict]:
        """The verdicts on single replies, of an environment of one turn."""
        steps = self.steps((task, Key(0).at("outward", task=task.id), (reply,)) for task, reply in items)
        return [step.verdict or failed("the environment wants another reply") for step in steps]

    def _settle(self, outcome: Outcome) -> Step | Retry:
        if not isinstance(outcome, Returned):
            verdict = settle(outcome, self.env.reward_range)
            return verdict if isinstance(verdict, Retry) else self._end(verdict)
        step = outcome.value
        if not isinstance(step, Step):
            return Retry(failed(f"the environment gave {step!r:.200} in the place of a step"))
        verdicts = step.verdicts or (step.verdict,)
        if step.done and len(verdicts) != self.seats:
            return Retry(failed(f"the environment returned {len(verdicts)} verdicts for {self.seats} players"))
        problems = (fault(verdict, self.env.reward_range) for verdict in verdicts if step.done)
        problem = next(filter(None, problems), "")
        return Retry(failed(problem)) if problem else step

    def _end(self, verdict: Verdict) -> Step:
        if self.seats == 1:
            return Step(done=True, verdict=verdict)
        return Step(done=True, verdicts=(verdict,) * self.seats)

    def close(self) -> None:
        """End its processes."""
        self._pool.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()
