"""Controls of an experiment: verifiers that are wrong on purpose, around one that is right.

What a policy learns from a control, it did not learn from the truth. Every draw is a hash of the task's id and the
reply, so a control is as pure a function as what it wraps.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import ClassVar

from gnomon.types import Kind, Part, Status, Task, Verdict
from gnomon.verifiers.slot import Slot, Verifier

__all__ = ["Control", "FormatOnly", "Noisy", "Random", "Shuffled", "WrongLabel"]


@dataclass(frozen=True, kw_only=True)
class Control:
    """A verifier whose word is changed."""

    of: Verifier
    seed: int = 0
    """Of the draws; two seeds give two independent controls."""
    purpose: ClassVar[str] = "control"

    @property
    def reward_range(self) -> tuple[float, float]:
        return self.of.reward_range

    def verify(self, task: Task, reply: str) -> Verdict:
        raise NotImplementedError

    def draw(self, *content: str) -> float:
        """A number from 0 to below 1 that is a function of the seed and these texts alone."""
        digest = blake2b(repr((self.purpose, self.seed, content)).encode(), digest_size=8).digest()
        return int.from_bytes(digest, "big") / 2**64

    def said(self, verdict: Verdict, right: bool, why: str) -> Verdict:
        """The verdict as it would be on a right or a wrong answer in the same place."""
        status = Status.CORRECT if right else Status.WRONG
        if isinstance(self.of, Slot):
            return self.of.verdict(status, extracted=verdict.extracted, span=verdict.span, detail=why)
        low, high = self.reward_range
        part = Part(name="correct", value=high if right else low)
        return replace(verdict, status=status, parts=(part,), detail=why)


def readable(verdict: Verdict) -> bool:
    """Whether there was an answer, right or wrong."""
    return verdict.status.kind is Kind.SCORED


@dataclass(frozen=True, kw_only=True)
class Random(Control):
    """Every readable answer is right with the same probability, whatever it says."""

    share: float = 0.5
    purpose: ClassVar[str] = "random"

    def __post_init__(self) -> None:
        probability("share", self.share)

    def verify(self, task: Task, reply: str) -> Verdict:
        verdict = self.of.verify(task, reply)
        if not readable(verdict):
            return verdict
        return self.said(verdict, self.draw(task.id, reply) < self.share, "drawn")


@dataclass(frozen=True, kw_only=True)
class Shuffled(Control):
    """The verdict that the reply would get on another task, drawn for each task once."""

    tasks: tuple[Task, ...]
    """To draw from; a task is never given itself."""
    purpose: ClassVar[str] = "shuffled"

    def __post_init__(self) -> None:
        if len({task.id for task in self.tasks}) < 2:
            raise ValueError("to be shuffled, two different tasks are needed")

    def other(self, task: Task) -> Task:
        others = [other for other in self.tasks if other.id != task.id]
        return others[int(self.draw(task.id) * len(others))]

    def verify(self, task: Task, reply: str) -> Verdict:
        other = self.other(task)
        return replace(self.of.verify(other, reply), detail=f"judged as an answer to task {other.id}")


@dataclass(frozen=True, kw_only=True)
class WrongLabel(Control):
    """A right answer is wrong, and every wrong one that can be read is right."""

    def verify(self, task: Task, reply: str) -> Verdict:
        verdict = self.of.verify(task, reply)
        return self.said(verdict, not verdict.correct, "the other way round") if readable(verdict) else verdict


@dataclass(frozen=True, kw_only=True)
class FormatOnly(Control):
    """Every answer that can be read is right."""

    def verify(self, task: Task, reply: str) -> Verdict:
        verdict = self.of.verify(task, reply)
        return self.said(verdict, True, "it can be read") if readable(verdict) else verdict


@dataclass(frozen=True, kw_only=True)
class Noisy(Control):
    """The truth, but for a chosen share of right answers called wrong and of wrong ones called right."""

    false_positive: float = 0.0
    """Probability that a readable wrong answer is called right."""
    false_negative: float = 0.0
    """Probability that a right answer is called wrong."""
    purpose: ClassVar[str] = "noisy"

    def __post_init__(self) -> None:
        probability("false_positive", self.false_positive)
        probability("false_negative", self.false_negative)

    def verify(self, task: Task, reply: str) -> Verdict:
        verdict = self.of.verify(task, reply)
        if not readable(verdict):
            return verdict
        rate = self.false_negative if verdict.correct else self.false_positive
        if self.draw(task.id, reply) >= rate:
            return verdict
        return self.said(verdict, not verdict.correct, "noise")


def probability(name: str, value: float) -> None:
    if not 0 <= value <= 1:
        raise ValueError(f"{name} is {value}; it must be from 0 to 1")
