"""Does every reply get a verdict within the time and memory limits? `failure` reports exceptions and failures."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from gnomon.audit.case import Case, excerpt, stated_answer
from gnomon.audit.finding import Finding, Severity
from gnomon.audit.frame import KNOWN
from gnomon.audit.judging import Bench, Judgement, judgement_of
from gnomon.workers import Returned

__all__ = ["probe"]

SLOW = 0.25
"""Seconds above which a verdict within the limit is reported as slow."""

OWN_LIMIT = 16
"""Factor on the time limit, within which a function of another library may stop at its own limit."""
TRIED = 2
"""Number of slow texts that are retried with more time, to test whether the function stops by itself."""
RULES = {
    "exceeded": ("availability.exceeded", "exceeds the time or memory limit", "judgement.outcome == 'exceeded'"),
    "died": ("availability.died", "kills the verifier process", "judgement.outcome == 'died'"),
}


def probe(case: Case) -> Iterator[Finding]:
    _ = case.corpus
    judgements = case.workers.judgements  # A verifier may fail on a plain reply already.
    calls = [judgement for judgement in judgements if judgement.outcome != "unasked"]
    limit = case.subject.limits.seconds
    late = [judgement for judgement in calls if judgement.outcome == "exceeded"]
    unjudged = not any(judgement.correct for judgement in calls) and any(answers(case, judgement) for judgement in late)
    if unjudged or len(late) > len(calls) / 2:
        yield always_exceeded(case, late, len(calls))
        calls = []
    for outcome, (rule, fault, claim) in RULES.items():
        faulty = [judgement for judgement in calls if judgement.outcome == outcome]
        if faulty and outcome == "exceeded" and case.foreign and (own := own_limit(case, faulty)):
            yield case.finding(
                "availability.slow", Severity.WARNING,
                f"{len(faulty)} of {len(calls)} texts take over {limit:g} s, such as {excerpt(own[0].reply)}; "
                f"the function returns after {max(judgement.seconds for judgement in own):.1f} s", own,
                claim=claim, why="training waits for the slowest verdict",
                fix=f"set its own time limit below {limit:g} s",
            )  # fmt: skip
        elif faulty:
            first = case.plainest(faulty)
            yield case.finding(
                rule, Severity.BLOCKING,
                f"{excerpt(first.reply)} {fault}: {first.detail} ({len(faulty)} of {len(calls)} texts)", faulty,
                claim=claim, why="one such reply stops the run or kills its process",
                fix="limit the length, depth and digits of an answer before computing with it",
            )  # fmt: skip
    judgements = case.corpus
    yield from slow(case)
    right = [
        judgement
        for judgement in judgements
        if judgement.correct and not holds(judgement.reply, case.golds[judgement.index])
    ]
    if right:
        yield case.finding(
            "exploit.hostile_text", Severity.BLOCKING,
            f"{len(right)} texts without an answer are judged correct, such as {excerpt(right[0].reply)}",
            right, claim="judgement.correct", why="a text that does not answer the task gets the full reward",
        )  # fmt: skip
    unasked = sum(judgement.outcome == "unasked" for judgement in judgements)
    if unasked:
        case.skipped["availability, the rest"] = (
            f"{unasked} texts were not tried, because too many calls hung or ended their process"
        )
    case.tables["corpus"] = {
        "texts": len(judgements),
        "judged in time and not correct": sum(r.outcome == "verdict" and not r.correct for r in judgements),
        "slowest": max(
            (judgement.seconds for judgement in judgements if judgement.outcome == "verdict"), default=limit
        ),
    }


def answers(case: Case, judgement: Judgement) -> bool:
    """Whether a reply is the task's answer in a usual form, and nothing else."""
    answer = stated_answer(case.tasks[judgement.index])
    return answer is not None and judgement.reply in {frame.put(answer) for frame in KNOWN}


def always_exceeded(case: Case, late: Sequence[Judgement], count: int) -> Finding:
    """The finding that plain texts exceed a limit too, so that the audit saw few verdicts or none."""
    first, limit = case.plainest(late), case.subject.limits.seconds
    what = f"{len(late)} of {count} texts exceed the time or memory limit, even {excerpt(first.reply)}: {first.detail}"
    fix = (
        "make the verifier faster; audit.acknowledge='[\"availability.always_exceeded\"]' accepts the verifier untested"
    )
    if first.resource == "wall":
        fix = f"give what the verifier waits for (a server, a lock, input) a time limit below {limit:g} s"
    elif first.resource == "memory":
        fix = case.subject.limits.more_memory
    elif isinstance(
        outcome := case.workers.ask(judged_twice, first.index, first.reply, fresh=True, patience=OWN_LIMIT), Returned
    ):
        one, two = (judgement.seconds for judgement in outcome.value)
        what += f"; the first call of a process takes {one:.1f} s, the second {two:.1f} s"
        if two < limit:
            fix = "load models and tables at the top of the module, which is imported before replies are judged"
    return case.finding(
        "availability.always_exceeded", Severity.BLOCKING, what, late, claim="judgement.outcome == 'exceeded'",
        why="a reply without a verdict in time gets the lowest reward, and the audit could not test the verifier",
        fix=fix,
    )  # fmt: skip


def judged_twice(bench: Bench, index: int, reply: str) -> list[Judgement]:
    """In a worker: two judgements of the same reply. The first includes what the verifier loads."""
    return [judgement_of(bench, index, reply) for _ in range(2)]


def holds(text: str, gold: str | None) -> bool:
    """Whether a text contains the correct answer as a word."""
    return bool(gold) and re.search(rf"(?<!\w){re.escape(str(gold))}(?!\w)", text) is not None


def own_limit(case: Case, late: Sequence[Judgement]) -> list[Judgement]:
    """Judgements on the shortest slow texts with more time, if all of them end: the function has its own limit.

    Empty otherwise, and if a text exceeded the memory limit, because more time does not help there.
    """
    slow = sorted((r for r in late if r.resource != "memory"), key=lambda r: (not case.reached(r), len(r.reply)))
    again: list[Judgement] = []
    for judgement in slow[:TRIED] if len(slow) == len(late) else ():
        outcome = case.workers.ask(judgement_of, judgement.index, judgement.reply, patience=OWN_LIMIT)
        if not isinstance(outcome, Returned) or outcome.value.outcome != "verdict":
            return []
        again.append(outcome.value)
    return again


def slow(case: Case) -> Iterator[Finding]:
    """Texts that are judged within the limit, but slowly."""
    judgements = case.corpus
    slow = [judgement for judgement in judgements if judgement.outcome == "verdict" and judgement.seconds > SLOW]
    if slow:
        worst = max(slow, key=lambda judgement: judgement.seconds)
        took = f"{excerpt(worst.reply)} takes {worst.seconds:.2f} s"
        yield case.finding(
            "availability.slow", Severity.WARNING,
            f"{len(slow)} of {len(judgements)} take over {SLOW:g} s; {took}", [worst],
            claim=f"judgement.seconds > {SLOW!r}", why="training waits for the slowest verdict",
        )  # fmt: skip
