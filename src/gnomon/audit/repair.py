"""A sound reward in place of one that blocks: it reads one answer slot and compares all of its content."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from inspect import Parameter, signature
from typing import Any

from gnomon.audit.finding import Finding
from gnomon.integrations.rewards import TrlReward, VerlScore
from gnomon.integrations.rewards.base import called, label
from gnomon.integrations.rewards.function import ANSWER, BATCH, REPLY, FunctionReward
from gnomon.types import Task

__all__ = ["repair"]

NUMBER = re.compile(r"[+-]?\d[\d,]*(\.\d+)?(e[+-]?\d+)?", re.IGNORECASE)
FORMULA = re.compile(r"\\[a-zA-Z]+|[\^_{}]|\w\s*[/*+=]\s*\w")
MENDED = ("correctness.", "exploit.", "search.", "confinement.executed", "failure.", "availability.exceeded")
"""Rules, or their beginnings, whose faults such a reward does not have."""
SLOTS = {"Number": "<answer>...</answer>", "Text": "<answer>...</answer>", "Math": "\\boxed{...}"}
"""The verifiers that are proposed, and what each reads an answer from."""


def repair(verifier: object, tasks: Iterable[Task], findings: Iterable[Finding]) -> str:
    """Code of a reward for these tasks with the name and the parameters of the audited one.

    Empty where nothing blocks that it would mend, for a verifier that is not a function, and for tasks whose answers
    are neither numbers, nor formulas, nor short texts.
    """
    kind = verifier_for([task.answer for task in tasks])
    if not kind or not any(finding.blocks and finding.rule.startswith(MENDED) for finding in findings):
        return ""
    if not (body := definition(verifier, kind)):
        return ""
    return "\n".join(
        [
            f"# The prompt must ask for {SLOTS[kind]}. One slot counts, and all of its content is compared.",
            "from gnomon.types import Task",
            f"from gnomon.verifiers import {kind}",
            "",
            *body,
        ]
    )


def verifier_for(answers: list[Any]) -> str:
    """The verifier that reads such answers; empty where none does."""
    if not answers or not all(isinstance(answer, str | int | float) for answer in answers):
        return ""
    texts = [str(answer).strip() for answer in answers]
    if all(NUMBER.fullmatch(text) for text in texts):
        return "Number"
    if any(FORMULA.search(text) for text in texts):
        return "Math"
    return "Text" if all(0 < len(text) <= 80 and "\n" not in text for text in texts) else ""


def definition(verifier: object, kind: str) -> list[str]:
    """The lines of the function."""
    if isinstance(verifier, TrlReward):
        function: Callable[..., Any] = called(verifier.functions[0])
        return of_batch(label(verifier.functions[0]), function, verifier.gold, verifier.conversational, kind)
    if isinstance(verifier, VerlScore):
        return of_one(label(verifier.function), called(verifier.function), "ground_truth", kind)
    if not isinstance(verifier, FunctionReward):
        return []
    if BATCH in signature(verifier.function).parameters:
        return of_batch(label(verifier.function), verifier.function, verifier.answer, verifier.conversational, kind)
    return of_one(label(verifier.function), verifier.function, verifier.answer, kind)


def of_one(name: str, function: Callable[..., Any], column: str, kind: str) -> list[str]:
    """A function of one reply."""
    names = names_of(function)
    reply = next((each for each in names if each in REPLY), names[0] if names else "completion")
    others = [each for each in names if each != reply]
    gold = next((each for each in others if each in (column, *ANSWER)), others[0] if len(names) == 2 else column)
    wanted = names if {reply, gold} <= {*names} else [reply, gold]
    return [
        f"def {plain(name)}({', '.join(wanted)}{rest(function)}):",
        f'    return {kind}().verify(Task(id="", messages=(), answer={gold}), {reply}).reward',
    ]


def of_batch(name: str, function: Callable[..., Any], column: str, conversational: bool, kind: str) -> list[str]:
    """A function of many replies, as TRL calls it."""
    content = 'completion[0]["content"]' if conversational else "completion"
    before = [each for each in names_of(function) if each == "prompts"]
    return [
        f"def {plain(name)}({', '.join([*before, 'completions', column])}, **columns):",
        f'    golds = [Task(id="", messages=(), answer=answer) for answer in {column}]',
        f"    return [{kind}().verify(gold, {content}).reward for gold, completion in zip(golds, completions)]",
    ]


def names_of(function: Callable[..., Any]) -> list[str]:
    kinds = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
    return [name for name, parameter in signature(function).parameters.items() if parameter.kind not in kinds]


def rest(function: Callable[..., Any]) -> str:
    """The parameter for all other keywords, if the function has one."""
    extra = (name for name, each in signature(function).parameters.items() if each.kind is Parameter.VAR_KEYWORD)
    return next((f", **{name}" for name in extra), "")


def plain(name: str) -> str:
    """A name that can be defined."""
    last = re.split(r"[.:]", name)[-1]
    return last if last.isidentifier() else "reward"
