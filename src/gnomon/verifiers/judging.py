"""Judge many replies where judging can be killed: what became of each call is turned into a verdict, once, here.

A reply that uses up its limits is `EXCEEDED`, which counts against the policy; a judge that breaks is `FAILED`, which
counts against nobody. Whatever may be an accident is tried again on a fresh worker first. A verdict depends on its
task and reply alone: not on the order, the number of workers or the neighbours in the batch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass, replace
from functools import partial
from types import TracebackType
from typing import Any, Self, TypeVar

from gnomon.types import Part, Status, Task, Verdict
from gnomon.verifiers.slot import Importing, Verifier
from gnomon.workers import Died, Exceeded, Outcome, Pool, Raised, Returned

__all__ = ["Judge", "Retry", "Tries", "ajudged", "asettled", "fault", "judge", "judged", "settle", "settled"]

T = TypeVar("T")
Item = tuple[Task, str]
Job = tuple[Any, ...]

SLOW = 1
"""How often a job that took too long by the clock alone is tried again."""


@dataclass(frozen=True, slots=True)
class Retry:
    """It may have been an accident: to be tried again on a fresh worker."""

    verdict: Verdict
    """What it is when trying again does not help."""


def settle(outcome: Outcome, reward_range: tuple[float, float]) -> Verdict | Retry:
    """The verdict that the outcome of one call of a verifier amounts to, or that it has to be tried again."""
    match outcome:
        case Returned(value):
            wrong = fault(value, reward_range)
            return Retry(failed(wrong)) if wrong else value
        case Exceeded(resource):
            spent = exceeded(f"judging it used up the limit of {NAMES[resource]}", reward_range)
            return Retry(spent) if resource == "wall" else spent
        case Raised(error, trace):
            return Retry(failed(trace or error))
        case Died(tries, why):
            times = f"{tries} time{'s' if tries != 1 else ''} in a row"
            return Retry(failed(f"the process that judged it died, {times}{': ' if why else ''}{why}"))


def fault(value: object, reward_range: tuple[float, float]) -> str:
    """Why a value is no verdict that a reply may get; empty when it is one."""
    if not isinstance(value, Verdict) or not isinstance(value.status, Status):
        return f"the verifier returned {value!r:.400} instead of a verdict"
    if value.status is Status.FAILED:
        return value.detail or "the verifier says that it failed, and not why"
    low, high = reward_range
    try:
        reward = replace(value).reward  # Made anew, so that what a verdict checks of itself holds.
    except (ValueError, TypeError, AttributeError) as error:
        return f"the verifier returned an invalid verdict: {error}"
    if not (math.isfinite(reward) and low - 1e-9 <= reward <= high + 1e-9):
        return f"the verifier gave the reward {reward}, outside its declared range {low} … {high}"
    return ""


def exceeded(detail: str, reward_range: tuple[float, float]) -> Verdict:
    """The verdict on a reply that used up what it may take, as `detail` says: the lowest reward there is."""
    low = reward_range[0]
    parts = (Part(name="exceeded", value=low),) if low else ()
    return Verdict(status=Status.EXCEEDED, parts=parts, detail=detail)


def failed(why: str) -> Verdict:
    """The verdict that there is none: the judge broke."""
    return Verdict(status=Status.FAILED, parts=(), detail=why.rstrip())


NAMES = {"cpu": "time", "wall": "time", "memory": "memory", "output": "output"}
"""Which of the two clocks ran out first can differ from machine to machine; a verdict does not say."""


class Tries:
    """How often one job may be tried again: as often as `retries` when the judge broke, and once when it took too long
    by the clock alone, since the machine may have been busy."""

    def __init__(self, retries: int) -> None:
        self._left = {Status.FAILED: retries, Status.EXCEEDED: SLOW}

    def another(self, retry: Retry) -> bool:
        """Whether it is to be tried again after this; that try is counted."""
        status = retry.verdict.status
        self._left[status] -= 1
        return self._left[status] >= 0


def settled(
    pool: Pool, jobs: Iterable[Job], settle: Callable[[Outcome], T | Retry], retries: int = 1
) -> list[T | Verdict]:
    """What every job's outcome amounts to, in order.

    Args:
        settle: of an outcome; a `Retry` is tried again on a fresh worker.
        retries: how often, when the judge broke; one that took too long by the clock is tried again once.
    """
    rounds = _rounds(list(jobs), settle, retries)
    batch = next(rounds)
    try:
        while True:
            batch = rounds.send(pool.map(batch[0], fresh=batch[1]))
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]


async def asettled(
    pool: Pool, jobs: Iterable[Job], settle: Callable[[Outcome], T | Retry], retries: int = 1
) -> list[T | Verdict]:
    """`settled` without blocking the event loop."""
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
    """Asks for the outcomes of jobs, all of them first, then of those to be tried again, on fresh workers."""
    found: list[T | Verdict | None] = [None] * len(jobs)
    tries = [Tries(retries) for _ in jobs]
    waiting, fresh = list(range(len(jobs))), False
    while True:
        outcomes = yield [jobs[place] for place in waiting], fresh
        again = []
        for place, outcome in zip(waiting, outcomes, strict=True):
            result = settle(outcome)
            if isinstance(result, Retry) and tries[place].another(result):
                again.append(place)
            else:
                found[place] = result.verdict if isinstance(result, Retry) else result
        if not again:
            return found  # type: ignore[return-value]
        waiting, fresh = again, True


def judged(verifier: Verifier, pool: Pool, items: Iterable[Item], retries: int = 1) -> list[Verdict]:
    """The verdict on every (task, reply), in order. The pool runs `verifier.verify`."""
    return settled(pool, items, partial(settle, reward_range=verifier.reward_range), retries)


async def ajudged(verifier: Verifier, pool: Pool, items: Iterable[Item], retries: int = 1) -> list[Verdict]:
    """`judged` without blocking the event loop."""
    return await asettled(pool, items, partial(settle, reward_range=verifier.reward_range), retries)


class Judge:
    """A verifier with the pool that it runs in.

    Args:
        workers: processes at most.
        seconds: of processor time that one judgement may take.
        wall: seconds it may take by the clock; ten times `seconds` if not given.
        memory: bytes of address space of a worker.
        output: bytes of a pickled verdict.
        retries: how often a judgement that broke is tried again on a fresh worker.
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
        # The pool's own retries are none: a job is tried again on a fresh worker only, and counted once.
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

    def judged(self, items: Iterable[Item]) -> list[Verdict]:
        """The verdict on every (task, reply), in order; from any thread."""
        return judged(self.verifier, self._pool, items, self.retries)

    async def ajudged(self, items: Iterable[Item]) -> list[Verdict]:
        """`judged` without blocking the event loop; cancelling it kills what is on its way."""
        return await ajudged(self.verifier, self._pool, items, self.retries)

    def close(self) -> None:
        self._pool.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()


def judge(verifier: Verifier, items: Iterable[Item], *, workers: int = 2, seconds: float = 1.0) -> list[Verdict]:
    """The verdict on every (task, reply), in order, by workers that are started for it and ended."""
    with Judge(verifier, workers, seconds=seconds) as owner:
        return owner.judged(items)
