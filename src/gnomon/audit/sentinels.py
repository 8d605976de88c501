"""Checks that monitor the reward during a run, and whether other parts can exceed the reward of a correct answer."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, is_dataclass, replace
from typing import Any

from gnomon.audit.case import Case, excerpt
from gnomon.audit.finding import Finding, Severity
from gnomon.audit.judging import Bench, Judgement, judgement_of
from gnomon.types import Part, Task, Verdict
from gnomon.verifiers import Slot, Strictness
from gnomon.workers import Returned

__all__ = ["Entry", "best_without_correct", "paid_parts", "probe"]

UNGUESSABLE = 918_273_645_546_372
"""An answer that no reply of the audit contains."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One part of the reward, over all judgements."""

    part: str
    weight: float
    most: float
    """Largest observed value."""
    least: float = 0.0
    """Smallest observed value; a part that is never positive and sometimes negative is a penalty."""
    wrong: float
    """Largest observed value with an incorrect answer."""
    gate: str


def probe(case: Case) -> Iterator[Finding]:
    _ = case.right_judgements, case.corpus  # Makes the judgements for the breakdown.
    yield from accounts(case)
    yield from canaries(case)
    case.tables["strict and lenient reading"] = disagreement(case)
    case.tables["card"] = card(case)


def accounts(case: Case) -> Iterator[Finding]:
    """The sums of the parts: the reward of a policy that is never correct."""
    verdicts = [r for r in case.workers.judgements if r.outcome == "verdict" and case.reached(r)]
    entries = paid_parts([r for r in verdicts if r.correct or not says_it(case, r)])
    turns = case.subject.env.max_turns if case.subject.env is not None else 1
    best, sum_of = best_without_correct(entries, any(judgement.correct for judgement in case.workers.judgements))
    observed, _ = best_without_correct(entries, right_seen=False)
    case.tables["breakdown"] = {
        "parts": [{n: getattr(e, n) for n in ("part", "weight", "most", "wrong", "gate")} for e in entries],
        "best without being right": best,
        "least of a right answer": case.least,
        "turns": turns,
    }
    if best <= max(case.nothing, 0.0) + 1e-9:
        return
    share = best / case.least if case.least > 0 else math.inf
    outpaid = observed > 0 and observed >= case.least  # Counts only observed rewards.
    severity = Severity.BLOCKING if outpaid else Severity.WARNING if share > 0.25 else Severity.NOTE
    yield case.finding(
        "sentinels.parts_outpay" if outpaid else "sentinels.parts_pay", severity,
        f"an incorrect reply can get {best:g} ({sum_of}); a correct one gets {case.least:g}",
        why="if the other parts give enough reward, training ignores correctness" if share > 0.25
        else "the other parts are small compared with the reward of a correct answer",
        fix='set gate="correct" on every part except the answer',
    )  # fmt: skip


def says_it(case: Case, judgement: Judgement) -> bool:
    """Whether a reply contains the correct answer. Its reward does not count as a reward without one."""
    gold = case.golds[judgement.index]
    return bool(gold) and str(gold) in judgement.reply


def paid_parts(judgements: Sequence[Judgement]) -> list[Entry]:
    """Every named part, with its values for correct and for other answers."""
    by_name: dict[str, list[tuple[Part, bool]]] = {}
    for judgement in judgements:
        for part in judgement.parts:
            by_name.setdefault(part.name, []).append((part, judgement.correct))
    entries = []
    for name, parts in by_name.items():
        values = [part.value for part, _ in parts]
        entries.append(
            Entry(
                part=name,
                weight=max((part.weight for part, _ in parts), key=abs),
                most=max(values),
                least=min(values),
                wrong=max((part.value for part, correct in parts if not correct), default=0.0),
                gate=next((part.gate for part, _ in parts if part.gate), ""),
            )
        )
    return entries


def best_without_correct(entries: Sequence[Entry], right_seen: bool = True) -> tuple[float, str]:
    """The largest sum of the parts without a correct answer, and the sum as text.

    A part counts with its largest value for an answer that is not correct. A part that never paid counts with 1, since
    the audit may have missed it, unless no correct reply was seen, which it may pay for. A part whose gate is not met
    counts 0.
    """
    earned: dict[str, float] = {}
    for entry in entries:
        untried = right_seen and entry.most == entry.least == 0 and entry.part != "correct" and not entry.gate
        earned[entry.part] = 1.0 if untried else max(entry.wrong, 0.0)
    open_gates = {entry.part for entry in entries if earned[entry.part] > 0}
    paid = [
        (entry.weight * earned[entry.part], entry)
        for entry in entries
        if entry.weight > 0 and earned[entry.part] > 0 and (not entry.gate or entry.gate in open_gates)
    ]
    words = " + ".join(f"{entry.weight:g} x {earned[entry.part]:g} {entry.part}" for _, entry in paid)
    return math.fsum(value for value, _ in paid), words or "nothing"


def canaries(case: Case) -> Iterator[Finding]:
    """Unsolvable tasks: every reply judged correct there is an exploit."""
    planted = [i for i, task in enumerate(case.tasks) if task.info.get("unsolvable")]
    first = next((i for i, judgement in case.right_judgements.items() if judgement.correct), None)
    case.tables["canary tasks of its own"] = len(planted)
    replies = list(
        dict.fromkeys(r.reply for r in case.workers.judgements if len(r.reply) < 2000 and r.outcome == "verdict")
    )[:600]
    if planted:
        solved = [r for r in case.workers.judge((planted[0], reply) for reply in replies) if r.correct]
        if solved:
            yield case.finding(
                "sentinels.canary_solved", Severity.BLOCKING,
                f"an unsolvable task is solved by {excerpt(solved[0].reply)}", solved, claim="judgement.correct",
            )  # fmt: skip
    if first is None:
        return
    outcome = case.workers.ask(unsolvable, first, case.rights[first], replies)
    if not isinstance(outcome, Returned) or outcome.value is None:
        case.skipped["sentinels, unsolvable tasks"] = "the verdict does not depend on the task's `answer` alone"
        return
    solved = [r for r in outcome.value if r.correct]
    case.tables["replies tried on an unsolvable task"] = len(outcome.value)
    if solved:
        yield case.finding(
            "sentinels.canary_solved", Severity.BLOCKING,
            f"with an unguessable answer, {excerpt(solved[0].reply)} is still correct ({len(solved)} such replies)",
            solved, why="this reply is correct for any answer",
        )  # fmt: skip


def unsolvable(bench: Bench, index: int, right: str, replies: Sequence[str]) -> list[Judgement] | None:
    """In a worker: judgements on a task with an unguessable answer; None if the answer cannot be replaced."""
    task = bench.tasks[index]
    answer: Any = (
        UNGUESSABLE if isinstance(task.answer, int) else str(UNGUESSABLE) if isinstance(task.answer, str) else None
    )
    if answer is None or isinstance(task.answer, bool):
        return None
    canary: Task = replace(task, answer=answer)
    own = judgement_of(bench, index, right, canary)
    if own.correct or own.outcome != "verdict":
        return None
    return [judgement_of(bench, index, reply, canary) for reply in replies]


def disagreement(case: Case) -> dict[str, float] | str:
    """How often a strict and a lenient reading of the same replies disagree, as a reference for training."""
    verifier = case.subject.verifier
    if not (isinstance(verifier, Slot) and is_dataclass(verifier)):
        return "the verifier has no strictness setting"
    calls = [(r.index, r.reply) for r in case.workers.judgements if r.outcome == "verdict" and len(r.reply) < 2000][
        :400
    ]
    outcome = case.workers.ask(read_both_ways, calls)
    if not isinstance(outcome, Returned):
        return "the comparison did not finish"
    strict, lenient, disagree = outcome.value
    return {"replies": float(len(calls)), "exact": strict, "last": lenient, "parted": disagree}


def read_both_ways(bench: Bench, calls: Sequence[tuple[int, str]]) -> tuple[float, float, float]:
    """In a worker: fractions correct under the strictest and the most lenient reading, and fraction that differs."""
    judges: list[Any] = [replace(bench.verifier, strictness=s) for s in (Strictness.EXACT, Strictness.LAST)]  # type: ignore[type-var]
    rows: list[list[Verdict]] = [
        [judge.verify(bench.tasks[index], reply) for judge in judges] for index, reply in calls
    ]
    count = max(1, len(rows))
    return (
        sum(row[0].correct for row in rows) / count,
        sum(row[1].correct for row in rows) / count,
        sum(row[0].correct != row[1].correct for row in rows) / count,
    )


def card(case: Case) -> dict[str, float | None]:
    """The verifier's card: its cost, its rejection of hostile texts, its fraction of partial rewards."""
    verdicts = [judgement for judgement in case.workers.judgements if judgement.outcome == "verdict"]
    times = sorted(judgement.seconds for judgement in case.right_judgements.values() if judgement.outcome == "verdict")
    low, high = case.subject.verifier.reward_range
    between = [judgement for judgement in verdicts if low + 1e-9 < judgement.reward < high - 1e-9]
    hostile = case.corpus
    return {
        "milliseconds per verdict, median": 1000 * statistics.median(times) if times else None,
        "milliseconds per verdict, slowest of 100": 1000 * times[-max(1, len(times) // 100)] if times else None,
        "agreement on hostile texts": sum(r.outcome == "verdict" and not r.correct for r in hostile)
        / max(1, len(hostile)),
        "share of rewards between lowest and highest": len(between) / max(1, len(verdicts)),
        "verdicts": len(verdicts),
    }
