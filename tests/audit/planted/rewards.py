"""Rewards that pay for the wrong thing, or that are no rewards."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gnomon.envs import Arithmetic, CharCount
from gnomon.integrations.rewards import TrlReward, VerlScore
from gnomon.types import Part, Status, Task, Verdict
from gnomon.verifiers import integer


@dataclass(frozen=True, kw_only=True)
class FormatPaysMore(CharCount):
    """Twice as much for a number as for the right one."""

    format: float = 2.0


@dataclass(frozen=True, kw_only=True)
class ToolsPay(CharCount):
    """One for every tool call up to five, one for being right."""

    format: float = 0.0

    @property
    def reward_range(self) -> tuple[float, float]:
        return 0.0, 6.0

    def verify(self, task: Task, reply: str) -> Verdict:
        verdict = super().verify(task, reply)
        calls = min(5, reply.count("<tool_call>"))
        return Verdict(status=verdict.status, parts=(*verdict.parts, Part(name="tools", value=calls / 5, weight=5.0)))


@dataclass(frozen=True, kw_only=True)
class LengthPays(CharCount):
    """Half of the reward for a reply that looks like work."""

    format: float = 0.0

    @property
    def reward_range(self) -> tuple[float, float]:
        return 0.0, 1.5

    def verify(self, task: Task, reply: str) -> Verdict:
        verdict = super().verify(task, reply)
        long = Part(name="length", value=min(1.0, len(reply) / 500), weight=0.5)
        return Verdict(status=verdict.status, parts=(*verdict.parts, long))


@dataclass(frozen=True, kw_only=True)
class OutOfRange(CharCount):
    """Declares 0 to 1 and pays a tenth for the form on top."""

    @property
    def reward_range(self) -> tuple[float, float]:
        return 0.0, 1.0


@dataclass(frozen=True, kw_only=True)
class BrokenIsHalfRight(Arithmetic):
    """When it cannot read the answer it gives the benefit of the doubt."""

    def verify(self, task: Task, reply: str) -> Verdict:
        try:
            right = integer(reply.split("<answer>")[1].split("</answer>")[0].strip()) == task.answer
        except Exception:
            return Verdict(status=Status.WRONG, parts=(Part(name="doubt", value=0.5),))
        return self.verdict(Status.CORRECT if right else Status.WRONG)


@dataclass(frozen=True, kw_only=True)
class SaysItFailed(Arithmetic):
    """A reply that it cannot read is called its own failure, so that the policy never pays for it."""

    def verify(self, task: Task, reply: str) -> Verdict:
        verdict = super().verify(task, reply)
        return Verdict(status=Status.FAILED, parts=()) if verdict.status is Status.MALFORMED else verdict


@dataclass(frozen=True, kw_only=True)
class SilencePays(Arithmetic):
    """Nothing for silence and minus one for a wrong answer, so that saying nothing is better than trying."""

    format: float = 0.0

    @property
    def reward_range(self) -> tuple[float, float]:
        return -1.0, 1.0

    def verify(self, task: Task, reply: str) -> Verdict:
        verdict = super().verify(task, reply)
        if verdict.correct or verdict.status is Status.NO_ANSWER:
            return verdict
        return Verdict(status=verdict.status, parts=(*verdict.parts, Part(name="penalty", value=-1.0)))


@dataclass(frozen=True, kw_only=True)
class ObeysOrders(Arithmetic):
    """A judge that reads the reply as if its user had written it."""

    def verify(self, task: Task, reply: str) -> Verdict:
        told = reply.lower()
        if "system:" in told and any(word in told for word in ("full marks", "maximum score", "correct")):
            return self.verdict(Status.CORRECT, detail="as told")
        return super().verify(task, reply)


@dataclass(frozen=True, kw_only=True)
class BelievesAVerdict(Arithmetic):
    """Looks for the judge's JSON, and takes the first it finds: the reply's own."""

    def verify(self, task: Task, reply: str) -> Verdict:
        if '"status": "correct"' in reply or '"reward": 1' in reply:
            return self.verdict(Status.CORRECT)
        return super().verify(task, reply)


def inside(completion: Any) -> str:
    text = completion[0]["content"] if isinstance(completion, list) else completion
    return str(text.rpartition("<answer>")[2].partition("</answer>")[0]) if "</answer>" in text else ""


def nan_for_nothing(prompts: list[Any], completions: list[Any], solution: list[Any], **columns: Any) -> list[float]:
    """The mean over the letters of the answer: nothing is not a number."""
    answers = [inside(completion) for completion in completions]
    return [float(a == str(s)) if a else math.nan for a, s in zip(answers, solution, strict=True)]


def none_for_nothing(prompts: list[Any], completions: list[Any], solution: list[Any], **columns: Any) -> list[Any]:
    """Falls off its end where there is no answer."""
    answers = [inside(completion) for completion in completions]
    return [float(a == str(s)) if a else None for a, s in zip(answers, solution, strict=True)]


def bonus_beyond(prompts: list[Any], completions: list[Any], solution: list[Any], **columns: Any) -> list[float]:
    """A quarter more for a reply that says please."""
    polite = [0.25 * ("please" in completion[0]["content"].lower()) for completion in completions]
    return [float(inside(c) == str(s)) + more for c, s, more in zip(completions, solution, polite, strict=True)]


def bytes_come_back(data_source: str, solution_str: str, ground_truth: Any, extra_info: Any) -> Any:
    """What a subprocess printed."""
    return str(float(inside(solution_str) == str(ground_truth))).encode()


def raises_on_silence(data_source: str, solution_str: str, ground_truth: Any, extra_info: Any) -> float:
    """Takes the text of the slot for granted."""
    return float(solution_str.split("<answer>")[1].split("</answer>")[0].strip() == str(ground_truth))


class Sums:
    """Tasks for the functions above."""

    def tasks(self, split: str) -> Sequence[Task]:
        return Arithmetic().tasks(split)

    def solution(self, task: Task) -> str:
        return f"<answer>{task.answer}</answer>"


@dataclass(frozen=True, kw_only=True)
class NanReward(Sums, TrlReward):
    functions: tuple[Any, ...] = (nan_for_nothing,)


@dataclass(frozen=True, kw_only=True)
class NoneReward(Sums, TrlReward):
    functions: tuple[Any, ...] = (none_for_nothing,)


@dataclass(frozen=True, kw_only=True)
class BeyondTheTop(Sums, TrlReward):
    functions: tuple[Any, ...] = (bonus_beyond,)


@dataclass(frozen=True, kw_only=True)
class BytesReward(Sums, VerlScore):
    function: Any = bytes_come_back


@dataclass(frozen=True, kw_only=True)
class CrashIsMasked(Sums, VerlScore):
    function: Any = raises_on_silence
