"""A replacement for a reward with blocking faults: it reads one answer slot and compares all of its content."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from inspect import Parameter
from keyword import iskeyword
from typing import Any

from gnomon.audit.finding import Finding
from gnomon.integrations.rewards import TrlReward, VerlScore
from gnomon.integrations.rewards.base import Foreign, import_function, label
from gnomon.integrations.rewards.function import (
    ANSWER,
    BATCH,
    REPLY,
    USUAL,
    FunctionReward,
    parameters,
    required_parameters,
)
from gnomon.types import Task
from gnomon.verifiers import Math, Number, Text

__all__ = ["repair"]

NUMBER = re.compile(r"[+-]?\d[\d,]*(\.\d+)?(e[+-]?\d+)?", re.IGNORECASE)
FORMULA = re.compile(r"\\[a-zA-Z]+|[\^_{}]|\w\s*[/*+=]\s*\w")
MENDED = ("correctness.", "exploit.", "search.", "confinement.executed", "failure.", "availability.exceeded")
"""Rules, or prefixes of rules, that such a reward satisfies."""
SLOTS = {"Number": "<answer>...</answer>", "Text": "<answer>...</answer>", "Math": "\\boxed{...}"}
"""The verifiers that are proposed, and what each reads an answer from."""
OTHERS = "columns"
"""Parameter for what the function does not use."""


def repair(verifier: object, tasks: Iterable[Task], findings: Iterable[Finding]) -> str:
    """Code of a reward for these tasks with the name and the parameters of the audited one.

    Empty if it would remove no blocking finding, for a verifier that is not a function, and for tasks whose answers
    are neither numbers, nor formulas, nor short texts.
    """
    examples = tuple(tasks)
    judge = verifier_for([task.answer for task in examples])
    if not judge or not any(finding.blocks and finding.rule.startswith(MENDED) for finding in findings):
        return ""
    columns = {name for task in examples for name in task.info}
    if not isinstance(verifier, Foreign) or not (body := definition(verifier, columns, judge)):
        return ""
    kind = judge.partition("(")[0]
    replaced = len(verifier.functions) if isinstance(verifier, TrlReward) else 1
    return "\n".join(
        [
            f"# The prompt must ask for {SLOTS[kind]}. One slot counts, and all of its content is compared.",
            *([f"# It stands in place of all {replaced} functions."] if replaced > 1 else []),
            "from gnomon.types import Task",
            f"from gnomon.verifiers import {kind}",
            "",
            *body,
        ]
    )


def verifier_for(answers: list[Any]) -> str:
    """The call that makes a verifier which pays every such answer; empty where there is none."""
    if not answers or not all(isinstance(each, str | int | float) and not isinstance(each, bool) for each in answers):
        return ""
    texts = [str(answer).strip() for answer in answers]
    candidates: list[tuple[str, Number | Math | Text]] = []
    if all(NUMBER.fullmatch(text) for text in texts):
        candidates = [("Number()", Number()), ('Number(thousands=",")', Number(thousands=","))]
    elif any(FORMULA.search(text) for text in texts):
        candidates = [("Math()", Math())]
    elif all(0 < len(text) <= 80 and "\n" not in text for text in texts):
        candidates = [("Text()", Text())]
    return next((name for name, judge in candidates if all(pays(judge, answer) for answer in answers)), "")


def pays(judge: Number | Math | Text, answer: Any) -> bool:
    """Whether a verifier pays an answer that is written as its task has it."""
    reply = SLOTS[type(judge).__name__].replace("...", str(answer).strip())
    try:
        return judge.verify(Task(id="", messages=(), answer=answer), reply).correct
    except ValueError:
        return False


def definition(verifier: Foreign, columns: set[str], judge: str) -> list[str]:
    """Source lines of a reward function that replaces the audited one; empty for a verifier of another kind."""
    if isinstance(verifier, TrlReward):
        function: Callable[..., Any] = import_function(verifier.functions[0])
        name = free_name(label(verifier.functions[0]), judge)
        return of_batch(name, function, verifier.gold, verifier.conversational, pay(verifier, judge))
    if isinstance(verifier, VerlScore):
        name = free_name(label(verifier.function), judge)
        return of_one(name, import_function(verifier.function), "ground_truth", columns, pay(verifier, judge))
    if not isinstance(verifier, FunctionReward):
        return []
    name = free_name(label(verifier.function), judge)
    if BATCH in parameters(verifier.function):
        return of_batch(name, verifier.function, verifier.answer, verifier.conversational, pay(verifier, judge))
    return of_one(name, verifier.function, verifier.answer, columns, pay(verifier, judge))


def pay(verifier: Foreign, judge: str) -> str:
    """The expression of the reward, with fields for the task and the reply."""
    low, top = verifier.reward_range
    if (low, top) == (0.0, 1.0):
        return f"{judge}.verify({{}}, {{}}).reward"
    return f"{top!r} if {judge}.verify({{}}, {{}}).correct else {low!r}"


def of_one(name: str, function: Callable[..., Any], column: str, columns: set[str], paid: str) -> list[str]:
    """A function of one reply."""
    own = named_parameters(function)
    required = required_parameters(function, dict.fromkeys((column, *columns)))
    usual = {*USUAL, column, *columns}
    unknown = required if len(required) <= 2 and not usual & {*required[:1]} else []
    reply = next((each for each in own if each in REPLY), unknown[0] if unknown else "completion")
    golds = [each for each in (column, *ANSWER) if each in own and (each == column or each not in columns)]
    gold = next(iter(golds), unknown[1] if len(unknown) == 2 and unknown[1] not in usual else column)
    if gold in (*REPLY, BATCH):
        return []
    if not {reply, gold} <= own.keys() or reserved_names(paid) & {*own}:
        head, gold = ([reply, gold], gold) if usable(gold, paid) else ([reply], f"{OTHERS}[{gold!r}]")
        more = [f"**{OTHERS}"] if takes_more(function) or len(head) == 1 else []
    else:
        head, more = list(parameter_list(own)), [f"**{each}" for each in takes_more(function)]
    task = f'Task(id="", messages=(), answer={gold})'
    return [f"def {name}({', '.join([*head, *more])}):", f"    return {paid.format(task, reply)}"]


def of_batch(name: str, function: Callable[..., Any], column: str, conversational: bool, paid: str) -> list[str]:
    """A function of many replies, as TRL calls it."""
    if column in ("prompts", BATCH):
        return []
    content = 'completion[0]["content"]' if conversational else "completion"
    before = [each for each in named_parameters(function) if each == "prompts"]
    listed = usable(column, paid)
    golds = column if listed else f"{OTHERS}[{column!r}]"
    return [
        f"def {name}({', '.join([*before, BATCH, *([column] if listed else [])])}, **{OTHERS}):",
        f'    golds = [Task(id="", messages=(), answer=answer) for answer in {golds}]',
        f"    return [{paid.format('gold', content)} for gold, completion in zip(golds, {BATCH})]",
    ]


def named_parameters(function: Callable[..., Any]) -> dict[str, Parameter]:
    """The parameters that have a name of their own."""
    several = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
    return {name: each for name, each in parameters(function).items() if each.kind not in several}


def parameter_list(own: dict[str, Parameter]) -> Iterator[str]:
    """The parameters as code. One that had a default keeps one; its value has no effect."""
    keywords = False
    for name, parameter in own.items():
        if parameter.kind is Parameter.KEYWORD_ONLY and not keywords:
            keywords = True
            yield "*"
        yield name if parameter.default is Parameter.empty else f"{name}=None"


def takes_more(function: Callable[..., Any]) -> list[str]:
    """The parameter for all other keywords, if the function has one."""
    return [name for name, each in parameters(function).items() if each.kind is Parameter.VAR_KEYWORD]


def usable(name: str, paid: str) -> bool:
    """Whether a column can be a parameter."""
    return name.isidentifier() and not iskeyword(name) and name not in {*reserved_names(paid), OTHERS, "zip"}


def reserved_names(code: str) -> set[str]:
    """The names that the function needs from its module."""
    return {"Task", *re.findall("Number|Math|Text", code)}


def free_name(name: str, judge: str) -> str:
    """A name that can be defined."""
    last = re.split(r"[.:]", name)[-1]
    return last if last.isidentifier() and not iskeyword(last) and last not in reserved_names(judge) else "reward"
