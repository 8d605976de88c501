"""Does every reply get a verdict within the time and memory limits? `failure` reports exceptions and failures."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from gnomon.audit.case import Case, shown
from gnomon.audit.finding import Finding, Severity
from gnomon.audit.judging import SECONDS, Judgement, judgement_of
from gnomon.workers import Returned

__all__ = ["probe"]

SLOW = 0.25
"""Seconds above which a verdict within the limit is reported as slow."""

OWN_LIMIT = 16
"""CPU seconds within which a function of another library may stop at its own time limit."""
TRIED = 2
"""Number of slow texts that are retried with more time, to test whether the function stops by itself."""
RULES = {
    "exceeded": ("availability.exceeded", "exceeds the time or memory limit", "judgement.outcome == 'exceeded'"),
    "died": ("availability.died", "kills the verifier process", "judgement.outcome == 'died'"),
}


def probe(case: Case) -> Iterator[Finding]:
    _ = case.corpus
    judgements = case.workers.seen  # A verifier may fail on a plain reply already.
    for outcome, (rule, fault, claim) in RULES.items():
        found = [judgement for judgement in judgements if judgement.outcome == outcome]
        if found and outcome == "exceeded" and case.foreign and (own := own_limit(case, found)):
            yield case.finding(
                "availability.slow", Severity.WARNING,
                f"{len(found)} of {len(judgements)} texts take over {SECONDS:g} s, such as {shown(own[0].reply)}; "
                f"the function returns after {max(judgement.seconds for judgement in own):.1f} s", own,
                claim=claim, why="training waits for the slowest verdict", fix="set its own time limit below 1 s",
            )  # fmt: skip
        elif found:
            first = case.plainest(found)
            yield case.finding(
                rule, Severity.BLOCKING,
                f"{shown(first.reply)} {fault}: {first.detail} ({len(found)} of {len(judgements)} texts)", found,
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
            f"{len(right)} texts without an answer are judged correct, such as {shown(right[0].reply)}",
            right, claim="judgement.correct", why="a text that does not answer the task gets the full reward",
        )  # fmt: skip
    unasked = sum(judgement.outcome == "unasked" for judgement in judgements)
    if unasked:
        case.skipped["availability, the rest"] = (
            f"{unasked} texts were not tried, because {case.workers.kills} workers had to be killed"
        )
    case.tables["corpus"] = {
        "texts": len(judgements),
        "judged in time and not correct": sum(r.outcome == "verdict" and not r.correct for r in judgements),
        "slowest": max(
            (judgement.seconds for judgement in judgements if judgement.outcome == "verdict"), default=SECONDS
        ),
    }


def holds(text: str, gold: str | None) -> bool:
    """Whether a text contains the correct answer as a word."""
    return bool(gold) and re.search(rf"(?<!\w){re.escape(str(gold))}(?!\w)", text) is not None


def own_limit(case: Case, found: Sequence[Judgement]) -> list[Judgement]:
    """Judgements on the shortest slow texts with more time, if all of them end: the function has its own limit.

    Empty otherwise, and if a text exceeded the memory limit, because more time does not help there.
    """
    slow = sorted((r for r in found if "memory" not in r.detail), key=lambda r: (not case.reached(r), len(r.reply)))
    again: list[Judgement] = []
    for judgement in slow[:TRIED] if len(slow) == len(found) else ():
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
        yield case.finding(
            "availability.slow", Severity.WARNING,
            f"{len(slow)} of {len(judgements)} take over {SLOW:g} s; {shown(worst.reply)} takes {worst.seconds:.2f} s",
            [worst], claim=f"judgement.seconds > {SLOW!r}", why="training waits for the slowest verdict",
        )  # fmt: skip
