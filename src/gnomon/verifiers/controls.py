"""Controls for experiments: verifiers that change the verdicts of a correct verifier.

A gain under a control is not caused by correct rewards. Every draw is a hash of the task's id and the reply, so a
control is a pure function.
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
    """A verifier that wraps another and changes its verdicts."""

    of: Verifier
    seed: int = 0
    """Seed of the draws. Two seeds give two independent controls."""
    purpose: ClassVar[str] = "control"

    @property
    def reward_range(self) -> tuple[float, float]:
        return self.of.reward_range

    def verify(self, task: Task, reply: str) -> Verdict:
        raise NotImplementedError

    def draw(self, *content: str) -> float:
        """A number in [0, 1) that depends only on the seed and these texts."""
        digest = blake2b(repr((self.purpose, self.seed, content)).encode(), digest_size=8).digest()
        return int.from_bytes(digest, "big") / 2**64

    def relabelled(self, verdict: Verdict, right: bool, why: str) -> Verdict:
        """The verdict that a correct or a wrong answer at the same span would get."""
        status = Status.CORRECT if right else Status.WRONG
        if isinstance(self.of, Slot):
            return self.of.verdict(status, extracted=verdict.extracted, span=verdict.span, detail=why)
        low, high = self.reward_range
        part = Part(name="correct", value=high if right else low)
        return replace(verdict, status=status, parts=(part,), detail=why)


def readable(verdict: Verdict) -> bool:
    """Whether the reply contained a readable answer, correct or wrong."""
    return verdict.status.kind is Kind.SCORED


@dataclass(frozen=True, kw_only=True)
class Random(Control):
    """Judge every readable answer correct with the same probability, independent of its content."""

    share: float = 0.5
    purpose: ClassVar[str] = "random"

    def __post_init__(self) -> None:
        probability("share", self.share)

    def verify(self, task: Task, reply: str) -> Verdict:
        verdict = self.of.verify(task, reply)
        if not readable(verdict):
            return verdict
        return self.relabelled(verdict, self.draw(task.id, reply) < self.share, "drawn")


@dataclass(frozen=True, kw_only=True)
class Shuffled(Control):
    """Judge a reply as an answer to another task. The other task is drawn once for each task."""

    tasks: tuple[Task, ...]
    """The tasks to draw from. A task is never assigned to itself."""
    purpose: ClassVar[str] = "shuffled"

    def __post_init__(self) -> None:
        if len({task.id for task in self.tasks}) < 2:
            raise ValueError("shuffling needs at least two different tasks")

    def other(self, task: Task) -> Task:
        others = [other for other in self.tasks if other.id != task.id]
        return others[int(self.draw(task.id) * len(others))]

    def verify(self, task: Task, reply: str) -> Verdict:
        other = self.other(task)
        return replace(self.of.verify(other, reply), detail=f"judged as an answer to task {other.id}")


@dataclass(frozen=True, kw_only=True)
class WrongLabel(Control):
    """Judge correct answers wrong, and readable wrong answers correct."""

    def verify(self, task: Task, reply: str) -> Verdict:
        verdict = self.of.verify(task, reply)
        return self.relabelled(verdict, not verdict.correct, "the other way round") if readable(verdict) else verdict


@dataclass(frozen=True, kw_only=True)
class FormatOnly(Control):
    """Judge every readable answer correct."""

    def verify(self, task: Task, reply: str) -> Verdict:
        verdict = self.of.verify(task, reply)
        return self.relabelled(verdict, True, "the answer is readable") if readable(verdict) else verdict


@dataclass(frozen=True, kw_only=True)
class Noisy(Control):
    """Correct verdicts, with fixed rates of false positives and false negatives."""

    false_positive: float = 0.0
    """Probability that a readable wrong answer is judged correct."""
    false_negative: float = 0.0
    """Probability that a correct answer is judged wrong."""
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
        return self.relabelled(verdict, not verdict.correct, "noise")


def probability(name: str, value: float) -> None:
    if not 0 <= value <= 1:
        raise ValueError(f"{name} is {value}; it must be from 0 to 1")
