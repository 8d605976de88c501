"""Are faults of the verifier reported as such, and faults of a reply not?

A policy that can make its verifier fail avoids the penalty for a wrong answer. A verifier that turns its own faults
into the reward 0 penalises correct replies.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from gnomon.audit.case import Case, excerpt
from gnomon.audit.finding import Finding, Severity
from gnomon.audit.judging import Bench, Judgement, judgement_of
from gnomon.audit.source import STANDARD
from gnomon.envs.blame import line
from gnomon.types import Status
from gnomon.verifiers import Malformed, Rejected
from gnomon.workers import Returned

__all__ = ["Injected", "probe"]

POINTS = 60
"""Maximum number of lines of the verifier at which a fault is injected."""


class Injected(Exception):
    """A fault injected by the audit, such as a full disk or a lost connection."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Swallowed:
    """A fault that became a verdict."""

    place: str
    status: str
    injected: bool
    """Whether the audit injected it."""


def probe(case: Case) -> Iterator[Finding]:
    _ = case.right_judgements, case.corpus  # Makes judgements if no other axis was run.
    judgements = case.workers.judgements
    raised = [judgement for judgement in judgements if judgement.outcome == "raised"]
    if raised:
        first = case.plainest(raised)
        yield case.finding(
            "failure.raised", Severity.BLOCKING,
            f"the verifier raises on {len(raised)} replies, such as {excerpt(first.reply)}: {first.detail}",
            raised, claim="judgement.outcome == 'raised'",
            why="such a reply gets no verdict, so the policy can use it to avoid a low reward",
            fix="return a verdict for every text; raise Malformed for a text that is not an answer",
        )  # fmt: skip
    failed = [judgement for judgement in judgements if judgement.status is Status.FAILED]
    if failed:
        yield case.finding(
            "failure.failed_by_policy", Severity.BLOCKING,
            f"{len(failed)} replies get the status `failed`, such as {excerpt(failed[0].reply)}",
            failed, claim="str(judgement.status) == 'failed'",
            why="failed rollouts are not trained on, so the policy can use such a reply to avoid a low reward",
            fix="use `failed` only for faults of the verifier; else use malformed, rejected or exceeded",
        )  # fmt: skip
    yield from unfit(case, [judgement for judgement in judgements if judgement.outcome == "invalid"])
    yield from swallowed_faults(case)


def unfit(case: Case, invalid: list[Judgement]) -> Iterator[Finding]:
    kinds = {
        "failure.no_verdict": "instead of a verdict",
        "failure.not_finite": "not finite",
        "failure.out_of_range": "outside of reward_range",
        "failure.no_end": "",
    }
    rest = invalid
    for rule, fault in kinds.items():
        faulty = [judgement for judgement in rest if fault in judgement.detail]
        rest = [judgement for judgement in rest if judgement not in faulty] if fault else []
        if faulty:
            first = case.plainest(faulty)
            yield case.finding(
                rule, Severity.BLOCKING,
                f"{len(faulty)} replies get no valid verdict, such as {excerpt(first.reply)}: {first.detail}", faulty,
                claim="judgement.outcome == 'invalid'",
                why="one such reward makes every advantage of its group invalid",
                fix="return a Verdict with a finite reward within reward_range for every text",
            )  # fmt: skip


def swallowed_faults(case: Case) -> Iterator[Finding]:
    """Inject a fault at each line of the verifier, on correct replies. It must be raised and not become a verdict."""
    with_verdict = [i for i, judgement in case.right_judgements.items() if judgement.outcome == "verdict"]
    accepted = [i for i in with_verdict if case.right_judgements[i].correct][:2]
    rejected = [i for i in with_verdict if not case.right_judgements[i].correct][:2]
    faults: list[Swallowed] = []
    for index in (*accepted, *rejected):
        outcome = case.workers.ask(injections, index, case.rights[index])
        if isinstance(outcome, Returned):
            points, hidden = outcome.value
            case.tables["faults injected"] = case.tables.get("faults injected", 0) + points
            faults += hidden
    if faults:
        first = min(faults, key=lambda swallowed: swallowed.injected)
        harmless = (
            case.foreign and first.injected
        )  # In other libraries an exception ends the run, so rewards catch all.
        yield case.finding(
            "failure.swallowed", Severity.WARNING if harmless else Severity.BLOCKING,
            f"after {'an injected' if first.injected else 'a'} fault at {first.place}, a correct answer is judged "
            f"`{first.status}`",
            where=first.place, why="a full disk or a lost connection then counts as a wrong answer",
            fix="catch only the exceptions that a bad answer raises, not every Exception",
        )  # fmt: skip
    elif not with_verdict:
        case.skipped["failure, injected faults"] = "no correct reply is known"


def injections(bench: Bench, index: int, reply: str) -> tuple[int, list[Swallowed]]:
    """In a worker: the verdict with a fault at the 1st, 2nd, 3rd … line that it runs.

    If a correct reply is rejected, the result is a hidden fault that was not injected, if there is one.
    """
    lines = Tracer(None)
    own_judgement = trace(bench, index, reply, lines)
    if own_judgement.outcome == "verdict" and not own_judgement.correct:
        return 0, [Swallowed(place=p, status=str(own_judgement.status), injected=False) for p in lines.raised[:1]]
    hidden: list[Swallowed] = []
    once = {location: point for point, location in reversed(list(enumerate(lines.places)))}
    points = sorted(once.values())[:POINTS]
    for point in points:
        tracer = Tracer(point)
        judgement = trace(bench, index, reply, tracer)
        if (
            tracer.fired
            and judgement.outcome == "verdict"
            and not judgement.correct
            and judgement.status is not Status.FAILED
        ):
            hidden.append(Swallowed(place=lines.places[point], status=str(judgement.status), injected=True))
    return len(points), hidden


class Tracer:
    """Counts the lines of the verifier's own code, and raises at one of them."""

    def __init__(self, point: int | None) -> None:
        self.point, self.places, self.fired = point, list[str](), False
        self.raised: list[str] = []

    def __call__(self, frame: FrameType, event: str, argument: Any) -> Any:
        if not own(frame.f_code.co_filename):
            return None
        if event == "exception" and not issubclass(argument[0], QUIET):
            fault = f"{frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_name}"
            self.raised.append(f"{fault} ({argument[0].__name__}: {line(str(argument[1]))})")
        if event == "line":
            if len(self.places) == self.point:
                self.fired = True
                sys.settrace(None)
                frame.f_trace = None
                raise Injected("no space left on device")
            self.places.append(f"{frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_name}")
        return self


QUIET = (Malformed, Rejected, ValueError, ArithmeticError, StopIteration, StopAsyncIteration, GeneratorExit)
"""Exceptions for a text that is not an answer; they are not faults of the verifier."""


ROOT = Path(__file__).parents[1]
OURS = tuple(
    str(ROOT / name)
    for name in (
        *("audit", "sandbox", "workers", "types.py"),
        *("envs/base.py", "envs/blame.py", "envs/episodes.py", "verifiers/slot.py"),
    )
)


def own(file: str) -> bool:
    """Whether a file belongs to the subject, and not to the standard library or the modules of all verifiers."""
    installed = "site-packages" in file
    return not file.startswith(("<", *OURS)) and (installed or not file.startswith(STANDARD))


def trace(bench: Bench, index: int, reply: str, tracer: Tracer) -> Judgement:
    sys.settrace(tracer)
    try:
        return judgement_of(bench, index, reply)
    finally:
        sys.settrace(None)
