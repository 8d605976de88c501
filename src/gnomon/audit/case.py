"""Facts about a subject that all axes share: correct replies, the frame of an answer, wrong answers."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any
from unicodedata import normalize

from gnomon.audit.corpus import NUMBER, hostile_calls, prompt
from gnomon.audit.finding import Axis, Evidence, Finding, Severity
from gnomon.audit.frame import KNOWN, Frame, find_frame, learnt
from gnomon.audit.judging import Judgement, VerifierWorkers
from gnomon.audit.reach import Reach
from gnomon.audit.scripts import call_script, rule_script
from gnomon.audit.source import literals, texts
from gnomon.audit.subject import Subject
from gnomon.envs.blame import blamed_line, describe, line
from gnomon.envs.episodes import Fault
from gnomon.integrations.rewards import Foreign
from gnomon.keys import Key
from gnomon.types import Task

__all__ = ["NUMBER", "Case", "careless", "excerpt", "plain_value", "prompt", "stated_answer"]


@dataclass(kw_only=True)
class Case:
    """A subject, the workers that judge it, and the findings so far."""

    subject: Subject
    workers: VerifierWorkers
    reach: Reach = field(default_factory=Reach)
    seed: int = 0
    tables: dict[str, Any] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)
    troubles: list[tuple[str, str]] = field(default_factory=list)
    """Errors of the subject's `solution`: message and place."""

    @property
    def tasks(self) -> tuple[Task, ...]:
        return self.subject.tasks

    def rng(self, purpose: str) -> random.Random:
        """A generator for one purpose, so that the draws of one axis do not affect another."""
        return Key(self.seed).at(f"audit {purpose}").random()

    @cached_property
    def rights(self) -> tuple[str | None, ...]:
        """A complete correct reply to each task, from the subject or built with a known frame."""
        solution = self.subject.solution
        if solution is None:
            return self._try_frames()
        replies: list[str | None] = []
        for task in self.tasks:
            try:
                reply = solution(task)
                if reply is not None and not isinstance(reply, str):
                    raise Fault(f"a solution must be a string, not {type(reply).__name__}")
                replies.append(reply)
            except Exception as error:
                self.troubles.append((describe(error), blamed_line(error, self.subject.verifier)))
                replies.append(None)
        return tuple(replies)

    def _try_frames(self) -> tuple[str | None, ...]:
        """The task's answer in the frame with which it is accepted most often; None if no frame works."""
        some = range(min(len(self.tasks), 20))
        indices = [i for i in some if stated_answer(self.tasks[i]) is not None]
        tallies = []
        for frame in KNOWN:
            judgements = self.workers.judge([(i, frame.put(str(self.tasks[i].answer))) for i in indices])
            tallies.append(sum(judgement.correct for judgement in judgements))
        if not indices or max(tallies) == 0:
            return (None,) * len(self.tasks)
        frame = KNOWN[tallies.index(max(tallies))]
        answers = [stated_answer(task) for task in self.tasks]
        return tuple(None if answer is None else frame.put(answer) for answer in answers)

    @cached_property
    def right_judgements(self) -> dict[int, Judgement]:
        """Judgements on the correct replies, by task index."""
        calls = [(i, reply) for i, reply in enumerate(self.rights) if reply is not None]
        return {judgement.index: judgement for judgement in self.workers.judge(calls)}

    @cached_property
    def answer_spans(self) -> dict[int, tuple[int, int]]:
        """Span of the answer in the correct reply, by task index: from the verdict, or by searching its text."""
        spans = {}
        for index, judgement in self.right_judgements.items():
            reply, answer = self.rights[index] or "", stated_answer(self.tasks[index])
            if judgement.span is not None and judgement.correct:
                spans[index] = judgement.span
            elif (span := find_frame(reply)) is not None:
                spans[index] = span
            elif answer and (at := reply.rfind(answer)) >= 0:
                spans[index] = (at, at + len(answer))
        return spans

    @cached_property
    def frame(self) -> Frame:
        places = [(self.rights[i] or "", start, end) for i, (start, end) in self.answer_spans.items()]
        if places:
            return learnt(places)
        return next((f for f in KNOWN if f.before and f.before in prompt(self.tasks[0])), KNOWN[0])

    @cached_property
    def golds(self) -> tuple[str | None, ...]:
        """The answer alone, as it occurs in the correct reply."""
        return tuple(
            (self.rights[i] or "")[slice(*self.answer_spans[i])] if i in self.answer_spans else None
            for i in range(len(self.tasks))
        )

    def wrongs(self, index: int, most: int = 3) -> list[str]:
        """Answers of other tasks that are wrong for this one by construction, the most similar first."""
        own, gold = self.tasks[index], self.golds[index]
        if gold is None or own.answer is None:
            return []
        answers: list[str] = []
        for other, answer in self.neighbours(index):
            if differ(own.answer, other.answer, gold, answer) and answer not in answers:
                answers.append(answer)
            if len(answers) == most:
                break
        return answers

    def neighbours(self, index: int) -> Iterator[tuple[Task, str]]:
        """Other tasks and their answers, those with a similar answer first."""
        first = [i for i in self.alike.get(careless(self.golds[index] or ""), ()) if i != index]
        count = len(self.tasks)
        for i in (*first, *((index + step) % count for step in range(1, count))):
            if (gold := self.golds[i]) is not None:
                yield self.tasks[i], gold

    @cached_property
    def alike(self) -> dict[str, list[int]]:
        groups: dict[str, list[int]] = {}
        for index, gold in enumerate(self.golds):
            if gold is not None:
                groups.setdefault(careless(gold), []).append(index)
        return groups

    @cached_property
    def corpus(self) -> list[Judgement]:
        """Judgements on hostile texts."""
        return self.workers.judge(hostile_calls(self.tasks, self.frame, self.golds[0], self.reach))

    @cached_property
    def nothing(self) -> float:
        """Mean reward of an empty reply over some tasks."""
        rewards = [r.reward for r in self.workers.judge((i, "") for i in range(min(20, len(self.tasks))))]
        good = [reward for reward in rewards if math.isfinite(reward)]
        return math.fsum(good) / len(good) if good else self.low

    @property
    def low(self) -> float:
        return self.subject.verifier.reward_range[0]

    @cached_property
    def least(self) -> float:
        """Smallest reward of a correct reply; the top of the range if none is known."""
        rewards = [judgement.reward for judgement in self.right_judgements.values() if judgement.correct]
        return min(rewards) if rewards else self.subject.verifier.reward_range[1]

    @cached_property
    def words(self) -> tuple[str, ...]:
        """Texts in the verifier's source. A reply that contains them may be rewarded."""
        return literals(self.subject.verifier)

    @cached_property
    def texts(self) -> tuple[str, ...]:
        """The same texts unchanged, including long ones, such as instructions for a judge."""
        return tuple(dict.fromkeys((*texts(self.subject.verifier), *self.words)))

    def reached(self, judgement: Judgement) -> bool:
        """Whether a policy of the run could write the reply. Replies that contain the correct reply always count."""
        right = self.rights[judgement.index]
        return self.reach.holds(judgement.reply) or (bool(right) and str(right) in judgement.reply)

    def plainest(self, judgements: Sequence[Judgement]) -> Judgement:
        """The judgement with the shortest reply, preferably one that a policy of the run could write."""
        return min(
            judgements, key=lambda judgement: (not self.reached(judgement), len(judgement.reply), judgement.index)
        )

    @cached_property
    def foreign(self) -> bool:
        """Whether the reward was written for another library: a number without a status."""
        things: list[Any] = [self.subject.verifier, self.subject.env]
        values = [getattr(thing, field.name) for thing in things if is_dataclass(thing) for field in fields(thing)]
        return any(isinstance(value, Foreign) for value in (*things, *values))

    def finding(
        self,
        rule: str,
        severity: Severity,
        what: str,
        shown_by: Sequence[Judgement] = (),
        *,
        claim: str = "",
        where: str = "",
        why: str = "",
        fix: str = "",
    ) -> Finding:
        """A finding of this subject.

        Args:
            shown_by: the judgements that show it; the shortest reply becomes the evidence. If no policy of the run
                could write any of the replies, the finding is a note.
            claim: a Python expression that is true of the `judgement` while the fault exists. Without one, the repro
                script repeats the whole axis.
        """
        axis = Axis(rule.partition(".")[0])
        evidence, repro = (
            Evidence(),
            rule_script(self.subject, rule, self.seed, len(self.tasks), what, self.reach.max_tokens),
        )
        if shown_by:
            best = self.plainest(shown_by)
            if not self.reached(best):
                severity, why = (
                    Severity.NOTE,
                    f"a reply of at most {self.reach.max_tokens} tokens cannot contain this text; {why}",
                )
            evidence = Evidence(task=self.tasks[best.index].id, reply=best.reply, index=best.index)
            where = where or best.place
            if claim:
                repro = call_script(self.subject, rule, best.index, best.reply, claim, what)
        return Finding(
            axis=axis, rule=rule, severity=severity, what=line(what), where=where, why=why, fix=fix,
            evidence=evidence, repro=repro, count=max(1, len(shown_by)),
        )  # fmt: skip


def excerpt(text: str, most: int = 60) -> str:
    """The text quoted and shortened for a sentence."""
    quoted = repr(text)
    return quoted if len(quoted) <= most else f"{quoted[: most - 12]}…' ({len(text):,} characters)"


def stated_answer(task: Task) -> str | None:
    """The task's answer as text, if it is text or a number."""
    return str(task.answer) if isinstance(task.answer, str | int | float) and str(task.answer) else None


def careless(answer: str) -> str:
    """An answer normalised without case, order, signs and units."""
    return "".join(sorted(char for char in answer.casefold() if char.isalnum()))


def plain_value(answer: str) -> str | Fraction:
    """An answer without layout; a fraction if it is a number, in LaTeX or not."""
    text = normalize("NFKC", answer).casefold()
    text = re.sub(r"\\(?:text|mathrm|mbox|textbf)\{([^{}]*)\}", r"\1", text)
    text = re.sub(r"\\[dt]?frac\{?(-?\d+)\}?\{?(\d+)\}?", r"\1/\2", text)
    text = re.sub(r"\\(?:left|right|[,;:! ])|[\s$]", "", text).rstrip(".")
    text = text[1:-1] if text.startswith("(") and text.endswith(")") else text
    text = re.sub(r"(?<=\d),(?=\d{3}(?!\d))", "", re.sub(r"^[a-z]=", "", text))
    try:
        return Fraction(text) if len(text) < 100 and "e" not in text else text
    except (ValueError, ZeroDivisionError):
        return text


def differ(own: Any, other: Any, gold: str, answer: str) -> bool:
    """Whether the other task's answer is certainly wrong here."""
    if other is None or own == other or gold == answer or gold.strip() == answer.strip():
        return False
    if plain_value(gold) == plain_value(answer):
        return False
    many = isinstance(own, Iterable) and not isinstance(own, str)
    return not (many and answer.strip() in {str(item) for item in own})
