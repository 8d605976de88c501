"""Verifiers that look for the answer in the wrong place, or find it where there is none."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass

from gnomon.envs import Arithmetic, CharCount, SingleTurn, identity
from gnomon.envs.base import SLOT
from gnomon.types import Message, Status, Task, Verdict
from gnomon.verifiers import integer

ANSWER = re.compile(r"<answer>(.*?)</answer>", re.DOTALL)


@dataclass(frozen=True, kw_only=True)
class FirstSlotWins(Arithmetic):
    """The first slot counts, in the reasoning or not, whatever comes after."""

    def verify(self, task: Task, reply: str) -> Verdict:
        found = ANSWER.search(reply)
        right = found is not None and found[1].strip() == str(task.answer)
        return self.verdict(Status.CORRECT if right else Status.WRONG if found else Status.NO_ANSWER)


@dataclass(frozen=True, kw_only=True)
class FirstBracketPlays(SingleTurn):
    """The first bracket of the reply is the move, so thinking aloud plays it."""

    format: float = 0.0

    def make(self, rng: random.Random) -> Task:
        free = sorted(rng.sample(range(1000), 3))
        said = ", ".join(map(str, free))
        return Task(
            id=identity("bracket", free),
            messages=(Message(role="user", content=f"Which is the largest of {said}? Reply with [number]. {SLOT}"),),
            answer=max(free),
            info={},
        )

    def check(self, task: Task, answer: str) -> bool:
        return integer(answer) == int(task.answer)

    def solution(self, task: Task) -> str:
        return str(task.answer)

    def verify(self, task: Task, reply: str) -> Verdict:
        found = re.search(r"\[(\d+)\]", reply) or ANSWER.search(reply)
        right = found is not None and found[1] == str(task.answer)
        return self.verdict(Status.CORRECT if right else Status.WRONG if found else Status.NO_ANSWER)


@dataclass(frozen=True, kw_only=True)
class LastNumberWins(Arithmetic):
    """The last number of the reply counts, in a slot or not."""

    def verify(self, task: Task, reply: str) -> Verdict:
        found = re.findall(r"-?\d+", reply[-4096:])
        right = bool(found) and found[-1] == str(task.answer)
        return self.verdict(Status.CORRECT if right else Status.WRONG if found else Status.NO_ANSWER)


@dataclass(frozen=True, kw_only=True)
class AnywhereInTheReply(Arithmetic):
    """Right if the answer stands somewhere."""

    def verify(self, task: Task, reply: str) -> Verdict:
        right = re.search(rf"(?<!\d){re.escape(str(task.answer))}(?!\d)", reply) is not None
        return self.verdict(Status.CORRECT if right else Status.WRONG)


@dataclass(frozen=True, kw_only=True)
class SubstringEitherWay(Arithmetic):
    """Right if the answer contains the gold, or the gold the answer: an empty one is in everything."""

    def check(self, task: Task, answer: str) -> bool:
        return str(task.answer) in answer or answer in str(task.answer)


@dataclass(frozen=True, kw_only=True)
class SubstringCredit(Arithmetic):
    """An answer that contains the gold earns the gold's share of its length."""

    def check(self, task: Task, answer: str) -> float:
        gold = str(task.answer)
        return len(gold) / len(answer) if gold in answer else 0.0


@dataclass(frozen=True, kw_only=True)
class EmptySlotPays(CharCount):
    """A tenth for a slot, with something in it or not."""

    def verify(self, task: Task, reply: str) -> Verdict:
        verdict = super().verify(task, reply)
        if "<answer>" in reply and "</answer>" in reply and not verdict.correct:
            return self.verdict(Status.WRONG)
        return verdict


@dataclass(frozen=True, kw_only=True)
class UnclosedThinking(Arithmetic):
    """Takes the tags of the reasoning away, and with them what they were there for."""

    def verify(self, task: Task, reply: str) -> Verdict:
        return super().verify(task, reply.replace("<think>", "").replace("</think>", ""))


@dataclass(frozen=True, kw_only=True)
class OpenedByThePrompt(Arithmetic):
    """The prompt ends with the tag, so it is no part of what the policy wrote."""

    def verify(self, task: Task, reply: str) -> Verdict:
        return super().verify(task, reply.removeprefix("<think>\n"))


@dataclass(frozen=True, kw_only=True)
class AnyOfSeveral(Arithmetic):
    """Several answers are allowed, and one of them must be right."""

    def verify(self, task: Task, reply: str) -> Verdict:
        found = [text.strip() for text in ANSWER.findall(reply)]
        status = Status.CORRECT if str(task.answer) in found else Status.WRONG if found else Status.NO_ANSWER
        return self.verdict(status)


@dataclass(frozen=True, kw_only=True)
class PromptEchoAccepted(SingleTurn):
    """The answer is one of the words of the question, and any reply that has it is right."""

    format: float = 0.0

    def make(self, rng: random.Random) -> Task:
        first, second = rng.sample(range(100, 1000), 2)
        return Task(
            id=identity("larger", first, second),
            messages=(Message(role="user", content=f"Which is larger, {first} or {second}? {SLOT}"),),
            answer=max(first, second),
        )

    def check(self, task: Task, answer: str) -> bool:
        return integer(answer) == int(task.answer)

    def solution(self, task: Task) -> str:
        return str(task.answer)

    def verify(self, task: Task, reply: str) -> Verdict:
        return self.verdict(Status.CORRECT if str(task.answer) in reply else Status.WRONG)


@dataclass(frozen=True, kw_only=True)
class LongRepliesAreRight(Arithmetic):
    """Whoever writes this much has thought about it."""

    def check(self, task: Task, answer: str) -> bool:
        return answer == str(task.answer) or len(answer) > 2000
