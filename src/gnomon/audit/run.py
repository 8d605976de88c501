"""The audit: nine axes over one subject, the worst finding first."""

from __future__ import annotations

import math
import pickle
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import Any

from gnomon.audit import (
    availability,
    confinement,
    correctness,
    determinism,
    exploit,
    failure,
    invariance,
    search,
    sentinels,
)
from gnomon.audit.case import Case
from gnomon.audit.finding import AXES, Axis, Finding, Report, Severity
from gnomon.audit.judging import VerifierWorkers
from gnomon.audit.reach import MAX_TOKENS, Reach
from gnomon.audit.repair import repair
from gnomon.audit.scripts import rule_script
from gnomon.audit.subject import LIMITS, Subject, VerdictLimits, subject_of
from gnomon.envs import offers
from gnomon.envs.base import Env, check_isolation
from gnomon.envs.blame import describe, line
from gnomon.integrations.rewards import Foreign
from gnomon.integrations.rewards.base import SLACK
from gnomon.workers import pack_value

__all__ = ["PREFLIGHT", "audit", "preflight"]

PROBES: dict[Axis, Callable[[Case], Iterator[Finding]]] = {
    Axis.CORRECTNESS: correctness.probe,
    Axis.EXPLOIT: exploit.probe,
    Axis.AVAILABILITY: availability.probe,
    Axis.CONFINEMENT: confinement.probe,
    Axis.DETERMINISM: determinism.probe,
    Axis.SEARCH: search.probe,
    Axis.INVARIANCE: invariance.probe,
    Axis.SENTINELS: sentinels.probe,
    Axis.FAILURE: failure.probe,  # Last, because it uses the judgements of all other axes.
}
PREFLIGHT = (Axis.CORRECTNESS, Axis.EXPLOIT, Axis.AVAILABILITY, Axis.SENTINELS, Axis.FAILURE)
"""Axes that are fast enough for the start of a run."""
AGAINST_ITSELF = (Axis.CORRECTNESS, Axis.EXPLOIT, Axis.SEARCH, Axis.SENTINELS)
"""Axes about the reward of a reply. They do not apply where a reply plays against itself."""
WITHOUT_VERDICTS = (Axis.AVAILABILITY, Axis.FAILURE)
"""Axes that report on a verifier that never returns."""
ORDER = tuple(Severity)
Watch = Callable[[Axis, int], None]
"""Called with the axis that is tried and the number of replies that are judged, again and again."""


def no_progress(axis: Axis, judged: int) -> None:
    """Shows nothing."""


def audit(
    subject: Subject,
    *,
    axes: Sequence[str] = AXES,
    tasks: int | None = None,
    seed: int = 0,
    max_tokens: int = MAX_TOKENS,
    acknowledge: Collection[str] = (),
    watch: Watch = no_progress,
) -> Report:
    """Audit a subject along the axes.

    Args:
        axes: names of `AXES`.
        tasks: number of the subject's tasks to use; by default all.
        seed: seed of every draw of the audit.
        max_tokens: limit of a reply. A fault that needs a longer reply is only a note.
        acknowledge: rules, or axes, whose findings are reported but do not block.
        watch: shows the progress.
    Raises: ResourceError, E520 to E522, if the subject needs a sandbox that this host does not support.
    """
    check_isolation(subject.verifier)
    began = time.perf_counter()
    subject = shorten(subject, tasks)
    findings: list[Finding] = []
    case: Case | None = None
    several = subject.env is not None and offers.players(subject.env) > 1
    try:
        pack_value((subject.verifier, subject.tasks, subject.env))
        with VerifierWorkers(subject) as workers:
            case = Case(subject=subject, workers=workers, seed=seed, reach=Reach(max_tokens))
            if (right := least_right(case)) is not None:
                verifier: Any = subject.verifier
                subject = replace(subject, verifier=replace(verifier, right=right))
                return audit(subject, axes=axes, seed=seed, max_tokens=max_tokens, acknowledge=acknowledge, watch=watch)
            for axis, probe in PROBES.items():
                if axis in axes and axis in AGAINST_ITSELF and several:
                    case.skipped[axis.value] = (
                        "the same reply would play for every player, and one player's gain is another's loss"
                    )
                elif axis in axes and case.workers.mute and axis not in WITHOUT_VERDICTS:
                    case.skipped[axis.value] = "no reply gets a verdict in time"
                elif axis in axes:
                    case.workers.watch = partial(watch, axis)
                    findings += probe(case)
            if Axis.EXPLOIT in axes and not several:
                findings += exploit.outpaid(case)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        if case is not None:
            raise
        findings = [not_carried(error, subject, seed)]
    report = Report(
        subject=subject.name, source=subject.source, findings=worst_first(findings), seed=seed,
        tasks=len(subject.tasks),
        tables={} if case is None else case.tables, skipped={} if case is None else case.skipped,
        seconds=time.perf_counter() - began,
    ).acknowledging(acknowledge)  # fmt: skip
    judge = getattr(subject.verifier, "reward", subject.verifier)  # Of an environment made from rows, its function.
    return replace(report, repair=repair(judge, subject.tasks, report.findings))


def preflight(
    env: Env,
    *,
    acknowledge: Collection[str] = (),
    tasks: int = 40,
    max_tokens: int = MAX_TOKENS,
    limits: VerdictLimits = LIMITS,
    watch: Watch = no_progress,
) -> Report:
    """A short audit before a run: few tasks, the axes of `PREFLIGHT` that are not acknowledged. Cached per environment.

    Args: max_tokens, limits: of a reply and of a verdict in the run; watch: as in `audit`.
    """
    axes = tuple(axis for axis in PREFLIGHT if axis.value not in acknowledge)
    flight = Flight(env, axes, tasks, max_tokens, limits, watch)
    try:
        report = run_flight(flight)
    except TypeError:  # The environment is not hashable.
        report = run_flight.__wrapped__(flight)
    return report.acknowledging(acknowledge)


@dataclass(frozen=True, slots=True)
class Flight:
    """What determines a short audit, and who watches it."""

    env: Env
    axes: tuple[Axis, ...]
    tasks: int
    max_tokens: int
    limits: VerdictLimits
    watch: Watch = field(compare=False)


@lru_cache(maxsize=64)
def run_flight(flight: Flight) -> Report:
    subject = subject_of(flight.env, count=flight.tasks, limits=flight.limits)
    return audit(subject, axes=flight.axes, max_tokens=flight.max_tokens, watch=flight.watch)


def least_right(case: Case) -> float | None:
    """The smallest reward of a correct reply, if a foreign function never pays its top to one; else None.

    An example is a reward with a length penalty. Also None if a wrong answer earns as much.
    """
    verifier = case.subject.verifier
    if not isinstance(verifier, Foreign) or verifier.right is not None or case.subject.solution is None:
        return None
    rewards = [judgement.reward for judgement in case.right_judgements.values() if judgement.outcome == "verdict"]
    if not rewards or max(rewards) >= verifier.top - SLACK or len(rewards) < len(case.right_judgements):
        return None
    some = range(min(len(case.tasks), 20))
    wrong = case.workers.judge((i, case.frame.put(answer)) for i in some for answer in case.wrongs(i, 2))
    most = max((judgement.reward for judgement in wrong if judgement.outcome == "verdict"), default=math.inf)
    return min(rewards) if max(most, case.low) < min(rewards) else None


def shorten(subject: Subject, tasks: int | None) -> Subject:
    return subject if tasks is None else replace(subject, tasks=subject.tasks[:tasks])


def not_carried(error: BaseException, subject: Subject, seed: int) -> Finding:
    rule, repro = "availability.not_carried", ""
    with suppress(Exception):  # A subject that has no expression has no script.
        repro = rule_script(subject, rule, seed, len(subject.tasks), "it cannot be sent to another process")
    return Finding(
        axis=Axis.AVAILABILITY, rule=rule, severity=Severity.BLOCKING, repro=repro,
        what=f"it cannot be sent to another process, so the audit could not run: {line(describe(error))}",
        why="verifiers run in worker processes, which can be killed",
        fix="define a class at the top level of a file, with fields that pickle (no open file, lock or connection)",
    )  # fmt: skip


def worst_first(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Sort by severity, then by axis, with one finding per rule, the most severe."""
    ranked = sorted(findings, key=lambda f: (ORDER.index(f.severity), AXES.index(f.axis), f.rule))
    first: dict[str, Finding] = {}
    for finding in ranked:
        first.setdefault(finding.rule, finding)
    return tuple(first.values())
