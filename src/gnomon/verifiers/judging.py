"""Judge replies in worker processes that can be killed, and turn the outcome of every call into a verdict.

A reply that exceeds a limit is `EXCEEDED`, which counts against the policy. A verifier that breaks is `FAILED`, which
does not count against the policy. A call that may have failed by accident is first retried on a fresh worker. A
verdict depends only on the task and the reply: not on the order, the number of workers or the rest of the batch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass, replace
from functools import partial
from types import TracebackType
from typing import Any, Self, TypeVar

from gnomon.repeats import Repeats
from gnomon.types import Part, Status, Task, Verdict
from gnomon.verifiers.slot import Importing, Verifier
from gnomon.workers import Died, Exceeded, Outcome, Pool, Raised, Returned

__all__ = [
    "Judge",
    "Retry",
    "Tries",
    "ajudge_all",
    "asettle_all",
    "fault",
    "judge",
    "judge_all",
    "settle",
    "settle_all",
]

T = TypeVar("T")
Item = tuple[Task, str]
Job = tuple[Any, ...]

SLOW = 1
"""Retries of a job that exceeded only the wall-clock limit."""


@dataclass(frozen=True, slots=True)
class Retry:
    """The failure may be an accident; the call is retried on a fresh worker."""

    verdict: Verdict
    """The verdict if no retry succeeds."""


def settle(outcome: Outcome, reward_range: tuple[float, float]) -> Verdict | Retry:
    """The verdict that follows from the outcome of one verifier call, or a `Retry`."""
    match outcome:
        case Returned(value):
            wrong = fault(value, reward_range)
            return Retry(failure_verdict(wrong)) if wrong else value
        case Exceeded(resource):
            verdict = limit_verdict(f"judging it used up {LIMIT.format(NAMES[resource])}", reward_range)
            return Retry(verdict) if resource == "wall" else verdict
        case Raised(error, trace):
            return Retry(failure_verdict(trace or error))
        case Died(tries, why):
            times = f"{tries} time{'s' if tries != 1 else ''} in a row"
            return Retry(failure_verdict(f"the process that judged it died, {times}{': ' if why else ''}{why}"))


def fault(value: object, reward_range: tuple[float, float]) -> str:
    """Why a value is not a valid verdict; empty if it is."""
    if not isinstance(value, Verdict) or not isinstance(value.status, Status):
        return f"the verifier returned {value!r:.400} instead of a verdict"
    if value.status is Status.FAILED:
        return value.detail or "the verifier failed without a reason"
    low, high = reward_range
    try:
        reward = replace(value).reward  # A new instance, so that the checks of `Verdict` run.
    except (ValueError, TypeError, AttributeError) as error:
        return f"the verifier returned an invalid verdict: {error}"
    if not (math.isfinite(reward) and low - 1e-9 <= reward <= high + 1e-9):
        return f"the verifier gave the reward {reward}, outside its declared range {low} … {high}"
    return ""


def limit_verdict(detail: str, reward_range: tuple[float, float]) -> Verdict:
    """The verdict on a reply that exceeded the limit named in `detail`. It has the lowest possible reward."""
    low = reward_range[0]
    parts = (Part(name="exceeded", value=low),) if low else ()
    return Verdict(status=Status.EXCEEDED, parts=parts, detail=detail)


def failure_verdict(why: str) -> Verdict:
    """The verdict when the verifier broke."""
    return Verdict(status=Status.FAILED, parts=(), detail=why.rstrip())


LIMIT = "the limit of {}"
OVER_TIME = LIMIT.format("time")
"""In the detail of a verdict that a clock decided."""
NAMES = {"cpu": "time", "wall": "time", "memory": "memory", "output": "output"}
"""Limits by name. Both clocks are called "time", since which runs out first can differ between machines."""


class Tries:
    """Counts the retries of one job: up to `retries` if the verifier broke, and one if only the wall-clock limit was
    exceeded, since the machine may have been busy."""

    def __init__(self, retries: int) -> None:
        self._repeats = {Status.FAILED: Repeats(retries), Status.EXCEEDED: Repeats(SLOW)}

    def another(self, retry: Retry) -> bool:
        """Whether the job is retried after this failure. Counts that retry."""
        return self._repeats[retry.verdict.status].another(retry.verdict.detail)


def settle_all(
    pool: Pool, jobs: Iterable[Job], settle: Callable[[Outcome], T | Retry], retries: int = 1
) -> list[T | Verdict]:
    """The settled value of every job, in order.

    Args:
        settle: turns an outcome into a value. A job that gives a `Retry` runs again on a fresh worker.
        retries: retries after the verifier broke. A job that exceeded only the wall-clock limit is retried once.
    """
    rounds = _rounds(list(jobs), settle, retries)
    batch = next(rounds)
    try:
        while True:
            batch = rounds.send(pool.map(batch[0], fresh=batch[1]))
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]


async def asettle_all(
    pool: Pool, jobs: Iterable[Job], settle: Callable[[Outcome], T | Retry], retries: int = 1
) -> list[T | Verdict]:
    """`settle_all` without blocking the event loop."""
    rounds = _rounds(list(jobs), settle, retries)
    batch = next(rounds)
    try:
        while True:
            batch = rounds.send(await pool.amap(batch[0], fresh=batch[1]))
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]


def _rounds(
    jobs: list[Job], settle: Callable[[Outcome], T | Retry], retries: int
) -> Generator[tuple[list[Job], bool], list[Outcome], list[T | Verdict]]:
    """Yield the jobs to run: first all of them, then those to retry on fresh workers."""
    results: list[T | Verdict | None] = [None] * len(jobs)
    tries = [Tries(retries) for _ in jobs]
    waiting, fresh = list(range(len(jobs))), False
    while True:
        outcomes = yield [jobs[i] for i in waiting], fresh
        again = []
        for i, outcome in zip(waiting, outcomes, strict=True):
            result = settle(outcome)
            if isinstance(result, Retry) and tries[i].another(result):
                again.append(i)
            else:
                results[i] = result.verdict if isinstance(result, Retry) else result
        if not again:
            return results  # type: ignore[return-value]
        waiting, fresh = again, True


def judge_all(verifier: Verifier, pool: Pool, items: Iterable[Item], retries: int = 1) -> list[Verdict]:
    """The verdict on every (task, reply), in order. The pool runs `verifier.verify`."""
    return settle_all(pool, items, partial(settle, reward_range=verifier.reward_range), retries)


async def ajudge_all(verifier: Verifier, pool: Pool, items: Iterable[Item], retries: int = 1) -> list[Verdict]:
    """`judge_all` without blocking the event loop."""
    return await asettle_all(pool, items, partial(settle, reward_range=verifier.reward_range), retries)


class Judge:
    """A verifier with the pool that it runs in.

    Args:
        workers: largest number of processes.
        seconds: CPU seconds that one judgement may take.
        wall: wall-clock seconds that one judgement may take; ten times `seconds` by default.
        memory: address space of a worker, in bytes.
        output: largest pickled verdict, in bytes.
        retries: retries of a judgement that broke, each on a fresh worker.
    """

    def __init__(
        self,
        verifier: Verifier,
        workers: int = 2,
        *,
        seconds: float = 1.0,
        wall: float | None = None,
        memory: int = 2**30,
        output: int = 2**20,
        retries: int = 1,
    ) -> None:
        self.verifier, self.retries = verifier, retries
        # The pool itself does not retry: retries use fresh workers and are counted here.
        self._pool = Pool(
            verifier.verify,
            workers,
            seconds=seconds,
            wall=wall,
            memory=memory,
            output=output,
            retries=0,
            imports=verifier.imports if isinstance(verifier, Importing) else (),
        )

    def judge(self, items: Iterable[Item]) -> list[Verdict]:
        """The verdict on every (task, reply), in order. Can be called from any thread."""
        return judge_all(self.verifier, self._pool, items, self.retries)

    async def ajudge(self, items: Iterable[Item]) -> list[Verdict]:
        """`judge_all` without blocking the event loop. Cancelling it kills the running calls."""
        return await ajudge_all(self.verifier, self._pool, items, self.retries)

    def close(self) -> None:
        self._pool.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()


def judge(verifier: Verifier, items: Iterable[Item], *, workers: int = 2, seconds: float = 1.0) -> list[Verdict]:
    """The verdict on every (task, reply), in order. Starts workers for the call and ends them."""
    with Judge(verifier, workers, seconds=seconds) as owner:
        return owner.judge(items)
