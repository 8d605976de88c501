"""Python scripts that reproduce findings."""

from __future__ import annotations

import ast
import base64
import pickletools
import sys
import zlib
from contextlib import suppress
from dataclasses import fields, is_dataclass, replace
from enum import StrEnum

from gnomon.audit.reach import MAX_TOKENS
from gnomon.audit.subject import LIMITS, Subject
from gnomon.envs.blame import line
from gnomon.types import Task
from gnomon.workers import serialise

__all__ = ["call_script", "rule_script"]

LONG = 2000
"""Longest reply, in characters, that a script contains unencoded."""

HEAD = '''"""{rule} in {name}: {what}

Exits with 1 while the fault exists, else with 0.
"""

import sys

from gnomon.audit.repro import {names}
from gnomon.audit.subject import Subject, VerdictLimits, subject_of
from gnomon.types import Message, Task

'''


def call_script(subject: Subject, rule: str, index: int, reply: str, claim: str, what: str) -> str:
    """The script of a fault in one call. Args: claim: a Python expression about the `judgement`."""
    text = repr(reply) if len(reply) <= LONG else f"unpack({pack(reply)!r})"
    return head(subject, rule, what, "load, replay, unpack, unpickle") + (
        f"verifier = {expression_of(subject.verifier)}\n"
        f"task = {task_text(subject.tasks[index])}\n"
        f"judgement = replay(verifier, task, {text}{limits_text(subject)})\n"
        "print(judgement)\n"
        f"sys.exit(1 if {claim} else 0)\n"
    )


def rule_script(subject: Subject, rule: str, seed: int, tasks: int, what: str, max_tokens: int = MAX_TOKENS) -> str:
    """The script of a fault over many calls. It repeats the rule's axis."""
    if subject.env is not None:
        subject_text = f"subject_of({expression_of(subject.env)}, count={tasks}{limits_text(subject)})"
    else:
        task_list = "".join(f"    {task_text(with_solution(subject, task))},\n" for task in subject.tasks[:tasks])
        subject_text = f"subject_of(verifier, (\n{task_list}){limits_text(subject)})"
    limit = "" if max_tokens == MAX_TOKENS else f", max_tokens={max_tokens}"
    return head(subject, rule, what, "found_again, load, unpickle") + (
        (f"verifier = {expression_of(subject.verifier)}\n" if subject.env is None else "")
        + f"there = found_again({subject_text}, {rule!r}, seed={seed}, tasks={tasks}{limit})\n"
        f'print("{rule}:", "there" if there else "gone")\n'
        "sys.exit(1 if there else 0)\n"
    )


def limits_text(subject: Subject) -> str:
    """The limits of a verdict as an argument, if they are not the usual ones."""
    return "" if subject.limits == LIMITS else f", limits={subject.limits!r}"


def with_solution(subject: Subject, task: Task) -> Task:
    """The task with its correct reply, since a script has no `solution`."""
    reply = None
    with suppress(Exception):  # A solution that raises is already reported.
        reply = subject.solution(task) if subject.solution is not None else None
    return task if reply is None else replace(task, info={**task.info, "reply": reply})


def head(subject: Subject, rule: str, what: str, names: str) -> str:
    what_line = line(what).replace("\\", "\\\\").replace('"""', "'''")
    return HEAD.format(rule=rule, name=subject.name, what=what_line, names=names)


def pack(text: str) -> str:
    return base64.b85encode(zlib.compress(text.encode("utf-8", "surrogatepass"), 9)).decode()


def expression_of(thing: object) -> str:
    """An expression that rebuilds the object."""
    kind = type(thing)
    options = {}
    for field in fields(thing) if is_dataclass(thing) and not isinstance(thing, type) else ():
        value = getattr(thing, field.name)
        if not field.init or value == field.default:
            continue
        value = value.value if isinstance(value, StrEnum) else value
        if not literal(value):
            return pickle_text(thing)
        options[field.name] = value
    if not is_dataclass(thing) and getattr(thing, "__dict__", None):
        return pickle_text(thing)
    file = getattr(sys.modules.get(kind.__module__), "__file__", None)
    if file is None or "<locals>" in kind.__qualname__:
        return pickle_text(thing)
    arguments = ", ".join(f"{name}={value!r}" for name, value in options.items())
    return f"load({kind.__module__!r}, {file!r}, {kind.__qualname__!r})({arguments})"


def pickle_text(thing: object) -> str:
    payload = serialise.pack_value(thing)
    module_names = {word for _, word, _ in pickletools.genops(payload) if isinstance(word, str)} & sys.modules.keys()
    files = ((name, getattr(sys.modules[name], "__file__", None)) for name in sorted(module_names - {"__main__"}))
    modules = "".join(f", {pair!r}" for pair in files if not pair[0].startswith("gnomon."))
    return f"unpickle({base64.b85encode(payload).decode()!r}{modules})"


def task_text(task: Task) -> str:
    """The task as an expression."""
    info = dict(task.info)
    if not (literal(task.answer) and literal(info)):
        return pickle_text(task)
    messages = "".join(f"Message(role={m.role!r}, content={m.content!r}), " for m in task.messages)
    return f"Task(id={task.id!r}, messages=({messages}), answer={task.answer!r}, info={info!r})"


def literal(value: object) -> bool:
    try:
        return bool(ast.literal_eval(repr(value)) == value)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return False
