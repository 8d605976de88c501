"""Does every reply get a verdict, in time and within memory? What raises or fails is told by `failure`."""

from __future__ import annotations

from collections.abc import Iterator

from gnomon.audit.case import Case, shown
from gnomon.audit.finding import Finding, Severity
from gnomon.audit.judging import SECONDS

__all__ = ["probe"]

SLOW = 0.25
"""Seconds of a verdict that is in time and still worth a word."""

RULES = {
    "exceeded": ("availability.exceeded", "is not judged in time or memory", "ruling.outcome == 'exceeded'"),
    "died": ("availability.died", "ends the judging process", "ruling.outcome == 'died'"),
}


def probe(case: Case) -> Iterator[Finding]:
    _ = case.corpus
    rulings = case.court.seen  # A subject may fall on a plain reply already.
    for outcome, (rule, said, claim) in RULES.items():
        found = [ruling for ruling in rulings if ruling.outcome == outcome]
        if found:
            first = min(found, key=lambda ruling: len(ruling.reply))
            yield case.finding(
                rule, Severity.BLOCKING,
                f"{shown(first.reply)} {said}: {first.detail} ({len(found)} of {len(rulings)} texts)", found,
                claim=claim, why="one reply stops a whole run, or takes its process along",
                fix="cap the length, depth and digits of an answer before anything is computed with it",
            )  # fmt: skip
    rulings = case.corpus
    slow = [ruling for ruling in rulings if ruling.outcome == "verdict" and ruling.seconds > SLOW]
    if slow:
        worst = max(slow, key=lambda ruling: ruling.seconds)
        yield case.finding(
            "availability.slow", Severity.WARNING,
            f"{len(slow)} of {len(rulings)} texts take over {SLOW:g} s; {shown(worst.reply)} {worst.seconds:.2f} s",
            [worst], claim=f"ruling.seconds > {SLOW!r}", why="the sampler waits for the slowest verdict",
        )  # fmt: skip
    right = [ruling for ruling in rulings if ruling.correct]
    if right:
        yield case.finding(
            "exploit.hostile_text", Severity.BLOCKING,
            f"{len(right)} texts that answer nothing are judged correct, such as {shown(right[0].reply)}",
            right, claim="ruling.correct", why="it is no answer to the task, and it is paid as one",
        )  # fmt: skip
    unasked = sum(ruling.outcome == "unasked" for ruling in rulings)
    if unasked:
        case.skipped["availability, the rest"] = (
            f"{unasked} texts were not tried after {case.court.kills} killed workers"
        )
    case.tables["corpus"] = {
        "texts": len(rulings),
        "judged in time and not correct": sum(r.outcome == "verdict" and not r.correct for r in rulings),
        "slowest": max((ruling.seconds for ruling in rulings if ruling.outcome == "verdict"), default=SECONDS),
    }
