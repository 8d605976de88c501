"""Does every reply get a verdict, in time and within memory? What raises or fails is told by `failure`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from gnomon.audit.case import Case, shown
from gnomon.audit.finding import Finding, Severity
from gnomon.audit.judging import SECONDS, Ruling, ruling_of
from gnomon.workers import Returned

__all__ = ["probe"]

SLOW = 0.25
"""Seconds of a verdict that is in time and still worth a word."""

OWN_LIMIT = 16
"""Seconds of processor time within which a function of another library may end by its own limit."""
TRIED = 2
"""Slow texts that are given more time, to see whether the function ends by itself."""
RULES = {
    "exceeded": ("availability.exceeded", "exceeds the time or memory limit", "ruling.outcome == 'exceeded'"),
    "died": ("availability.died", "kills the verifier process", "ruling.outcome == 'died'"),
}


def probe(case: Case) -> Iterator[Finding]:
    _ = case.corpus
    rulings = case.court.seen  # A subject may fall on a plain reply already.
    for outcome, (rule, said, claim) in RULES.items():
        found = [ruling for ruling in rulings if ruling.outcome == outcome]
        if found and outcome == "exceeded" and case.foreign and (own := own_limit(case, found)):
            yield case.finding(
                "availability.slow", Severity.WARNING,
                f"{len(found)} of {len(rulings)} texts take over {SECONDS:g} s, such as {shown(own[0].reply)}; "
                f"the function returns after {max(ruling.seconds for ruling in own):.1f} s", own,
                claim=claim, why="training waits for the slowest verdict", fix="set its own time limit below 1 s",
            )  # fmt: skip
        elif found:
            first = case.plainest(found)
            yield case.finding(
                rule, Severity.BLOCKING,
                f"{shown(first.reply)} {said}: {first.detail} ({len(found)} of {len(rulings)} texts)", found,
                claim=claim, why="one such reply stops the run or kills its process",
                fix="limit the length, depth and digits of an answer before computing with it",
            )  # fmt: skip
    rulings = case.corpus
    yield from slow(case)
    right = [ruling for ruling in rulings if ruling.correct and not holds(ruling.reply, case.golds[ruling.index])]
    if right:
        yield case.finding(
            "exploit.hostile_text", Severity.BLOCKING,
            f"{len(right)} texts without an answer are judged correct, such as {shown(right[0].reply)}",
            right, claim="ruling.correct", why="a text that does not answer the task gets the full reward",
        )  # fmt: skip
    unasked = sum(ruling.outcome == "unasked" for ruling in rulings)
    if unasked:
        case.skipped["availability, the rest"] = (
            f"{unasked} texts were not tried, because {case.court.kills} workers had to be killed"
        )
    case.tables["corpus"] = {
        "texts": len(rulings),
        "judged in time and not correct": sum(r.outcome == "verdict" and not r.correct for r in rulings),
        "slowest": max((ruling.seconds for ruling in rulings if ruling.outcome == "verdict"), default=SECONDS),
    }


def holds(text: str, gold: str | None) -> bool:
    """Whether a text happens to hold the right answer, as a word."""
    return bool(gold) and re.search(rf"(?<!\w){re.escape(str(gold))}(?!\w)", text) is not None


def own_limit(case: Case, found: Sequence[Ruling]) -> list[Ruling]:
    """Rulings on the shortest slow texts with more time, if every one of them ends: the function has its own limit.

    Empty otherwise, and where a text took too much memory, since more time does not help there.
    """
    slow = sorted((r for r in found if "memory" not in r.detail), key=lambda r: (not case.reached(r), len(r.reply)))
    again: list[Ruling] = []
    for ruling in slow[:TRIED] if len(slow) == len(found) else ():
        outcome = case.court.ask(ruling_of, ruling.index, ruling.reply, patience=OWN_LIMIT)
        if not isinstance(outcome, Returned) or outcome.value.outcome != "verdict":
            return []
        again.append(outcome.value)
    return again


def slow(case: Case) -> Iterator[Finding]:
    """Texts that are judged within the limit, but slowly."""
    rulings = case.corpus
    slow = [ruling for ruling in rulings if ruling.outcome == "verdict" and ruling.seconds > SLOW]
    if slow:
        worst = max(slow, key=lambda ruling: ruling.seconds)
        yield case.finding(
            "availability.slow", Severity.WARNING,
            f"{len(slow)} of {len(rulings)} take over {SLOW:g} s; {shown(worst.reply)} takes {worst.seconds:.2f} s",
            [worst], claim=f"ruling.seconds > {SLOW!r}", why="training waits for the slowest verdict",
        )  # fmt: skip
