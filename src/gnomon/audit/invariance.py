"""Does a verdict change with irrelevant changes: white space around an answer, wording, the task's id?"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from gnomon.audit.case import Case, excerpt
from gnomon.audit.finding import Finding, Severity
from gnomon.audit.judging import Bench, Judgement, judgement_of
from gnomon.envs import offers
from gnomon.envs.agent import Agent
from gnomon.envs.base import SingleTurn
from gnomon.types import Message, Task
from gnomon.workers import Returned

__all__ = ["probe"]

INSIDE: dict[str, Callable[[str], str]] = {
    "a space before and after the answer": lambda answer: f" {answer} ",
    "a newline before and after the answer": lambda answer: f"\n{answer}\n",
    "a no-break space after the answer": lambda answer: f"{answer}\xa0",
    "a full stop after the answer": lambda answer: f"{answer}.",
    "two zeros after the point": lambda answer: f"{answer}.00",
    "a plus sign": lambda answer: f"+{answer}",
}
"""Ways to write the same answer; the last three are conventions and are only counted."""
TASTE = tuple(INSIDE)[2:]


def probe(case: Case) -> Iterator[Finding]:
    if isinstance(case.subject.env, Agent):
        case.skipped["invariance, white space"] = "the reply is the end of a program, and its text is JSON"
    else:
        yield from add_space(case)
    yield from rename_task(case)
    yield from isomorphic(case)


def add_space(case: Case) -> Iterator[Finding]:
    """A correct answer with white space around it must stay correct."""
    accepted = [i for i, judgement in case.right_judgements.items() if judgement.correct and case.golds[i]][:30]
    table: dict[str, float] = {}
    for name, write in INSIDE.items():
        judgements = case.workers.judge((i, case.frame.put(write(case.golds[i] or ""))) for i in accepted)
        rejected = [judgement for judgement in judgements if judgement.outcome == "verdict" and not judgement.correct]
        table[name] = len(rejected) / max(1, len(accepted))
        if rejected and name not in TASTE and str(getattr(case.subject.verifier, "strictness", "")) != "exact":
            yield case.finding(
                "invariance.space", Severity.WARNING,
                f"with {name}, {len(rejected)} correct replies are rejected: {excerpt(rejected[0].reply)}",
                rejected, claim="not judgement.correct", why="the reward depends on formatting",
            )  # fmt: skip
    case.tables["right answers refused when written otherwise"] = table


def rename_task(case: Case) -> Iterator[Finding]:
    """The same task with another id, other wording, or a system message must get the same verdict."""
    calls = [(i, reply) for i in range(min(20, len(case.tasks))) for reply in replies(case, i)]
    outcome = case.workers.ask(disguise, calls)
    if not isinstance(outcome, Returned):
        return
    for rule, condition, pairs in outcome.value:
        changes = [(a, b) for a, b in pairs if a.same != b.same]
        if changes:
            a, b = changes[0]
            severity = Severity.BLOCKING if rule == "invariance.id" else Severity.WARNING
            yield case.finding(
                rule, severity, f"{condition}, {len(changes)} of {len(pairs)} verdicts change: first {a}, then {b}",
                [a for a, _ in changes], why="the verdict must depend only on the task and the answer",
            )  # fmt: skip


def replies(case: Case, index: int) -> Iterator[str]:
    if (right := case.rights[index]) is not None:
        yield right
    yield from (case.frame.put(wrong) for wrong in case.wrongs(index, 1))


def disguise(
    bench: Bench, calls: Sequence[tuple[int, str]]
) -> list[tuple[str, str, list[tuple[Judgement, Judgement]]]]:
    """In a worker: each call with the original and with the changed task."""
    first = Message(role="system", content="Answer with care.")
    disguises: tuple[tuple[str, str, Callable[[Task], Task]], ...] = (
        ("invariance.id", "with another id", lambda task: replace(task, id=f"{task.id}-renamed")),
        ("invariance.id", "with the id of one other task", lambda task: replace(task, id="the-same-for-all")),
        ("invariance.prompt", "with a system message", lambda task: replace(task, messages=(first, *task.messages))),
    )
    results = []
    for rule, condition, disguise in disguises:
        pairs = []
        for index, reply in calls:
            task = disguise(bench.tasks[index])
            pairs.append((judgement_of(bench, index, reply), judgement_of(bench, index, reply, task)))
        results.append(
            (rule, condition, [(replace(a, reply=r), b) for (a, b), (_, r) in zip(pairs, calls, strict=True)])
        )
    return results


def isomorphic(case: Case) -> Iterator[Finding]:
    """Tasks that the environment declares equivalent: `isomorphic(task, rng)` returns one."""
    env = case.subject.env
    rewritten = offers.isomorphic(env)
    if rewritten is None or not isinstance(env, SingleTurn):
        case.skipped["invariance, isomorphic tasks"] = "there is no method `isomorphic(task, rng)`"
        return
    rng = case.rng("isomorphic")
    rejected = []
    for task in case.tasks[:20]:
        twin = rewritten(task, rng)
        outcome = case.workers.ask(judged_twin, twin, env.framed(env.solution(twin)))
        if isinstance(outcome, Returned) and not outcome.value.correct:
            rejected.append(outcome.value)
    if rejected:
        yield case.finding(
            "invariance.isomorphic", Severity.BLOCKING,
            f"{len(rejected)} rephrased tasks reject their own solution: {rejected[0]}",
        )  # fmt: skip


def judged_twin(bench: Bench, task: Task, reply: str) -> Judgement:
    return judgement_of(bench, 0, reply, task)
