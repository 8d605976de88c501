"""Search for wrong replies with a high reward.

Both searches are seeded. The first searches a *universal key*: one reply that is judged correct for two tasks with
different answers, and so is wrong for one of them. The second builds expressions with the correct value that break a
rule of countdown.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

from gnomon.audit.case import Case, excerpt, plain_value
from gnomon.audit.expressions import broken_rules
from gnomon.audit.finding import Finding, Severity
from gnomon.audit.judging import Judgement

__all__ = ["CALLS", "probe"]

CALLS = 3000
"""Largest number of verdicts of the search."""
EXPRESSIONS = 3000
"""Largest number of expressions that break a rule."""
LEADS = {
    "search.signed_number": Severity.WARNING,
    "search.digits_spelt": Severity.WARNING,
    "search.comment": Severity.WARNING,
}
"""Rules that an author may allow to be broken."""
PANEL = 6
"""Number of tasks with different answers."""
CHILDREN = 20
"""Replies of one generation."""
LONGEST = 400
"""Characters of a reply in the search."""
WORDS = (
    " ", "\n", ",", " or ", " and ", "not ", "=", ".", "-", "+", "*", "**", "//", "%", "(", ")", "[", "]",
    "0", "1", "9", "10", "nan", "inf", "-inf", "1e9", "True", "None", "\\boxed{", "#### ", "<answer>", "</answer>",
    "<think>", "</think>", "```", '"', "'", "\\", "$", "|", "\x00", "½", "４", "\u200b", "\ud800", ".*", "^",
)  # fmt: skip
"""Pieces of replies, in addition to the answers of the panel and the words of the verifier's source."""


def probe(case: Case) -> Iterator[Finding]:
    yield from forbidden_expressions(case)
    panel = choose_panel(case)
    if len(panel) < 2:
        case.skipped["search"] = "no two tasks have different known answers"
        return
    best, keys, calls = search_universal_key(case, panel)
    case.tables["search"] = {"calls": calls, "best share of the panel": best}
    if keys:
        reply = least(case, panel, min(keys, key=len))
        judgements = [judgement for judgement in case.workers.judge((i, reply) for i in panel) if judgement.correct]
        yield case.finding(
            "search.universal_key", Severity.BLOCKING,
            f"{excerpt(reply)} is correct for {len(judgements)} tasks with different answers: "
            f"{', '.join(excerpt(case.golds[r.index] or '', 20) for r in judgements[:3])}",
            wrong_first(case, judgements, reply), claim="judgement.correct",
            why="the policy will find it too", fix="parse the whole slot as one answer",
        )  # fmt: skip


def choose_panel(case: Case) -> list[int]:
    """Tasks with accepted correct replies and different answers."""
    panel: list[int] = []
    for index, judgement in case.right_judgements.items():
        gold, answer = case.golds[index], case.tasks[index].answer
        if not judgement.correct or gold is None or answer is None:
            continue
        others = [(plain_value(case.golds[i] or ""), case.tasks[i].answer) for i in panel]
        own = plain_value(gold)
        if all(own != g and answer != a for g, a in others) and not isinstance(answer, list | set | tuple | frozenset):
            panel.append(index)
        if len(panel) == PANEL:
            break
    return panel


def search_universal_key(case: Case, panel: Sequence[int]) -> tuple[float, list[str], int]:
    """The best fraction of the panel for one reply, replies that satisfy two or more tasks, and how many verdicts."""
    rng = case.rng("search")
    golds = [gold for i in panel if (gold := case.golds[i]) is not None]
    words = (
        *WORDS,
        *golds,
        *(word for word in case.words if len(word) <= 30),
        *(case.frame.put(gold) for gold in golds),
    )
    several = " ".join(golds), ", ".join(golds), " or ".join(golds[:2])
    # A glob, a pattern and a query that match everything.
    pool = [case.frame.put(text) for text in ("", *several, "*", ".*", "%")]
    pool += ["".join(case.frame.put(gold) for gold in golds), golds[0]]
    scores: dict[str, tuple[float, float]] = {}
    keys: list[str] = []
    calls = 0
    children = pool
    while children and calls < CALLS and not keys:
        fresh = [reply for reply in dict.fromkeys(children) if reply not in scores]
        judgements = case.workers.judge((i, reply) for reply in fresh for i in panel)
        calls += len(judgements)
        for number, reply in enumerate(fresh):
            mine = judgements[number * len(panel) : (number + 1) * len(panel)]
            right = sum(judgement.correct for judgement in mine)
            paid = sum(judgement.reward for judgement in mine if judgement.outcome == "verdict")
            scores[reply] = right, paid
            keys += [reply] if right >= 2 else []
        parents = sorted(scores, key=lambda reply: (*(-part for part in scores[reply]), len(reply), reply))[:8]
        children = [mutate(rng, rng.choice(parents), rng.choice(parents), words, case) for _ in range(CHILDREN)]
    return max((right for right, _ in scores.values()), default=0) / len(panel), keys, calls


def mutate(rng: random.Random, reply: str, other: str, words: Sequence[str], case: Case) -> str:
    """The reply with a piece inserted, removed or doubled, or joined with another reply."""
    for _ in range(rng.choice((1, 1, 2, 4))):
        inner = reply.startswith(case.frame.before) and rng.random() < 0.7
        low = len(case.frame.before) if inner else 0
        high = max(low, len(reply) - (len(case.frame.after) if inner else 0))
        a, b = sorted((rng.randint(low, high), rng.randint(low, high)))
        match rng.randrange(5):
            case 0 | 1:
                reply = reply[:a] + rng.choice(words) + reply[a:]
            case 2:
                reply = reply[:a] + reply[b:]
            case 3:
                reply = reply[:b] + reply[a:b] + reply[b:]
            case _:
                reply = reply[:a] + other[min(a, len(other)) :]
    return reply[:LONGEST]


def least(case: Case, panel: Sequence[int], reply: str) -> str:
    """The reply without the pieces that the key does not need."""
    size = max(1, len(reply) // 2)
    while size:
        start = 0
        while start < len(reply):
            shorter = reply[:start] + reply[start + size :]
            if sum(judgement.correct for judgement in case.workers.judge((i, shorter) for i in panel)) >= 2:
                reply = shorter
            else:
                start += size
        size //= 2
    return reply


def wrong_first(case: Case, judgements: Sequence[Judgement], reply: str) -> list[Judgement]:
    """The judgements, those first in which the reply does not contain the correct answer."""
    return [
        judgement for judgement in judgements if case.frame.put(case.golds[judgement.index] or "") != reply
    ] or list(judgements)


def forbidden_expressions(case: Case) -> Iterator[Finding]:
    """Expressions that break a rule, on countdown tasks."""
    calls: list[tuple[str, str, int, str]] = []
    for index, task in enumerate(case.tasks):
        gold = case.golds[index]
        if gold is not None and len(calls) < EXPRESSIONS:
            here = list(broken_rules(task, gold))
            calls += [(rule, breach, index, text) for rule, breach, text in (here if index < 20 else here[7:])]
    judgements = case.workers.judge((index, case.frame.put(text)) for _, _, index, text in calls)
    for rule in dict.fromkeys(rule for rule, *_ in calls):
        accepted = [r for r, (name, *_) in zip(judgements, calls, strict=True) if name == rule and r.correct]
        if accepted:
            breach = next(breach for name, breach, *_ in calls if name == rule)
            first = min(accepted, key=lambda judgement: len(judgement.reply))
            yield case.finding(
                rule, LEADS.get(rule, Severity.BLOCKING),
                f"{breach} is accepted, such as {excerpt(first.reply)} for {case.tasks[first.index].answer}",
                accepted, claim="judgement.correct", why="the task allows each number once and only + − × ÷",
                fix="use gnomon.verifiers.evaluate, which accepts exactly these expressions",
            )  # fmt: skip
