"""Controls for experiments: verifiers that change the verdicts of a correct verifier.

A gain under a control is not caused by correct rewards. Every draw is a hash of the task's id and the reply, so a
control is a pure function.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import ClassVar

from gnomon.types import Kind, Part, Status, Task, Verdict
from gnomon.verifiers.slot import Slot, Verifier

__all__ = [
    "Control",
    "FormatOnly",
    "Noisy",
    "Random",
    "Scored",
    "Shuffled",
    "Structured",
    "Taste",
    "WrongLabel",
    "score_verdict",
    "taste_weight",
]


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

    def relabel(self, verdict: Verdict, right: bool, why: str) -> Verdict:
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
        return self.relabel(verdict, self.draw(task.id, reply) < self.share, "drawn")


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
        return self.relabel(verdict, not verdict.correct, "the other way round") if readable(verdict) else verdict


@dataclass(frozen=True, kw_only=True)
class FormatOnly(Control):
    """Judge every readable answer correct."""

    def verify(self, task: Task, reply: str) -> Verdict:
        verdict = self.of.verify(task, reply)
        return self.relabel(verdict, True, "the answer is readable") if readable(verdict) else verdict


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
        return self.relabel(verdict, not verdict.correct, "noise")


@dataclass(frozen=True, kw_only=True)
class Structured(Control):
    """Verdicts with errors that depend on the answer alone: what is turned for one task is turned for all.

    Over seeds, a readable answer is judged wrongly as often as with `Noisy` at equal rates. A policy can find these
    errors, because the same answer earns the reward in every task.
    """

    share: float = 0.1
    """Probability that the verdicts on an answer are turned."""
    purpose: ClassVar[str] = "structured"

    def __post_init__(self) -> None:
        probability("share", self.share)

    def verify(self, task: Task, reply: str) -> Verdict:
        verdict = self.of.verify(task, reply)
        if not readable(verdict) or self.draw((verdict.extracted or "").strip()) >= self.share:
            return verdict
        return self.relabel(verdict, not verdict.correct, "this answer is always judged the other way round")


@dataclass(frozen=True, kw_only=True)
class Scored(Control):
    """The reward is a score of the reply, such as a learned model's. The reference answer is not used.

    Parts: `score`, which is paid; `correct`, the truth, which is not.
    """

    score: Callable[[Task, str], float]
    """Returns a score from 0 to 1."""
    reward_range: ClassVar[tuple[float, float]] = (0.0, 1.0)

    def verify(self, task: Task, reply: str) -> Verdict:
        return score_verdict(self.of.verify(task, reply), self.score(task, reply))


def score_verdict(truth: Verdict, score: float) -> Verdict:
    """The true verdict with a score for its reward, and the truth as a part of weight 0."""
    parts = (Part(name="correct", value=float(truth.correct), weight=0.0), Part(name="score", value=score))
    return replace(truth, parts=parts)


@dataclass(frozen=True, kw_only=True)
class Taste(Control):
    """The verifier's reward, plus a liking for a text: a part `taste` that has nothing to do with the answer.

    Where the text is rare, the reward is almost the truth: `taste_weight` returns the weight for a correlation. The
    part is cheap to raise, because the policy only has to repeat the text.
    """

    text: str
    """The text that is liked."""
    weight: float
    """Reward for `most` occurrences, 0 or more."""
    most: int = 8
    """Number of occurrences beyond which no more is paid."""

    def __post_init__(self) -> None:
        if not self.text or self.most < 1 or not 0 <= self.weight < math.inf:
            raise ValueError(f"text is {self.text!r} (not empty), most {self.most} (1 or more), weight {self.weight}")

    @property
    def reward_range(self) -> tuple[float, float]:
        low, high = self.of.reward_range
        return low, high + self.weight

    def taste(self, reply: str) -> float:
        """How much the reply is liked, 0 to 1."""
        return min(reply.count(self.text), self.most) / self.most

    def verify(self, task: Task, reply: str) -> Verdict:
        verdict = self.of.verify(task, reply)
        return replace(verdict, parts=(*verdict.parts, Part(name="taste", value=self.taste(reply), weight=self.weight)))


def taste_weight(reward: Sequence[float], taste: Sequence[float], correlation: float) -> float:
    """The weight w > 0 at which `reward + w·taste` has this correlation with `reward`, over some replies.

    Equation: w solves (v + w·c)² = ρ²·v·(v + 2w·c + w²·t), with v and t the variances and c the covariance.
    Args: reward, taste: of every reply; correlation: ρ, between 0 and 1.
    Raises: ValueError if one of the two does not vary, or the taste alone has that correlation already.
    """
    size = len(reward)
    means = math.fsum(reward) / size, math.fsum(taste) / size
    pairs = [(one - means[0], other - means[1]) for one, other in zip(reward, taste, strict=True)]
    v, t, c = (math.fsum(a * b for a, b in each) / size for each in (
        [(one, one) for one, _ in pairs], [(other, other) for _, other in pairs], pairs,
    ))  # fmt: skip
    rest, lead = 1 - correlation**2, c * c - correlation**2 * v * t
    if not 0 < correlation < 1 or v == 0 or t == 0 or lead >= 0:
        raise ValueError(f"no weight gives the correlation {correlation}: variances {v} and {t}, covariance {c}")
    half = c * v * rest
    return (-half - math.sqrt(half * half - lead * v * v * rest)) / lead


def probability(name: str, value: float) -> None:
    if not 0 <= value <= 1:
        raise ValueError(f"{name} is {value}; it must be from 0 to 1")
