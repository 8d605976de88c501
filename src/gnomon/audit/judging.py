"""Ask a verifier where it can do no harm: every call in a worker that can be killed, and an account of each.

`Court` is our side; what runs in a worker is a function of the subject as it was `Sent` there.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import TracebackType
from typing import Any, Literal, Self

from gnomon.audit.subject import Subject
from gnomon.envs import offers
from gnomon.envs.base import Env
from gnomon.envs.blame import line, place, raised
from gnomon.envs.episodes import Fault
from gnomon.errors import GnomonError
from gnomon.types import Part, Status, Task, Verdict
from gnomon.verifiers import Verifier
from gnomon.workers import Carried, Died, Exceeded, Outcome, Pool, Raised, Returned

__all__ = ["SECONDS", "Bench", "Court", "Ruling", "Sent", "Unopened", "ruling_of"]

SECONDS = 1.0
"""CPU time limit of one verdict."""
WALL = 8.0
"""Wall-clock limit of one verdict, in seconds; longer than the CPU limit, because the machine may be busy."""
PATIENCE = 20
"""Factor on these limits for a probe of many verdicts."""
SHIFT = 0.1
"""Seconds after which a worker returns the verdicts it has."""
BATCH = 64
"""Calls in one batch for a worker."""
ROUND = 16
"""Batches sent before results are read."""
KILLS = 24
"""Maximum number of workers killed for one verifier, so that one that always hangs does not take minutes."""
MEMORY = 2**30
"""Limit of address space per verdict, in bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ruling:
    """What came of one call."""

    index: int
    """Index of the task."""
    reply: str = field(repr=False)
    outcome: Literal["verdict", "raised", "invalid", "exceeded", "died", "unasked"]
    status: Status | None = None
    """None without a verdict."""
    reward: float = math.nan
    parts: tuple[Part, ...] = ()
    extracted: str | None = None
    """At most its first 200 characters."""
    span: tuple[int, int] | None = None
    detail: str = ""
    """The reason in the verdict, or what happened instead of a verdict."""
    place: str = ""
    """The place in the code that raised."""
    seconds: float = 0.0
    """Of processor time."""

    @property
    def correct(self) -> bool:
        return self.status is Status.CORRECT

    @property
    def same(self) -> tuple[object, ...]:
        """What must be equal when the same is asked again."""
        return self.outcome, self.status, self.parts, self.extracted  # No reward: NaN is not equal to itself.

    def __str__(self) -> str:
        if self.status is None:
            return f"{self.outcome}: {self.detail}" + (f" at {self.place}" if self.place else "")
        return f"{self.status.value}, reward {self.reward:g}" + (f" ({self.detail})" if self.detail else "")


@dataclass(slots=True)
class Bench:
    """The subject, in a worker."""

    verifier: Verifier
    tasks: tuple[Task, ...]
    env: Env | None


@dataclass(frozen=True)
class Sent:
    """A subject in a worker, which calls probes of it."""

    carried: Carried

    @classmethod
    def of(cls, subject: Subject) -> Sent:
        """Raises: what pickling raises."""
        return cls(Carried.of((subject.verifier, subject.tasks, subject.env)))

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Opened where it arrives, so that no verdict is charged with what its verifier imports."""
        self.__dict__.update(state)
        with suppress(Exception):  # It is told by the first call.
            self.bench  # noqa: B018

    def __call__(self, probe: Callable[..., Any], *given: Any) -> Any:
        """Raises: Unopened, where the subject cannot be made here."""
        try:
            bench = self.bench
        except Exception as error:
            told = f"{error.what}; {error.fix}" if isinstance(error, GnomonError) else raised(error)
            raise Unopened(told) from error
        return probe(bench, *given)

    @property
    def bench(self) -> Bench:
        if self.carried not in OPENED:
            OPENED[self.carried] = Bench(*self.carried.opened())
        return OPENED[self.carried]


class Unopened(Exception):
    """What a subject needs cannot be imported in a worker; the message says why."""


OPENED: dict[Carried, Bench] = {}
"""Once per worker, not once per job."""


class Court:
    """Our side: calls go out in batches, and what kills a worker is found again one by one."""

    def __init__(
        self,
        subject: Subject,
        *,
        workers: int = 2,
        variables: Mapping[str, str] | None = None,
    ) -> None:
        """Raises: what pickling the subject raises; ImportError when a fresh process cannot import our own module."""
        self.sent, self.workers = Sent.of(subject), workers
        self.imports = offers.imports(subject.verifier)
        self.variables = {"PYTHONHASHSEED": "0", **(variables or {})}
        self.seen: list[Ruling] = []
        """All verdicts so far."""
        self.kills = 0

    @cached_property
    def pool(self) -> Pool:
        """Opened by the first call."""
        return Pool(
            self.sent, self.workers, seconds=SECONDS, wall=WALL, memory=MEMORY, output=2**24, retries=0,
            variables=self.variables, imports=self.imports,
        )  # fmt: skip

    def ask(self, probe: Callable[..., Any], *given: Any, fresh: bool = False, patience: float = PATIENCE) -> Outcome:
        """What one worker says to a probe, a function at the top of a module that takes the `Bench` first.

        Args:
            fresh: the worker has judged nothing before.
            patience: times as much time as one verdict may take.
        """
        return self.pool.map([(probe, *given)], fresh=fresh, patience=patience)[0]

    def judge(self, calls: Iterable[tuple[int, str]]) -> list[Ruling]:
        """A ruling for every (task index, reply), in order. After `KILLS` killed workers nothing more is asked."""
        asked = list(calls)
        found: dict[int, Ruling] = {}
        waiting = deque(list(range(start, min(start + BATCH, len(asked)))) for start in range(0, len(asked), BATCH))
        while waiting and self.kills < KILLS:
            chunks = [waiting.popleft() for _ in range(min(len(waiting), ROUND))]
            jobs = [(judge_some, [asked[place] for place in chunk]) for chunk in chunks]
            for chunk, outcome in zip(chunks, self.pool.map(jobs), strict=True):
                if isinstance(outcome, Returned):
                    found.update(zip(chunk, outcome.value, strict=False))
                    if rest := chunk[len(outcome.value) :]:
                        waiting.append(rest)
                    continue
                slept = isinstance(outcome, Exceeded) and outcome.resource == "wall"
                self.kills += 0 if isinstance(outcome, Raised) else 4 if slept else 1
                if len(chunk) == 1:
                    found[chunk[0]] = instead(outcome, *asked[chunk[0]])
                else:  # One of them ended the worker before it could tell which.
                    waiting.extend([place] for place in chunk)
        rulings = [
            replace(found[place], reply=reply)
            if place in found
            else Ruling(index=index, reply=reply, outcome="unasked")
            for place, (index, reply) in enumerate(asked)
        ]
        self.seen += rulings
        return rulings

    def close(self) -> None:
        if "pool" in self.__dict__:
            self.pool.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()


def judge_some(bench: Bench, calls: Sequence[tuple[int, str]]) -> list[Ruling]:
    """In a worker: as many rulings as fit into a shift, and at least one."""
    due = time.process_time() + SHIFT
    rulings: list[Ruling] = []
    for index, reply in calls:
        rulings.append(replace(ruling_of(bench, index, reply), reply=""))  # The caller has the reply.
        if time.process_time() > due:
            break
    return rulings


def ruling_of(bench: Bench, index: int, reply: str, task: Task | None = None) -> Ruling:
    """In a worker: one call. Raises: MemoryError, for which the worker is blamed and not the verifier.

    Args: task: to judge in the place of the subject's own.
    """
    began = time.process_time()
    try:
        verdict: Any = bench.verifier.verify(bench.tasks[index] if task is None else task, reply)
        seconds = time.process_time() - began
        problem = unfit(verdict, bench.verifier.reward_range)
    except MemoryError:
        raise
    except Fault as fault:
        return Ruling(index=index, reply=reply, outcome="invalid", detail=str(fault))
    except BaseException as error:  # An exit or an interrupt that a verifier raises is its own doing too.
        where = place(error, bench.verifier)
        return Ruling(index=index, reply=reply, outcome="raised", detail=raised(error), place=where)
    if problem:
        return Ruling(index=index, reply=reply, outcome="invalid", detail=problem, seconds=seconds)
    return Ruling(
        index=index,
        reply=reply,
        outcome="verdict",
        status=verdict.status,
        reward=verdict.reward,
        parts=verdict.parts,
        extracted=None if verdict.extracted is None else verdict.extracted[:200],
        span=verdict.span,
        detail=line(verdict.detail)[:200],
        seconds=seconds,
    )


def unfit(verdict: Any, reward_range: tuple[float, float]) -> str:
    """Why a verdict is none; empty for one that is."""
    if not isinstance(verdict, Verdict):
        return f"{line(repr(verdict))} ({type(verdict).__name__}) instead of a verdict"
    low, high = reward_range
    if not math.isfinite(verdict.reward):
        return f"the reward {verdict.reward}, which is not finite"
    if not low - 1e-9 <= verdict.reward <= high + 1e-9:
        return f"the reward {verdict.reward:g}, outside reward_range ({low:g}, {high:g})"
    return ""


def instead(outcome: Outcome, index: int, reply: str) -> Ruling:
    """The account of a call that took its worker along."""
    match outcome:
        case Exceeded(resource):
            said = {
                "cpu": f"over {SECONDS:g} s of processor time",
                "wall": f"no verdict after {WALL:g} s",
                "memory": f"over {MEMORY // 2**20} MiB of memory",
                "output": "a verdict too large to send",
            }
            return Ruling(index=index, reply=reply, outcome="exceeded", detail=said[resource])
        case Died():
            return Ruling(index=index, reply=reply, outcome="died", detail="the process died during the call")
        case Raised(error):
            return Ruling(index=index, reply=reply, outcome="raised", detail=line(error))
        case Returned():
            raise AssertionError("a verdict came back after all")
