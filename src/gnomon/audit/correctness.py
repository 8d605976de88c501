"""Are correct answers accepted in every form, and wrong answers rejected?"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from gnomon.audit.case import Case, careless, excerpt, plain_value, stated_answer
from gnomon.audit.finding import Finding, Severity
from gnomon.audit.judging import Bench, Judgement, judgement_of
from gnomon.audit.patterns import examples, is_pattern
from gnomon.envs.agent import Agent
from gnomon.stats import Interval, mean_interval
from gnomon.workers import Returned

__all__ = ["probe", "wrong_answers"]

SAME = {
    "reasoning before": ("Let me think it over.\n", ""),
    "blank line before": ("\n", ""),
    "newline after": ("", "\n"),
    "space after": ("", "  "),
    "closed reasoning before": ("<think>First this, then that.</think>\n", ""),
}
"""Text around a correct reply that must not change its verdict."""
AFTER = "\nThat is my answer."
"""Many verifiers reject text after the answer on purpose, so this is only a note."""


def probe(case: Case) -> Iterator[Finding]:
    for error, where in case.troubles[:1]:
        yield case.finding(
            "correctness.solution_raises", Severity.BLOCKING, f"its own solution raises {error}", where=where
        )
    if not case.right_judgements:
        case.skipped["correctness"] = "no correct reply is known; define `solution`, or give tasks with a `reply`"
        return
    yield from own_solutions(case)
    yield from variants(case)
    yield from wrong_ones(case)
    yield from read_as_pattern(case)


def own_solutions(case: Case) -> Iterator[Finding]:
    judgements = list(case.right_judgements.values())
    rejected = [judgement for judgement in judgements if not judgement.correct and judgement.outcome != "unasked"]
    rate = mean_interval([float(not judgement.correct) for judgement in judgements])
    case.tables.setdefault("errors", {})["right answers refused"] = interval(rate)
    why, fix = (
        "the policy is trained away from correct answers",
        "accept every answer that `solution` gives, on every task",
    )
    if all(judgement.outcome != "verdict" for judgement in judgements):
        why, fix = "no reply is judged", "call it by itself on one task, and repair what it raises or where it ends"
    if rejected:
        yield case.finding(
            "correctness.own_solution", Severity.BLOCKING,
            f"{len(rejected)} of {len(judgements)} correct replies are rejected: "
            f"{excerpt(rejected[0].reply)} is {rejected[0]}",
            rejected, claim="not judgement.correct",
            why=why, fix=fix,
        )  # fmt: skip
    top = case.subject.verifier.reward_range[1]
    short = [r for r in judgements if r.correct and not math.isclose(r.reward, top, abs_tol=1e-9)]
    if short:
        yield case.finding(
            "correctness.below_top", Severity.WARNING,
            f"{len(short)} correct replies get less than the maximum of reward_range, {top:g}: {short[0]}",
            short, claim=f"judgement.correct and judgement.reward < {top!r}",
            why="reward_range is too wide, or correct answers miss a part of the reward",
            fix=f"right={least_right(short):g}, counts such a reply as correct" if case.foreign else "",
        )  # fmt: skip


def least_right(judgements: Sequence[Judgement]) -> float:
    """A round number just below the smallest of their rewards."""
    return math.floor(100 * min(judgement.reward for judgement in judgements)) / 100


def variants(case: Case) -> Iterator[Finding]:
    if isinstance(case.subject.env, Agent):
        case.skipped["correctness, variants"] = "the reply is the end of a program, and no text stands around it"
        return
    accepted = [i for i, judgement in case.right_judgements.items() if judgement.correct][:40]
    for name, (before, after) in SAME.items():
        calls = [(i, f"{before}{case.rights[i]}{after}") for i in accepted]
        rejected = [
            judgement
            for judgement in case.workers.judge(calls)
            if not judgement.correct and judgement.outcome == "verdict"
        ]
        if rejected and not exact(case):
            yield case.finding(
                "correctness.variant_refused", Severity.WARNING,
                f"a correct reply with {name} is rejected: {excerpt(rejected[0].reply)} is judged {rejected[0]}",
                rejected, claim="not judgement.correct", why="the policy learns a format, not the task",
            )  # fmt: skip
    rejected = [r for r in case.workers.judge((i, f"{case.rights[i]}{AFTER}") for i in accepted) if not r.correct]
    case.tables["errors"]["refused with text after the answer"] = len(rejected) / max(1, len(accepted))


def exact(case: Case) -> bool:
    """Whether the verifier allows no text around the answer."""
    return str(getattr(case.subject.verifier, "strictness", "")) == "exact"


def wrong_ones(case: Case) -> Iterator[Finding]:
    answers: list[tuple[str, str, int, str]] = []
    for index in range(min(len(case.tasks), 200)):
        some = wrong_answers(case, index)
        answers += [(kind, rule, index, answer) for kind, rule, answer in (some if index < 60 else some[:3])]
    if not answers:
        case.skipped["correctness, wrong answers"] = (
            "no wrong answer is known: all tasks have the same `answer`, or it is None"
        )
        return
    judgements = case.workers.judge((index, case.frame.put(answer)) for _, _, index, answer in answers)
    by_rule: dict[str, list[tuple[str, Judgement]]] = {}
    for (kind, rule, _, _), judgement in zip(answers, judgements, strict=True):
        if judgement.correct:
            by_rule.setdefault(rule, []).append((kind, judgement))
    proven = [r.correct for (_, rule, _, _), r in zip(answers, judgements, strict=True) if rule not in LEADS]
    if proven:
        case.tables["errors"]["wrong answers accepted"] = interval(mean_interval([float(right) for right in proven]))
    else:
        case.skipped["correctness, wrong answers"] = "no answer is surely wrong: all tasks have the same `answer`"
    asked_by = Counter(rule for _, rule, _, _ in answers)
    for rule, accepted in by_rule.items():
        if rule in LEADS and len(accepted) < 0.5 * asked_by[rule]:
            continue  # Sometimes it is another correct answer.
        kind, first = min(accepted, key=lambda pair: len(pair[1].reply))
        by_place = rule == HEDGE and not any_of_several({kind for kind, _ in accepted})
        yield case.finding(
            rule, Severity.WARNING if by_place else severity(case, rule),
            f"{len(accepted)} wrong replies are accepted, such as {kind}: {excerpt(first.reply)} for "
            f"{excerpt(case.golds[first.index] or '')}",
            [judgement for _, judgement in accepted], claim="judgement.correct",
            why="the policy will learn wrong answers that are rewarded",
            fix="parse the whole slot as one answer and compare it",
        )  # fmt: skip


def any_of_several(kinds: set[str]) -> bool:
    """Whether one correct answer among several is enough. If only the first or last counts, lists do not help."""
    return "a list" in kinds or {FIRST, LAST} <= kinds


def severity(case: Case, rule: str) -> Severity:
    mixed = sum(gold is not None and gold != gold.lower() and gold != gold.upper() for gold in case.golds)
    if rule == "correctness.case_ignored" and mixed > 0.5 * len(case.tasks):
        return Severity.WARNING  # Most answers have both cases, so the case is relevant.
    return LEADS.get(rule, Severity.BLOCKING)


HEDGE = "correctness.hedge_accepted"
PATTERN = "correctness.gold_is_pattern"
FIRST, LAST = "a hedge, the right answer first", "a hedge, the right answer last"
LEADS = {
    "correctness.case_ignored": Severity.NOTE,
    "correctness.denial_accepted": Severity.WARNING,
    "correctness.fraction_ignored": Severity.WARNING,
    "correctness.order_ignored": Severity.WARNING,
    "correctness.units_ignored": Severity.WARNING,
    "correctness.sign_ignored": Severity.WARNING,
}
"""Answers that may be correct. Only the author of the task can decide."""


def wrong_answers(case: Case, index: int) -> list[tuple[str, str, str]]:
    """Kind, rule and text of answers that are wrong for a task, or are not in the requested form."""
    gold = case.golds[index]
    if not gold:
        return []
    accepted = "correctness.wrong_accepted"
    others = case.wrongs(index)
    answers = [("another task's answer", accepted, other) for other in others]
    if others:
        other = others[-1]
        answers += [
            (FIRST, HEDGE, f"{gold} or {other}"),
            (LAST, HEDGE, f"{other} or {gold}"),
            ("a list", HEDGE, f"{other}, {gold}, {other}"),
            ("two answers, the right one first", HEDGE, f"{gold} {other}"),
            ("a wrong answer that holds the right one", accepted, f"x{gold}{other}x"),
        ]
    number = as_number(gold) if gold == str(case.tasks[index].answer) else None
    if number is not None:
        answers += numbers(gold, number)
    elif len(gold) > 1 and others:
        shorter = [part for part in (gold[:-1], gold[1:]) if careless(part) not in ("", careless(gold))]
        answers += [
            ("a part of the right one", accepted, part) for part in shorter if plain_value(part) != plain_value(gold)
        ]
    answers += [("a text that it matches as a pattern", PATTERN, text) for text in pattern_matches(case, index)]
    if others or number is not None:
        answers.append(("a denial", "correctness.denial_accepted", f"definitely not {gold}"))
    return answers + other_forms(gold)


def pattern_matches(case: Case, index: int) -> list[str]:
    """Other answers that match the task's answer as a regular expression, as 375 matches 3.5."""
    answer = stated_answer(case.tasks[index]) or ""
    if "|" in answer or not is_pattern(answer):
        return []
    texts = [text for text in examples(answer) if careless(text) not in ("", careless(answer))]
    return [text for text in texts if plain_value(text) != plain_value(answer)][:2]


def read_as_pattern(case: Case) -> Iterator[Finding]:
    """The same test with an artificial answer, if no answer of the tasks has a special character of patterns."""
    index = next((i for i, judgement in case.right_judgements.items() if judgement.correct), None)
    if index is None or any(pattern_matches(case, i) for i in case.right_judgements):
        return
    outcome = case.workers.ask(pattern_tried, index, case.frame.put("zqz"))
    if isinstance(outcome, Returned) and outcome.value:
        yield case.finding(
            PATTERN, Severity.WARNING,
            "the task's answer is read as a regular expression: if it were 'z.z', the reply 'zqz' would be correct",
            why="these answers have no special characters, but with the answer 3.5 the reply 375 would be correct",
            fix="compare strings with ==, or apply re.escape to the answer",
        )  # fmt: skip


def pattern_tried(bench: Bench, index: int, reply: str) -> bool:
    """In a worker: whether the reply is correct exactly if the answer matches it as a pattern."""
    task = bench.tasks[index]
    answers = ("z.z", "z5z") if isinstance(task.answer, str) else ()
    return [judgement_of(bench, index, reply, replace(task, answer=answer)).correct for answer in answers] == [
        True,
        False,
    ]


def numbers(gold: str, number: float) -> list[tuple[str, str, str]]:
    accepted = "correctness.wrong_accepted"
    near = number + 1 if number == int(number) else number + 0.5
    answers = [
        ("one more", accepted, number_text(near)),
        ("ten times as much", accepted, number_text(number * 10 if number else 10.0)),
        ("not a number", "correctness.nan_accepted", "nan"),
        ("infinity", "correctness.nan_accepted", "inf"),
        ("digits before the right ones", accepted, f"9{gold.lstrip('-')}"),
        ("digits after the right ones", accepted, f"{gold}7"),
    ]
    if number == int(number) and gold.lstrip("-").isdigit():
        answers.append(("half more", "correctness.fraction_ignored", f"{gold}.5"))
    if number:
        answers += [
            ("a percentage", "correctness.units_ignored", f"{gold}%"),
            ("a unit", "correctness.units_ignored", f"{gold} miles"),
            ("a unit", "correctness.units_ignored", f"{gold} grams"),
            ("the other sign", "correctness.sign_ignored", gold[1:] if gold.startswith("-") else f"-{gold}"),
        ]
    return answers


def other_forms(gold: str) -> list[tuple[str, str, str]]:
    """The correct answer in another case, and in another order."""
    forms = []
    if gold.swapcase() != gold:
        forms.append(("another case", "correctness.case_ignored", gold.swapcase()))
    for sign in (", ", ",", " "):
        items = gold.strip("[]()").split(sign)
        turned = items[::-1]
        if len(items) > 1 and turned != items:
            forms.append(
                ("another order", "correctness.order_ignored", gold.replace(sign.join(items), sign.join(turned)))
            )
            break
    if gold[::-1] != gold and as_number(gold) is None and gold.isalnum():
        forms.append(("its letters in another order", "correctness.order_ignored", gold[::-1]))
    return forms


def as_number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) and abs(value) < 1e15 else None


def number_text(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(value)


def interval(rate: Interval) -> dict[str, Any]:
    return {"value": rate.value, "low": rate.low, "high": rate.high, "n": rate.n}
