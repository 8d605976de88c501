"""Run a verifier in worker processes that can be killed, and record the outcome of every call.

`VerifierWorkers` is the caller's side. Functions in a worker receive the subject, which was `Sent` there.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import TracebackType
from typing import Any, Literal, Self

from gnomon.audit.subject import Subject, VerdictLimits
from gnomon.envs import offers
from gnomon.envs.base import Env
from gnomon.envs.blame import blamed_line, describe, line
from gnomon.envs.episodes import Fault
from gnomon.errors import GnomonError
from gnomon.integrations.rewards.base import clip
from gnomon.sandbox import Limits
from gnomon.types import Part, Status, Task, Verdict
from gnomon.verifiers import Verifier
from gnomon.workers import Carried, Died, Exceeded, Outcome, Pool, Raised, Resource, Returned, own_cpu

__all__ = ["Bench", "Judgement", "Sent", "Unopened", "VerifierWorkers", "judgement_of"]

WALL, SPARE = 8.0, 3.0
"""Wall-clock limit of one verdict as a multiple of its CPU limit, because the machine may be busy. A verifier that runs
code ends it at a limit of its own, so it gets `SPARE` seconds more than that."""
PATIENCE = 20
"""Factor on these limits for a probe of many verdicts."""
SHIFT = 0.1
"""Seconds after which a worker returns the verdicts it has."""
BATCH = 64
"""Calls in one batch for a worker."""
ROUND = 16
"""Batches sent before results are read."""
KILLS = 24
"""Maximum number of workers killed for one verifier, so that one that often hangs does not take minutes."""
SILENT = 4
"""The same for a verifier without any verdict yet."""
FIRST = 2
"""Number of calls that such a verifier gets at a time, each in a worker of its own."""
NO_MEMORY = ("annot allocate memory", "failed to map segment", "bad_alloc")
"""What C libraries say when they get no memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """The outcome of one call: a verdict, or why there is none."""

    index: int
    """Index of the task."""
    reply: str = field(repr=False)
    outcome: Literal["verdict", "raised", "invalid", "exceeded", "died", "unasked"]
    status: Status | None = None
    """None without a verdict."""
    reward: float = math.nan
    """Without a verdict, a reward outside the range; NaN if there is none."""
    parts: tuple[Part, ...] = ()
    extracted: str | None = None
    """At most its first 200 characters."""
    span: tuple[int, int] | None = None
    detail: str = ""
    """The reason in the verdict, or what happened instead of a verdict."""
    resource: Resource | None = None
    """The limit that was exceeded."""
    place: str = ""
    """The place in the code that raised."""
    error: GnomonError | None = field(default=None, repr=False, compare=False)
    """What was raised, where it has a code and a fix of its own."""
    seconds: float = 0.0
    """CPU seconds, without imports."""

    @property
    def correct(self) -> bool:
        return self.status is Status.CORRECT

    @property
    def same(self) -> tuple[object, ...]:
        """The fields that must be equal when a call is repeated."""
        return self.outcome, self.status, self.parts, self.extracted  # No reward: NaN is not equal to itself.

    def __str__(self) -> str:
        if self.status is None:
            return f"{self.outcome}: {self.detail}" + (f" at {self.place}" if self.place else "")
        return f"{self.status.value}, reward {self.reward:g}" + (f" ({self.detail})" if self.detail else "")


@dataclass(slots=True)
class Bench:
    """The subject inside a worker."""

    verifier: Verifier
    tasks: tuple[Task, ...]
    env: Env | None


@dataclass(frozen=True)
class Sent:
    """A subject that can be sent to a worker, where it calls probes."""

    carried: Carried

    @classmethod
    def of(cls, subject: Subject) -> Sent:
        """Pickle a subject. Raises: exceptions of pickling."""
        return cls(Carried.of((subject.verifier, subject.tasks, subject.env)))

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Unpickle the subject on arrival, so that its imports do not count as time of a verdict."""
        self.__dict__.update(state)
        with suppress(Exception):  # The first call reports the error.
            self.bench  # noqa: B018

    def __call__(self, probe: Callable[..., Any], *arguments: Any) -> Any:
        """Call a probe. Raises: Unopened if the subject cannot be unpickled here."""
        try:
            bench = self.bench
        except Exception as error:
            why = f"{error.what}; {error.fix}" if isinstance(error, GnomonError) else describe(error)
            raise Unopened(why) from error
        return probe(bench, *arguments)

    @property
    def bench(self) -> Bench:
        if self.carried not in OPENED:
            OPENED[self.carried] = Bench(*self.carried.load())
        return OPENED[self.carried]


class Unopened(Exception):
    """A subject's imports fail in a worker. The message gives the reason."""


OPENED: dict[Carried, Bench] = {}
"""Unpickled subjects, cached per worker."""


class VerifierWorkers:
    """Sends calls in batches to workers. After a worker was killed, its calls are repeated one by one."""

    def __init__(
        self,
        subject: Subject,
        *,
        workers: int = 2,
        variables: Mapping[str, str] | None = None,
    ) -> None:
        """Raises: exceptions of pickling the subject; ImportError if a new process cannot import this package."""
        self.sent, self.workers = Sent.of(subject), workers
        self.imports = offers.imports(subject.verifier)
        self.variables = {"PYTHONHASHSEED": "0", **(variables or {})}
        self.judgements: list[Judgement] = []
        """All verdicts so far."""
        self.watch: Callable[[int], None] = lambda judged: None
        """Called after every round with the number of judgements."""
        self.kills, self.most_kills = 0, SILENT
        self.limits, sandbox = subject.limits, getattr(subject.verifier, "limits", None)
        self.wall = WALL * self.limits.seconds
        if isinstance(sandbox, Limits):
            self.wall = max(self.wall, sandbox.wall_seconds + SPARE)

    @cached_property
    def pool(self) -> Pool:
        """The pool, started by the first call."""
        return Pool(
            self.sent, self.workers, seconds=self.limits.seconds, wall=self.wall, memory=self.limits.memory,
            output=2**24, retries=0, variables=self.variables, imports=self.imports,
        )  # fmt: skip

    def ask(
        self, probe: Callable[..., Any], *arguments: Any, fresh: bool = False, patience: float = PATIENCE
    ) -> Outcome:
        """The outcome of a probe in one worker. A probe is a module-level function whose first argument is the `Bench`.

        Args:
            fresh: use a new worker.
            patience: factor on the time limits of one verdict.
        """
        return self.pool.map([(probe, *arguments)], fresh=fresh, patience=patience)[0]

    @property
    def mute(self) -> bool:
        """Whether nothing more is asked, and no call has returned."""
        return self.most_kills == SILENT <= self.kills

    def judge(self, calls: Iterable[tuple[int, str]]) -> list[Judgement]:
        """A judgement for every (task index, reply), in order. Stops when too many workers were killed."""
        items = list(calls)
        by_item: dict[int, Judgement] = {}
        alone = min(FIRST, len(items)) if self.most_kills == SILENT else 0
        waiting = deque([i] for i in range(alone))
        waiting.extend(list(range(at, min(at + BATCH, len(items)))) for at in range(alone, len(items), BATCH))
        while waiting and self.kills < self.most_kills:
            most = FIRST if self.most_kills == SILENT else ROUND
            chunks = [waiting.popleft() for _ in range(min(len(waiting), most))]
            jobs = [(judge_some, [items[i] for i in chunk]) for chunk in chunks]
            for chunk, outcome in zip(chunks, self.pool.map(jobs), strict=True):
                if isinstance(outcome, Returned):
                    self.most_kills = KILLS
                    by_item.update(zip(chunk, outcome.value, strict=False))
                    if rest := chunk[len(outcome.value) :]:
                        waiting.append(rest)
                    continue
                slept = isinstance(outcome, Exceeded) and outcome.resource == "wall"
                self.kills += 0 if isinstance(outcome, Raised) else 4 if slept else 1
                if len(chunk) == 1:
                    by_item[chunk[0]] = instead(outcome, *items[chunk[0]], self.limits, self.wall)
                else:  # One of the calls ended the worker, and it is not known which.
                    waiting.extend([i] for i in chunk)
            self.watch(len(self.judgements) + len(by_item))
        judgements = [
            replace(by_item[i], reply=reply) if i in by_item else Judgement(index=index, reply=reply, outcome="unasked")
            for i, (index, reply) in enumerate(items)
        ]
        self.judgements += judgements
        return judgements

    def close(self) -> None:
        if "pool" in self.__dict__:
            self.pool.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()


def judge_some(bench: Bench, calls: Sequence[tuple[int, str]]) -> list[Judgement]:
    """In a worker: as many judgements as fit into `SHIFT`, and at least one."""
    due = own_cpu() + SHIFT
    judgements: list[Judgement] = []
    for index, reply in calls:
        judgements.append(replace(judgement_of(bench, index, reply), reply=""))  # The caller has the reply.
        if own_cpu() > due:
            break
    return judgements


def judgement_of(bench: Bench, index: int, reply: str, task: Task | None = None) -> Judgement:
    """In a worker: one call. Raises: MemoryError, which counts against the worker and not the verifier.

    Args: task: replaces the subject's task.
    """
    began = own_cpu()
    try:
        verdict: Any = bench.verifier.verify(bench.tasks[index] if task is None else task, reply)
        seconds = own_cpu() - began
        problem = unfit(verdict, bench.verifier.reward_range)
    except Fault as fault:
        return Judgement(index=index, reply=reply, outcome="invalid", detail=str(fault))
    except BaseException as error:  # Exits and interrupts that a verifier raises are its own faults too.
        if lacks_memory(error):
            raise MemoryError from error
        where, outside = blamed_line(error, bench.verifier), getattr(error, "reward", math.nan)
        own = error if isinstance(error, GnomonError) else None
        return Judgement(
            index=index, reply=reply, outcome="raised", detail=describe(error), place=where, reward=outside, error=own
        )
    if problem:
        outside = getattr(verdict, "reward", math.nan)
        return Judgement(index=index, reply=reply, outcome="invalid", detail=problem, seconds=seconds, reward=outside)
    return Judgement(
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


def lacks_memory(error: BaseException) -> bool:
    """Whether an error says that there was no memory."""
    return isinstance(error, MemoryError) or any(words in str(error) for words in NO_MEMORY)


def unfit(verdict: Any, reward_range: tuple[float, float]) -> str:
    """Why a verdict is invalid; empty if it is valid."""
    if not isinstance(verdict, Verdict):
        return f"{line(repr(verdict))} ({type(verdict).__name__}) instead of a verdict"
    low, high = reward_range
    if not math.isfinite(verdict.reward):
        return f"the reward {verdict.reward}, which is not finite"
    if not low <= clip(verdict.reward, low, high) <= high:
        return f"the reward {verdict.reward:.8g}, outside reward_range ({low:g}, {high:g})"
    return ""


def instead(outcome: Outcome, index: int, reply: str, limits: VerdictLimits, wall: float) -> Judgement:
    """The judgement for a call that ended its worker. Args: wall: the limit of its time by the clock, in seconds."""
    match outcome:
        case Exceeded(resource):
            reasons = {
                "cpu": f"over {limits.seconds:g} s of processor time",
                "wall": f"no verdict after {wall:g} s",
                "memory": f"over {limits.memory // 2**20} MiB of memory",
                "output": "a verdict too large to send",
            }
            return Judgement(index=index, reply=reply, outcome="exceeded", detail=reasons[resource], resource=resource)
        case Died():
            return Judgement(index=index, reply=reply, outcome="died", detail="the process died during the call")
        case Raised(error):
            return Judgement(index=index, reply=reply, outcome="raised", detail=line(error))
        case Returned():
            raise AssertionError("the call returned a verdict")
