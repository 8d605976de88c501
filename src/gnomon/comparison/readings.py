r"""Read a reply leniently: what its answer may be, whatever form it has.

A verifier reads one form and refuses the others, so that a policy learns it. Here the last answer counts in any usual
form: the last slot, the last `\boxed{…}`, the last line, what follows the last "is", "=" or ":" in it, and its last
number.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol, runtime_checkable

from gnomon.rejudge.again import JudgeSpec, build_judge
from gnomon.types import Task, Verdict
from gnomon.verifiers import Strictness, extract
from gnomon.verifiers.boxes import read_box
from gnomon.verifiers.text import unwrap

__all__ = ["Framed", "Lenient", "framing_env", "readings"]

NUMBER = re.compile(r"[-−]?\d[\d,]*(?:\.\d+)?(?:/\d+)?")
LED = re.compile(r"(?:\bis\b|=|:)\s*(?P<answer>[^=:]+)$")
"""What follows the last of the signs that lead to an answer, at the end of a line."""
END = " \t\n.,;!"


@runtime_checkable
class Framed(Protocol):
    """An environment whose verifier reads an answer in a frame, and can write one."""

    def framed(self, answer: str) -> str:
        """A reply with this answer in its frame."""
        ...

    def verify(self, task: Task, reply: str) -> Verdict: ...


def framing_env(env: object) -> Framed | None:
    """The environment, or the one that it wraps, if its answers have a frame."""
    return next((each for each in (env, getattr(env, "env", None)) if isinstance(each, Framed)), None)


def readings(reply: str) -> Iterator[str]:
    """The texts that may be the answer of a reply, without repetitions. None for a reply whose reasoning never ends."""
    yield from dict.fromkeys(text for text in candidates(reply) if text)


def candidates(reply: str) -> Iterator[str]:
    for extraction in (extract(reply, Strictness.LENIENT), read_box(reply, Strictness.LENIENT)):
        if extraction.text is not None:
            yield extraction.text
            yield unwrap(extraction.text.strip(END))
    line = extract(reply, Strictness.LENIENT).text
    if line is None:
        return
    if led := LED.search(line.rstrip(END)):
        yield unwrap(led["answer"].strip(END))
    if numbers := NUMBER.findall(line):
        yield numbers[-1].replace(",", "")


@dataclass(frozen=True, slots=True)
class Lenient:
    """The verifier of an environment, for replies in any form: light to send to a worker."""

    env: JudgeSpec

    def verify(self, task: Task, reply: str) -> Verdict:
        """The verdict on the reply as it is, unless another reading of it is right."""
        judge = judge_of(self.env)
        verdict: Verdict = judge.verify(task, reply)
        if verdict.correct:
            return verdict
        others: Iterator[Verdict] = (judge.verify(task, judge.framed(text)) for text in readings(reply))
        return next((other for other in others if other.correct), verdict)


@cache
def judge_of(spec: JudgeSpec) -> Any:
    return framing_env(build_judge(spec))
